"""Switches for recording: no_grad, enable_grad, set_grad_enabled, inference_mode. Context managers and decorators."""

from .. import _C

_IS_GENERATOR = 0x20  # of a code object's flags


class _Switch:
    """Sets the thread's grad mode between __enter__ and __exit__; around a function, for each of its calls; around a
    generator, for each of its steps."""

    mode = False

    def __init__(self) -> None:
        self.before = True

    def _mode_after(self, before: bool) -> bool:
        return self.mode

    def __enter__(self):
        self.before = _C.is_grad_enabled()
        _C.set_grad_enabled(self._mode_after(self.before))
        return self

    def __exit__(self, *exception) -> None:
        _C.set_grad_enabled(self.before)

    def __call__(self, orig_func):
        code = getattr(orig_func, "__code__", None)
        if isinstance(orig_func, type) or (code is not None and code.co_flags & _IS_GENERATOR):
            from ..utils._contextlib import _DecoratorContextManager

            return _DecoratorContextManager.__call__(self, orig_func)
        from functools import wraps

        @wraps(orig_func)
        def switched(*args, **kwargs):
            before = _C.is_grad_enabled()
            _C.set_grad_enabled(self._mode_after(before))
            try:
                return orig_func(*args, **kwargs)
            finally:
                _C.set_grad_enabled(before)

        return switched

    def clone(self):
        """One like it, for a call of a function that it decorates."""
        return type(self)()


class no_grad(_Switch):
    """Nothing is recorded inside: results do not require grad."""

    mode = False

    def __new__(cls, orig_func=None):
        made = super().__new__(cls)
        return made if orig_func is None else made(orig_func)


class enable_grad(_Switch):
    """Recording is on inside, also within no_grad."""

    mode = True

    def __new__(cls, orig_func=None):
        made = super().__new__(cls)
        return made if orig_func is None else made(orig_func)


class set_grad_enabled(_Switch):
    """Sets the mode at once; as a context manager puts the old one back at the end."""

    def __init__(self, mode: bool) -> None:
        self.mode = bool(mode)
        self.before = _C.is_grad_enabled()
        _C.set_grad_enabled(self.mode)

    def __enter__(self):
        _C.set_grad_enabled(self.mode)
        return self

    def __call__(self, orig_func):
        _C.set_grad_enabled(self.before)
        return super().__call__(orig_func)

    def clone(self):
        """One of the same mode."""
        return type(self)(self.mode)


class inference_mode(_Switch):
    """As no_grad; with False as enable_grad. Unlike PyTorch, tensors made inside are ordinary tensors that may be used
    with autograd later."""

    def __init__(self, mode: bool = True) -> None:
        super().__init__()
        self.mode, self.was = mode, False

    def clone(self):
        """One of the same mode."""
        return type(self)(self.mode)

    def __new__(cls, mode=True):
        made = super().__new__(cls)
        if callable(mode):
            made.__init__()
            return made(mode)
        return made

    def _mode_after(self, before: bool) -> bool:
        return not self.mode

    def __enter__(self):
        self.was = _C.set_inference_mode(self.mode)
        return super().__enter__()

    def __exit__(self, *exception) -> None:
        _C.set_inference_mode(self.was)
        super().__exit__(*exception)

    def __call__(self, orig_func):
        from ..utils._contextlib import _DecoratorContextManager

        return _DecoratorContextManager.__call__(self, orig_func)


class _set_fwd_grad_enabled:
    """Whether operators compute tangents: sets it at once; as a context manager puts the old one back at the end."""

    def __init__(self, mode: bool) -> None:
        self.before = _C._is_fwd_grad_enabled()
        _C._set_fwd_grad_enabled(bool(mode))

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception) -> None:
        _C._set_fwd_grad_enabled(self.before)


class _Kept:
    """A switch that is kept and changes nothing; as a context manager puts the old one back at the end."""

    enabled = True

    def __init__(self, mode: bool = True) -> None:
        self._mode = mode
        self._before, type(self).enabled = type(self).enabled, bool(mode)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception) -> None:
        type(self).enabled = self._before

    def clone(self):
        """One of the same mode."""
        return type(self)(self._mode)


class set_multithreading_enabled(_Kept):
    """Whether a backward may use several threads for several devices. Narthex's runs in the thread that asks for it."""

    def __init__(self, mode: bool) -> None:
        super().__init__(mode)


class enforce_grad_layout_policy(_Kept):
    """Whether gradients are laid out as their parameters. Narthex's accumulate as they come, without a warning."""

    def __init__(self, enable: bool = True) -> None:
        super().__init__(enable)
