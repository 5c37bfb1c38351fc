"""Anomaly mode: backward says which call of the forward an error or a NaN comes from."""

import warnings

from .. import _C, no_grad

__all__ = ["detect_anomaly", "set_detect_anomaly"]

_state = [False, True]  # on; NaNs are looked for


def _set(on: bool, check_nan: bool) -> None:
    _state[:] = on, check_nan
    _C.set_anomaly(on)


def is_anomaly_enabled() -> bool:
    """Whether anomaly mode is on."""
    return _state[0]


def is_anomaly_check_nan_enabled() -> bool:
    """Whether it looks for NaNs."""
    return _state[1]


def _note() -> str:
    """Where the program is: what a node keeps."""
    from traceback import format_stack

    return "".join(format_stack()[:-1])


def _tell(name: str, note) -> None:
    text = (
        "No forward pass information available. Enable detect anomaly during forward pass for more information."
        if note is None
        else f"Traceback of forward call that caused the error:\n{note}"
    )
    warnings.warn(f"Error detected in {name}. {text}", stacklevel=2)


def _check(name: str, note, grads) -> None:
    """A node has run: `grads` are its gradients, None after an error."""
    if grads is None:
        _tell(name, note)
        return
    if not _state[1]:
        return
    for k, grad in enumerate(grads):
        if grad is not None and grad.is_floating_point():
            with no_grad():
                has_nan = _C.isnan(grad.detach()).any().item()
            if has_nan:
                _tell(name, note)
                raise RuntimeError(f"Function '{name}' returned nan values in its {k}th output.")


class detect_anomaly:
    """Inside, nodes keep the traceback of the call that made them, and backward warns with it when one fails.

    A gradient with a NaN is an error, unless `check_nan` is False. Of this thread; what it costs is much.
    """

    def __init__(self, check_nan: bool = True) -> None:
        self.before, self.check_nan = tuple(_state), check_nan
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should only be enabled for "
            "debugging.",
            stacklevel=2,
        )

    def __enter__(self) -> None:
        self.before = tuple(_state)
        _set(True, self.check_nan)

    def __exit__(self, *exception) -> None:
        _set(*self.before)


class set_detect_anomaly:
    """Switches anomaly mode at once; as a context manager puts the old one back at the end."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self.before = tuple(_state)
        _set(bool(mode), check_nan)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception) -> None:
        _set(*self.before)
