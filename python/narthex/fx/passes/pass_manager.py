"""PassManager: functions of a module, each given what the one before gave."""

import logging
from collections.abc import Callable
from functools import wraps
from inspect import unwrap

from .infra.pass_manager import this_before_that_pass_constraint

__all__ = [
    "PassManager", "inplace_wrapper", "log_hook", "loop_pass", "these_before_those_pass_constraint",
    "this_before_that_pass_constraint",
]  # fmt: skip


def inplace_wrapper(fn: Callable) -> Callable:
    """A pass that changes its module and gives nothing, as one that gives the module."""

    @wraps(fn)
    def wrapped(gm, *args, **kwargs):
        fn(gm, *args, **kwargs)
        return gm

    return wrapped


def log_hook(fn: Callable, level: int = logging.INFO) -> Callable:
    """A pass that logs what it gives."""

    @wraps(fn)
    def wrapped(*args, **kwargs):
        result = fn(*args, **kwargs)
        logging.getLogger("torch.fx.passes.pass_manager").log(level, "Ran pass %s\n Return value: %s", fn, result)
        return result

    return wrapped


def loop_pass(base_pass: Callable, n_iter: int | None = None, predicate: Callable | None = None) -> Callable:
    """A pass again and again: n_iter times, or as long as predicate(its result) says so."""
    if (n_iter is None) is (predicate is None):
        raise AssertionError("Exactly one of `n_iter`or `predicate` must be specified.")

    @wraps(base_pass)
    def wrapped(source):
        output = source
        if n_iter is not None:
            for _ in range(n_iter):
                output = base_pass(output)
            return output
        while predicate(output):
            output = base_pass(output)
        return output

    return wrapped


def these_before_those_pass_constraint(these: Callable, those: Callable) -> Callable:
    """this_before_that_pass_constraint for passes that have wrappers around them."""
    return lambda a, b: not (unwrap(a) is those and unwrap(b) is these)


class PassManager:
    """Called with a module: what the passes make of it, in their order, which all constraints must allow."""

    def __init__(self, passes: list | None = None, constraints: list | None = None) -> None:
        self.passes, self.constraints = passes or [], constraints or []
        self._validated = False

    @classmethod
    def build_from_passlist(cls, passes: list) -> "PassManager":
        """Of these passes."""
        return cls(passes)

    def add_pass(self, _pass: Callable) -> None:
        self.passes.append(_pass)
        self._validated = False

    def add_constraint(self, constraint: Callable) -> None:
        self.constraints.append(constraint)
        self._validated = False

    def remove_pass(self, _passes: list[str]) -> None:
        """Takes the passes of these names out."""
        self.passes = [each for each in self.passes if each.__name__ not in _passes]
        self._validated = False

    def replace_pass(self, _target: Callable, _replacement: Callable) -> None:
        """Puts one pass in another's place, which is known by its name."""
        self.passes = [_replacement if each.__name__ == _target.__name__ else each for each in self.passes]
        self._validated = False

    def validate(self) -> None:
        """Raises where a constraint does not allow the passes as they stand."""
        for constraint in () if self._validated else self.constraints:
            for at, first in enumerate(self.passes):
                for behind, second in enumerate(self.passes[at + 1 :], at + 1):
                    if not constraint(first, second):
                        raise RuntimeError(
                            f"pass schedule constraint violated. Expected {first} before {second} but found {first} at "
                            f"index {at} and {second} at index{behind} in pass list."
                        )
        self._validated = True

    def __call__(self, source):
        self.validate()
        for each in self.passes:
            source = each(source)
        return source
