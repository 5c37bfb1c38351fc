"""What programs say to capture: which sizes are left open, where a graph ends, which results are constants."""

from functools import wraps
from inspect import Signature, signature
from types import BuiltinFunctionType, FunctionType, MethodDescriptorType, WrapperDescriptorType

from .. import _C
from ..compiler import set_stance
from .types import skip_code

# themselves, so that the graph ends at the call and nothing of it is captured
graph_break, skip_frame, step_unsupported = _C.graph_break, _C.skip_frame, _C.step_unsupported


def _mark(t, index, name: str) -> None:
    if not isinstance(t, _C.TensorBase):
        raise TypeError(f"{name}: got a {type(t).__name__}, expected a tensor")
    indices = index if isinstance(index, (list, tuple)) else [index]
    if not hasattr(t, name):
        setattr(t, name, set())
    getattr(t, name).update(k + t.ndim if k < 0 else k for k in indices)


def mark_dynamic(t, index, *, hint_override=None, min=None, max=None, specialize_on=None) -> None:
    """The sizes of `t` in dimension `index`, or in each of a list, are left open from the first capture on.

    Unlike PyTorch, code that fixes such a size is compiled for it and raises nothing. Bounds and hints are taken and
    change nothing: each shape that comes has a program of its own.
    """
    if min is not None and max is not None and min > max:
        raise ValueError(f"mark_dynamic: min={min} is larger than max={max}")
    _mark(t, index, "_dynamo_dynamic_indices")


def maybe_mark_dynamic(t, index) -> None:
    """The same as mark_dynamic: what fixes the size is no error in either."""
    _mark(t, index, "_dynamo_weak_dynamic_indices")


def mark_static(t, index=None) -> None:
    """The sizes of `t` in dimension `index` (each of a list; all, without) are never left open."""
    if not isinstance(t, _C.TensorBase):
        raise NotImplementedError(f"mark_static: of a {type(t).__name__} is not there yet, only of tensors")
    _mark(t, list(range(t.ndim)) if index is None else index, "_dynamo_static_indices")


def assume_constant_result(fn):
    """`fn` is called once for each set of arguments (constants, enumerations, classes) and its result is a constant of
    the graph; what it reads is not guarded."""
    fn._dynamo_marked_constant = True
    return fn


def skip(fn=None):
    """`fn` itself: a call of it ends the graph and runs uncompiled, what it calls is compiled."""
    if fn is None:
        return skip
    function = getattr(fn, "__func__", fn)
    skip_code(function.__code__)
    function._torchdynamo_disable = True
    return fn


def disallow_in_graph(fn):
    """`fn`, an operator, or each of a list: a graph ends before a call of it, as of a function that capture does not
    know. RuntimeError for what is no function of torch."""
    return _each(fn, "disallow_in_graph", True)


def allow_in_graph(fn):
    """`fn` as it is, or each of a list: capture follows it, and its operators are the graph's."""
    return _each(fn, "allow_in_graph", None)


def forbid_in_graph(fn):
    """`fn`, or each of a list: AssertionError where a compiled function calls it."""
    return _each(fn, "forbid_in_graph", False)


def _each(fn, title: str, rule):
    if isinstance(fn, (list, tuple)):
        return [_each(one, title, rule) for one in fn]
    if not callable(fn):
        raise AssertionError(f"{title} {'applies only to callables' if rule is False else 'expects a callable'}")
    if rule is True and (getattr(fn, "__module__", None) or "torch").partition(".")[0] not in ("torch", "narthex"):
        raise RuntimeError(
            "disallow_in_graph is expected to be used on an already allowed callable (like torch.* ops). Allowed "
            "callables means callables that TorchDynamo puts as-is in the extracted graph."
        )
    _C.set_capture_rule(fn, rule)
    return fn


_FUNCTIONS = (FunctionType, BuiltinFunctionType, MethodDescriptorType, WrapperDescriptorType, type(_C.relu))
_substituted: set = set()  # ids of what was substituted, which stays


def _names_and_defaults(sign: Signature) -> tuple:
    fixed = [p for p in sign.parameters.values() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    places = tuple(p.name for p in fixed if p.kind is not p.KEYWORD_ONLY)
    return places, {p.name for p in fixed if p.kind is p.KEYWORD_ONLY}, {p.name: p.default for p in fixed}


def _check_signatures(original_fn, traceable_fn) -> None:
    try:
        mine, other = signature(original_fn), signature(traceable_fn)
    except ValueError:  # a function of C that tells none
        return
    said, anything = (_names_and_defaults(mine), _names_and_defaults(other)), ((), set(), {})
    if said[0] != said[1] and anything not in said:
        raise TypeError(f"Signature mismatch between {original_fn} and {traceable_fn}: {mine} != {other}")


def substitute_in_graph(
    original_fn, *, can_constant_fold_through: bool = False, skip_signature_check: bool = False,
    is_embedded_type: bool = False,
):  # fmt: skip
    """A decorator: where a compiled function calls `original_fn`, capture follows the decorated function in its place.
    Called outside, what it returns is `original_fn`. What is computed of constants alone is a constant in any case."""
    if is_embedded_type:
        raise NotImplementedError("substitute_in_graph: is_embedded_type is not there")
    if not isinstance(original_fn, _FUNCTIONS):
        raise TypeError(f"substitute_in_graph expects a function but got {type(original_fn)!r}")

    def decorate(traceable_fn):
        if not isinstance(traceable_fn, _FUNCTIONS):
            raise TypeError(f"@substitute_in_graph(...) expects a function but got {type(traceable_fn)!r}")
        if not skip_signature_check:
            _check_signatures(original_fn, traceable_fn)
        if id(original_fn) in _substituted:
            raise ValueError(f"Duplicate polyfilled object {original_fn}")
        _substituted.add(id(original_fn))

        @wraps(traceable_fn)
        def wrapped(*args, **kwargs):
            return original_fn(*args, **kwargs)

        _C.set_capture_rule(original_fn, traceable_fn)
        _C.set_capture_rule(wrapped, traceable_fn)
        wrapped.__torch_dynamo_original__, wrapped.__torch_dynamo_polyfill__ = original_fn, traceable_fn
        wrapped.__torch_dynamo_can_constant_fold_through__ = can_constant_fold_through
        return wrapped

    return decorate


class ErrorOnGraphBreakDecoratorContextManager:
    """What error_on_graph_break returns."""

    def __init__(self, error_on_graph_break: bool) -> None:
        self.error_on_graph_break, self._before = error_on_graph_break, []

    def __enter__(self) -> None:
        self._before.append(_C.set_capture_whole(self.error_on_graph_break))

    def __exit__(self, *exception) -> None:
        _C.set_capture_whole(self._before.pop())

    def __call__(self, fn):
        @wraps(fn)
        def inner(*args, **kwargs):
            with self:
                return fn(*args, **kwargs)

        inner._torchdynamo_orig_callable = fn
        return inner


def error_on_graph_break(error_on_graph_break: bool) -> ErrorOnGraphBreakDecoratorContextManager:
    """A context manager and decorator: inside, also of compiled functions, a graph break is an error (True), or not.
    With fullgraph=True it is one everywhere."""
    return ErrorOnGraphBreakDecoratorContextManager(error_on_graph_break)


def override_optimization_hint(x, val: int) -> None:
    """Nothing: every number that comes is compiled for itself, and no guess is made. TypeError for what is no int."""
    if not isinstance(val, int):
        raise TypeError(f"override_optimization_hint expects val to be an int, got {type(val)}")
    if not isinstance(x, (int, _C.SymInt)):
        raise TypeError(f"override_optimization_hint expects a torch.SymInt or int, got {type(x)}")


def run(fn=None):
    """A callable like `fn` in which compiled functions run what they have and compile nothing more."""
    if fn is None:
        return run

    @wraps(fn)
    def inner(*args, **kwargs):
        with set_stance("eager_on_recompile"):
            return fn(*args, **kwargs)

    inner._torchdynamo_orig_callable = fn
    return inner
