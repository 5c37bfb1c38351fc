"""torch.utils._contextlib: context managers as decorators, beside PyTorch's."""

from __future__ import annotations

from typing import Any

import narthex.utils._contextlib as mine
import pytest
import torch.utils._contextlib as theirs


def make(module: Any, log: list[str]) -> tuple[Any, Any]:
    """A context manager with an argument, and one without."""

    class Named(module._DecoratorContextManager):
        def __init__(self, name: str) -> None:
            self.name = name

        def clone(self) -> Any:
            return self.__class__(self.name)

        def __enter__(self) -> None:
            log.append(f"enter {self.name}")

        def __exit__(self, *error: Any) -> None:
            log.append(f"exit {self.name} {error[0] and error[0].__name__}")

    class Plain(module._NoParamDecoratorContextManager):
        def __enter__(self) -> None:
            log.append("enter")

        def __exit__(self, *error: Any) -> None:
            log.append("exit")

    return Named, Plain


def run(module: Any) -> list[str]:
    log: list[str] = []
    Named, Plain = make(module, log)

    @Named("a")
    def fails(x: int) -> float:
        """Divides."""
        log.append("inside")
        return 1 / x

    @Plain
    def counts(n: int) -> Any:
        got = []
        for k in range(n):
            try:
                got.append((yield k))
            except KeyError as error:
                got.append(str(error))
        log.append(str(got))
        return len(got)

    @Plain()
    def again() -> None:
        with Named("b"):
            log.append("both")

    log += [fails.__name__, str(fails.__doc__), str(fails(2))]
    with pytest.raises(ZeroDivisionError):
        fails(0)
    again()
    steps = counts(3)
    log += [str(next(steps)), str(steps.send("x")), str(steps.throw(KeyError("y")))]
    with pytest.raises(StopIteration) as end:
        next(steps)
    log.append(str(end.value.value))
    left = counts(2)
    next(left)
    left.close()
    with pytest.warns(FutureWarning, match="Decorating classes is deprecated"):
        made = Plain()(dict)(a=1)
    with pytest.raises(RuntimeError, match="Cannot decorate classes"):
        module.context_decorator(lambda: Plain(), dict)
    with pytest.raises(AssertionError):
        module.context_decorator(Plain(), fails)
    return [*log, str(made)]


def test_as_in_pytorch() -> None:
    assert run(mine) == run(theirs)
