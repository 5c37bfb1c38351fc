"""PassManager: passes in an order that keeps constraints, run again until nothing changes."""

import functools
import inspect

from ...graph_module import GraphModule
from .pass_base import PassResult


def pass_result_wrapper(fn):
    """A pass that changes its module in place and gives nothing, as one that gives a PassResult."""
    if fn is None:
        return None

    @functools.wraps(fn)
    def wrapped(gm):
        result = fn(gm)
        return result if isinstance(result, PassResult) else PassResult(gm if result is None else result, True)

    return wrapped if inspect.isfunction(fn) else functools.update_wrapper(wrapped, fn, updated=())


def this_before_that_pass_constraint(this, that):
    """A constraint: whether, of two passes one after the other, none is `that` before `this`."""
    return lambda a, b: a is not that or b is not this


class PassManager:
    """Called with a module: its passes one after the other, up to `steps` times, until a round changes nothing."""

    def __init__(
        self, passes=None, constraints=None, steps=None, run_checks_after_each_pass: bool = False,
        suppress_check_failures: bool = False,
    ) -> None:  # fmt: skip
        self.passes = passes or []
        self.constraints = constraints or []
        self.steps = steps or 1
        self.run_checks_after_each_pass = run_checks_after_each_pass
        self.suppress_check_failures = suppress_check_failures
        self._validated = False

    def add_pass(self, _pass) -> None:
        self.passes.append(_pass)
        self._validated = False

    def add_constraint(self, constraint) -> None:
        self.constraints.append(constraint)
        self._validated = False

    def validate_constraints(self) -> None:
        """Raises where a constraint does not allow the passes as they stand."""
        for constraint in self.constraints:
            for k, first in enumerate(self.passes):
                for j in range(k + 1, len(self.passes)):
                    if not constraint(first, self.passes[j]):
                        raise RuntimeError(
                            f"pass schedule constraint violated. Expected {self.passes[j]} before {first} but found "
                            f"{first} at index {k} and {self.passes[j]} at index {j} in pass list."
                        )
        self._validated = True

    def solve_constraints(self) -> None:
        """Puts the passes into an order that all constraints allow."""
        left, order = list(self.passes), []
        while left:
            free = [p for p in left if not any(self._needs(p, other) for other in left if other is not p)]
            if not free:
                raise RuntimeError(f"Circular dependency detected within the following passes: {left}")
            order += free
            left = [p for p in left if p not in free]
        self.passes = order
        self._validated = True

    def _needs(self, this, other) -> bool:
        """Whether a constraint wants `other` to come before `this`."""
        return not all(constraint(this, other) for constraint in self.constraints)

    def add_checks(self, check) -> None:
        """What is called with the module before the first pass and, if wanted, after each."""
        if len(inspect.signature(check).parameters) != 1:
            raise TypeError("PassManager check function should only take in one variable, a module")
        setattr(self, "check", check)  # noqa: B010 - in the place of the method

    def check(self, module) -> None:
        """Nothing, until there is one of the program's."""

    def __call__(self, module) -> PassResult:
        if not self._validated:
            self.solve_constraints()
        self.check(module)
        changed = False
        for _ in range(self.steps):
            before, any_changed = [], False
            for each in self.passes:
                name = each.__name__ if inspect.isfunction(each) else type(each).__name__
                try:
                    result = each(module)
                    if not isinstance(result, PassResult):
                        raise TypeError(
                            f"The result of the pass {name} should be type PassResult. Please wrap it with "
                            "pass_result_wrapper()"
                        )
                except Exception as error:
                    text = f"An error occurred when running the '{name}' pass after the following passes: {before}"
                    raise Exception(text) from error
                module, any_changed = result.graph_module, any_changed or result.modified
                if isinstance(module, GraphModule):
                    module.recompile()
                before.append(name)
                if self.run_checks_after_each_pass:
                    self.check(module)
            changed |= any_changed
            if not any_changed:
                break
        return PassResult(module, changed)
