"""torch.export.draft_export: a program also where the sizes that were asked for cannot all be left open."""

import logging
import re
from enum import IntEnum

from ..utils import _pytree as pytree
from .dynamic_shapes import Dim, _DimHint, _DimHintType

logger = logging.getLogger(__name__)


class FailureType(IntEnum):
    """What is wrong. Of these, draft_export meets GUARD_ADDED."""

    MISSING_FAKE_KERNEL = 1
    DATA_DEPENDENT_ERROR = 2
    GUARD_ADDED = 3
    MISMATCHED_FAKE_KERNEL = 4

    def __str__(self) -> str:
        return self.name


class FailureReport:
    """One thing that is wrong. data of a GUARD_ADDED: `expr`, which must hold of the sizes, and `new_dynamic_shapes`,
    with which the program was exported."""

    def __init__(self, failure_type: FailureType, data: dict, xfail: bool = False) -> None:
        self.failure_type, self.data, self.xfail = failure_type, data, xfail

    def __repr__(self) -> str:
        return f"FailureReport(failure_type={self.failure_type}, xfail={self.xfail}, data={self.data})"

    def print(self, str_to_filename: dict) -> str:
        """It as text."""
        if self.failure_type is not FailureType.GUARD_ADDED:
            return f"{self.failure_type}: {self.data}\n"
        return (
            f"Guard added.\n    The program holds only where {self.data['expr']}.\n    It was exported with\n"
            f"    dynamic_shapes = {self.data['new_dynamic_shapes']}\n"
        )


class DraftExportReport:
    """What draft_export met: `failures`, a list of FailureReport. The other tables of PyTorch's are empty."""

    def __init__(self, failures: list, str_to_filename: dict, expressions_created: dict, op_profiles: dict) -> None:
        self.failures, self.str_to_filename = failures, str_to_filename
        self.expressions_created, self.op_profiles = expressions_created, op_profiles

    def successful(self) -> bool:
        """Whether export would have given the same program."""
        return all(failure.xfail for failure in self.failures)

    def __repr__(self) -> str:
        return f"DraftExportReport({self.failures})"

    def __str__(self) -> str:
        if self.successful():
            return "No issues: torch.export.export gives the same program."
        each = [f"{k}. {failure.print(self.str_to_filename)}" for k, failure in enumerate(self.failures, 1)]
        return f"{len(each)} issue(s): the program holds for less than was asked for.\n\n" + "\n".join(each)

    def apply_suggested_fixes(self) -> None:
        """Not there in PyTorch either."""
        raise NotImplementedError("Not implemented yet")


def _opened_where_it_may(dim):
    """A size that was asked to be open, as one that is open as far as the program allows it."""
    asked = isinstance(dim, _DimHint) and dim.type is _DimHintType.DYNAMIC
    return Dim.AUTO(min=dim.min, max=dim.max) if asked or isinstance(dim, Dim) else dim


def draft_export(
    mod,
    args: tuple,
    kwargs=None,
    *,
    dynamic_shapes=None,
    preserve_module_call_signature: tuple = (),
    strict: bool = False,
    prefer_deferred_runtime_asserts_over_guards: bool = False,
):
    """As `export`; where the program does not hold for all the sizes that dynamic_shapes says, these are open as far as
    it does, and the program's `_report`, a DraftExportReport, tells the conditions.

    Unlike PyTorch, what elements decide is refused, as in export.
    """
    from .._dynamo.exc import UserError, UserErrorType
    from . import export

    failures: list = []
    options = {
        "strict": strict,
        "preserve_module_call_signature": preserve_module_call_signature,
        "prefer_deferred_runtime_asserts_over_guards": prefer_deferred_runtime_asserts_over_guards,
    }
    try:
        program = export(mod, args, kwargs, dynamic_shapes=dynamic_shapes, **options)
    except UserError as error:
        if error.error_type is not UserErrorType.CONSTRAINT_VIOLATION:
            raise
        shapes = pytree.tree_map(_opened_where_it_may, dynamic_shapes)
        program = export(mod, args, kwargs, dynamic_shapes=shapes, **options)
        for guard in re.findall(r"generated guard (.*?)\.?$", str(error), re.MULTILINE) or [str(error)]:
            failures.append(FailureReport(FailureType.GUARD_ADDED, {"expr": guard, "new_dynamic_shapes": shapes}))
    program._report = DraftExportReport(failures, {}, {}, {})
    if failures:
        logger.warning("draft_export: %s", program._report)
    return program
