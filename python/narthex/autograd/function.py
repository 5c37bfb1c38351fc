"""torch.autograd.Function: an operator whose forward and backward are written in Python.

`apply` runs forward without recording and makes one node (py/autograd/function.c), whose call runs backward. The
context is an ordinary object; the node holds it through that call, and it holds no tensor that holds the node: a saved
result is kept without its history, which it gets again when it is read.
"""

from __future__ import annotations

from .. import _C
from .grad_mode import _set_fwd_grad_enabled, no_grad

__all__ = ["Function", "FunctionCtx", "FunctionMeta", "InplaceFunction", "once_differentiable"]

_FREED = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already been "
    "freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify "
    "retain_graph=True if you need to backward through the graph a second time or if you need to access saved tensors "
    "after calling backward."
)


def _is_tensor(value) -> bool:
    return isinstance(value, _C.TensorBase)


def _at(tensors, wanted) -> int:
    """Where `wanted` itself stands in `tensors`, or -1."""
    return next((k for k, tensor in enumerate(tensors) if tensor is wanted), -1)


class FunctionCtx:
    """What forward and backward share. Attributes may be set on it freely."""

    needs_input_grad: tuple = ()
    materialize_grads = True
    _to_save: tuple = ()
    _dirty: tuple = ()
    _constant: tuple = ()
    _n_saved = 0
    # (tensor, None, or what hooks made of it; its version; result number or -1); emptied when the graph is freed
    _saved: list | None = None
    _results: tuple = ()  # (shape, dtype, device ...) of each result, None for what is no tensor
    _levels: int = 0  # of vmap, of all arguments together
    _node = None  # while backward runs
    _for_jvp: tuple | None = None
    _in_jvp = False

    def save_for_backward(self, *tensors) -> None:
        """Keeps tensors for backward, which finds them in `saved_tensors`."""
        for index, tensor in enumerate(tensors):
            if tensor is not None and not _is_tensor(tensor):
                raise TypeError(
                    f"save_for_backward can only save variables, but argument {index} is of type "
                    f"{type(tensor).__name__}"
                )
        self._to_save = tensors

    def save_for_forward(self, *tensors) -> None:
        """Keeps tensors for jvp, which finds them in `saved_tensors`."""
        for index, tensor in enumerate(tensors):
            if tensor is not None and not _is_tensor(tensor):
                raise TypeError(
                    f"save_for_forward can only save variables, but argument {index} is of type {type(tensor).__name__}"
                )
        self._for_jvp = tensors

    def mark_dirty(self, *args) -> None:
        """Says which arguments forward has written in place."""
        self._dirty = args

    def mark_shared_storage(self, *pairs) -> None:
        """Does nothing, as in PyTorch: who shares memory is known."""

    def mark_non_differentiable(self, *args) -> None:
        """Says which results have no gradient."""
        self._constant = args

    def set_materialize_grads(self, value: bool) -> None:
        """Whether backward gets zeros (True) or None for a result that nothing depends on."""
        self.materialize_grads = value

    @property
    def saved_tensors(self) -> tuple:
        """What save_for_backward was given, in jvp save_for_forward; RuntimeError once the graph is freed."""
        if self._in_jvp and self._for_jvp is not None:
            return tuple(self._for_jvp)
        if self._saved is None:
            return tuple(self._to_save)
        if not self._saved and self._n_saved:
            raise RuntimeError(_FREED)
        saved = _C.function_saved(self._saved, self._node, self._results)
        return tuple(self._unpack(*entry) for entry in self._saved) if saved is None else saved

    def _unpack(self, tensor, version: int, result: int):
        if tensor is None:
            return None
        if not _is_tensor(tensor):
            return self._with_history(_C.take_packed(tensor), result)
        _C.check_version(tensor, version, self._node if result >= 0 else None, max(result, 0))
        return self._with_history(tensor, result)

    def _with_history(self, tensor, result: int):
        if result < 0:
            return tensor
        alias = tensor.detach()
        if self._node is not None and self._results[result][3]:
            _C.function_result(alias, self._node, result, False)
        return alias

    def _pack(self, node, args: tuple, results: tuple) -> None:
        """After forward: tensors to save, results among them without the history that leads back to this node."""
        saved = []
        for tensor in self._to_save:
            is_argument = _at(args, tensor) >= 0 and _at(self._dirty, tensor) < 0
            at = -1 if tensor is None or is_argument else _at(results, tensor)
            kept = tensor.detach() if at >= 0 else tensor
            packed = None if tensor is None else _C.save_packed(kept, at >= 0)
            saved.append((kept if packed is None else packed, 0 if tensor is None else kept._version, at))
        self._saved, self._n_saved = saved, len(saved)
        if saved:
            _C.function_saves(node, saved)


class _Backward:
    """What a node calls: runs `backward` of the class and checks what it returns."""

    def __init__(self, cls, ctx, inputs: tuple, levels: tuple = ()) -> None:
        """inputs: (shape, dtype, device) of each argument, None of what is no tensor; levels: of each, () outside of a
        map."""
        self.cls, self.ctx, self.inputs, self.levels = cls, ctx, inputs, levels

    @classmethod
    def of(cls, function, ctx, args: tuple):
        """Of the arguments themselves."""
        inputs = tuple((x.shape, x.dtype, x.device) if _is_tensor(x) else None for x in args)
        return cls(function, ctx, inputs, tuple(_C._batch_levels(x) if _is_tensor(x) else 0 for x in args))

    def __call__(self, node, *grads) -> tuple:
        cls, ctx = self.cls, self.ctx
        ctx._node = node
        try:
            function = cls.backward
            if cls.vjp is not Function.vjp:
                if function is not Function.backward:
                    raise RuntimeError(
                        "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You should only "
                        "implement one of them."
                    )
                function = cls.vjp
            there = None if self.levels else _C.function_gradients(grads, ctx._results)
            given = function(ctx, *(there or self._materialized(grads)))
        finally:
            ctx._node = None
        if not self.levels:
            fitted = _C.function_fit(given, self.inputs, ctx.needs_input_grad)
            if fitted is not None:
                return fitted
        given = given if isinstance(given, tuple) else (given,)
        n = len(self.inputs)
        if len(given) < n or any(g is not None for g in given[n:]):
            raise RuntimeError(
                f"function {cls.__name__}Backward returned an incorrect number of gradients (expected {n}, got "
                f"{len(given)})"
            )
        fitted = tuple(self._fit(k, g) for k, g in enumerate(given[:n]))
        return tuple(map(self._of_all, fitted, self.levels)) if self.levels else fitted

    def _of_all(self, grad, of_input: int):
        """Of a slice of what is mapped over the gradients of all slices; of what is not, their sum."""
        levels = 0 if grad is None else _C._batch_levels(grad)
        more = levels & ~of_input & self.ctx._levels
        if more:
            grad = _C._batch_show(grad, more).sum(list(range(more.bit_count())))
        return _C._batch_show(grad, of_input) if grad is not None and of_input else grad

    def _materialized(self, grads: tuple) -> list:
        """A gradient for every result; zeros where there is none, if they are wanted."""
        all_grads = []
        grads += (None,) * (len(self.ctx._results) - len(grads))
        for grad, result in zip(grads, self.ctx._results):
            if grad is None and result is not None and self.ctx.materialize_grads:
                from .. import zeros

                grad = zeros(result[0], dtype=result[1], device=result[2])
            elif grad is not None and result is not None and result[4]:
                grad = _C._batch_hide(grad, result[4])
            all_grads.append(grad)
        return all_grads

    def _fit(self, k: int, grad):
        """`grad` as a gradient of argument k: summed to its shape, of its dtype."""
        if grad is None:
            return None
        if not _is_tensor(grad):
            raise RuntimeError(f"expected Variable or None (got {type(grad).__name__})")
        if self.inputs[k] is None:
            raise RuntimeError(
                f"function {self.cls.__name__}Backward returned a gradient different than None at position {k + 1}, "
                "but the corresponding forward input was not a Variable"
            )
        if not self.ctx.needs_input_grad[k]:
            return None
        shape, dtype, device = self.inputs[k]
        name = f"Function {self.cls.__name__}Backward returned an invalid gradient at index {k}"
        if grad.device != device:
            raise RuntimeError(f"{name} - expected device {device} but got {grad.device}")
        if grad.shape != shape:
            fits = len(shape) <= grad.ndim and all(a in (1, b) for a, b in zip(shape[::-1], grad.shape[::-1]))
            if not fits:
                raise RuntimeError(f"{name} - got {list(grad.shape)} but expected shape compatible with {list(shape)}")
            extra = grad.ndim - len(shape)
            dims = [d for d in range(grad.ndim) if d < extra or shape[d - extra] != grad.shape[d]]
            grad = grad.sum(dims, keepdim=True).reshape(shape)
        return grad if grad.dtype == dtype else grad.to(dtype)


def _written(result, inputs: tuple, n_results: int) -> None:
    """Raises when the history of a result that forward has written cannot be replaced."""
    if result.requires_grad and result.is_leaf:
        raise RuntimeError("a leaf Variable that requires grad has been used in an in-place operation.")
    if not result._is_view():
        return
    if n_results > 1:
        raise RuntimeError(
            "If your Function modifies inplace an input that is a view of another Tensor, your Function cannot return "
            "more than one Tensor. This is not supported by the current autograd engine. You should either make sure "
            "the input is not a view (using .clone() for example) or make your Function only return one Tensor "
            "(potentially splitting it into two Functions: one doing the inplace that returns a single Tensor and a "
            "second one that does the other operations). You can ask on the forum https://discuss.pytorch.org/ if you "
            "need help to do this change."
        )


def _is_continuous(result) -> bool:
    return result.is_floating_point() or result.is_complex()


def _result(ctx, node, k: int, result, inputs: tuple, n: int):
    """Result k as the caller gets it, with or without the node as its history."""
    is_input, is_dirty = _at(inputs, result) >= 0, _at(ctx._dirty, result) >= 0
    if node is None or _at(ctx._constant, result) >= 0 or not _is_continuous(result):
        if not result.requires_grad:
            return result.view(result.shape) if is_input and not is_dirty else result
        return result.detach() if is_input or result._is_view() else result.detach_()
    if is_dirty:
        _written(result, inputs, n)
        if result._is_view():  # what it is a view of gets the history from a write of the same elements
            copy = result.detach().clone()
            _C.function_result(copy, node, k, False)
            return result.copy_(copy)
    elif is_input:
        with no_grad():  # a view that may not be written, as what forward itself takes a view of
            result = result.view(result.shape)
    _C.function_result(result, node, k, is_dirty)
    return result


def _setup_is_defined(cls) -> bool:
    return cls.setup_context is not Function.setup_context


def _forward(cls, ctx, args: tuple, kwargs: dict):
    """What forward returns; the context is filled."""
    with no_grad():
        if _C.is_capturing():  # there are no tangents
            return _fill(cls, ctx, args, kwargs)
        with _set_fwd_grad_enabled(False):
            return _fill(cls, ctx, args, kwargs)


def _fill(cls, ctx, args: tuple, kwargs: dict):
    if not _setup_is_defined(cls):
        return cls.forward(ctx, *args, **kwargs)
    results = cls.forward(*args, **kwargs)
    cls.setup_context(ctx, args, results)
    return results


def _is_differentiated(args: tuple) -> bool:
    return _C.is_grad_enabled() and any(_is_tensor(a) and a.requires_grad for a in args)


def _filled(forward, args: tuple, kwargs: dict):
    """The arguments of forward with its defaults."""
    code = getattr(forward, "__code__", None)
    if code is not None and not kwargs and not code.co_kwonlyargcount and not code.co_flags & 0x0C:  # no * and **
        given, defaults = len(args), forward.__defaults__ or ()
        if code.co_argcount - len(defaults) <= given <= code.co_argcount:
            return args + defaults[len(defaults) - (code.co_argcount - given) :], kwargs
    from inspect import signature

    bound = signature(forward).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.args, bound.kwargs


def _begin(cls, args: tuple, kwargs: dict):
    """The context, and the arguments as a forward beside a setup_context takes them."""
    ctx = FunctionCtx()
    if _setup_is_defined(cls):
        args, kwargs = _filled(cls.forward, args, kwargs)
    ctx.needs_input_grad = tuple(_is_tensor(a) and a.requires_grad for a in args)
    return ctx, args, kwargs


def _apply(cls, args: tuple, kwargs: dict):
    if cls.vmap is not Function.vmap and any(_is_tensor(arg) and _C._batch_levels(arg) for arg in args):
        from .._vmap import by_rule

        return by_rule(cls.vmap, args)
    ctx, args, kwargs = _begin(cls, args, kwargs)
    node = None
    if _C.is_grad_enabled() and any(ctx.needs_input_grad):
        backward = _Backward.of(cls, ctx, args)
        for levels in backward.levels:
            ctx._levels |= levels
        node = _C.function_node(f"{cls.__name__}Backward", args, backward)
    try:
        return _run_forward(cls, ctx, node, args, kwargs)
    finally:  # results among them would hold the node, which holds the context
        ctx._to_save = ctx._dirty = ctx._constant = ()


def _without_history(ctx, result, inputs: tuple):
    if _at(ctx._dirty, result) >= 0:  # a copy, which is written over the argument once it has its history
        return result.detach().clone()
    if result.requires_grad:
        return result.detach()
    return result.view(result.shape) if _at(inputs, result) >= 0 else result


def _apply_traced(cls, args: tuple, kwargs: dict):
    """The same in a captured function: forward's operators stand in the graph, and so does what backward computes, as
    the graph of a call that ties the results to it (docs/decisions/0018)."""
    ctx, args, kwargs = _begin(cls, args, kwargs)
    if not any(ctx.needs_input_grad):
        return _apply(cls, args, kwargs)
    given = _forward(cls, ctx, args, kwargs)
    results = given if isinstance(given, tuple) else (given,)
    dirty = [k for k, r in enumerate(results) if _is_tensor(r) and _at(ctx._dirty, r) >= 0]
    if any(_at(results, tensor) < 0 for tensor in ctx._dirty):
        _C.function_refuse(f"{cls.__name__}: mark_dirty of what it does not give")
    made = tuple(_without_history(ctx, r, args) if _is_tensor(r) else r for r in results)
    places = [-1 if t is None or _at(ctx._dirty, t) < 0 else _at(results, t) for t in ctx._to_save]
    ctx._to_save = tuple(t if k < 0 else made[k] for k, t in zip(places, ctx._to_save))
    bare = tuple(
        r if _is_tensor(r) and _at(ctx._constant, results[k]) < 0 and _is_continuous(r) else None
        for k, r in enumerate(made)
    )
    if all(r is None for r in bare):
        return given if not isinstance(given, tuple) else made
    n = sum(r is not None for r in bare)
    if any(r is not None and _at(bare, r) < k for k, r in enumerate(bare)):
        _C.function_refuse(f"{cls.__name__}: its forward gives a tensor twice")
    if n > 1 and not ctx.materialize_grads:
        _C.function_refuse(f"{cls.__name__}: set_materialize_grads(False) with several results")
    ctx._results = tuple((r.shape, r.dtype, r.device, True, 0) if _is_tensor(r) else None for r in made)
    run_backward = _Backward.of(cls, ctx, args)
    with no_grad():
        gradients = _C.function_open(ctx, bare)
        try:
            wanted = run_backward(None, *gradients)
        except Exception as error:
            _C.function_refuse(f"{cls.__name__}: {type(error).__name__} in its backward")
    inputs = tuple(a if _is_tensor(a) else None for a in args)
    once = hasattr(cls.backward, "_once_differentiable")
    tied = _C.function_close(f"{cls.__name__}Backward", once, inputs, bare, tuple(ctx._to_save), wanted)
    tied = iter(tied)
    made = tuple(r if bare[k] is None else next(tied) for k, r in enumerate(made))
    made = tuple(results[k].copy_(r) if k in dirty else r for k, r in enumerate(made))
    return made if isinstance(given, tuple) else made[0]


def _carry_on(cls, ctx, args: tuple, tangents: tuple, results: tuple) -> None:
    """Gives the results the tangents that jvp makes of the arguments'."""
    if ctx.materialize_grads:
        tangents = tuple(
            arg.detach().clone().zero_() if tangent is None and _is_tensor(arg) else tangent
            for arg, tangent in zip(args, tangents)
        )
    ctx._in_jvp = True
    try:
        with _set_fwd_grad_enabled(False):
            given = cls.jvp(ctx, *tangents)
    finally:
        ctx._in_jvp = False
    given = given if isinstance(given, tuple) else (given,)
    if len(given) != len(results):
        raise RuntimeError(
            f"Function's jvp returned an invalid number of forward gradients (expected {len(results)} but got "
            f"{len(given)})"
        )
    for result, tangent in zip(results, given):
        if tangent is None or not _is_tensor(result) or not (result.is_floating_point() or result.is_complex()):
            continue
        if _at(ctx._constant, result) >= 0:
            continue
        if _at(args, result) >= 0 and _C.tangent_of(result) is not None:
            if _C.tangent_of(result) is not tangent:
                raise RuntimeError(
                    "An inplace custom Function is not modifying the forward mode gradients inplace. If the forward is "
                    "modifying an input inplace, then the jvp function must modify the corresponding gradient inplace."
                )
            continue
        _C.set_tangent(result, tangent.clone() if _at(tangents, tangent) >= 0 else tangent)


def _run_forward(cls, ctx, node, args: tuple, kwargs: dict):
    """What apply returns: forward's results with the node as their history (None: without)."""
    tangents = tuple(_C.tangent_of(arg) if _is_tensor(arg) else None for arg in args)
    return _finish(cls, ctx, node, args, _forward(cls, ctx, args, kwargs), tangents)


def _finish(cls, ctx, node, args: tuple, given, tangents: tuple = ()):
    results = given if isinstance(given, tuple) else (given,)
    if any(_at(results, tensor) < 0 for tensor in ctx._dirty):
        raise RuntimeError(
            "Some elements marked as dirty during the forward method were not returned as output. The inputs that are "
            "modified inplace must all be outputs of the Function."
        )
    n = sum(map(_is_tensor, results))
    made = tuple(_result(ctx, node, k, r, args, n) if _is_tensor(r) else r for k, r in enumerate(results))
    if any(tangent is not None for tangent in tangents):
        _carry_on(cls, ctx, args, tangents, made)
    if node is not None:
        ctx._results = tuple(
            (r.shape, r.dtype, r.device, r.requires_grad, _C._batch_levels(r)) if _is_tensor(r) else None for r in made
        )
        ctx._pack(node, args, results)
    return made if isinstance(given, tuple) else made[0]


class FunctionMeta(type):
    """The class of classes of operators written in Python."""


class Function(metaclass=FunctionMeta):
    """Base of operators written in Python: static `forward` and `backward`, called by `apply`."""

    def __call__(self, *args, **kwargs):
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Please use new-style autograd "
            "function with static forward method. (Example: "
            "https://pytorch.org/docs/stable/autograd.html#torch.autograd.Function)"
        )

    @staticmethod
    def forward(*args, **kwargs):
        """forward(ctx, *args), or forward(*args) beside a setup_context."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx, inputs: tuple, output):
        """Fills the context after a forward that does not take it."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx, *grad_outputs):
        """One gradient for each argument of forward, None for what has none."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with "
            "backward mode AD."
        )

    @staticmethod
    def jvp(ctx, *grad_inputs):
        """The tangent of each result of forward, from those of its arguments (None for what is no tensor)."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with forward mode AD."
        )

    generate_vmap_rule = False  # whether or not: without a rule of its own every class is mapped over by its operators

    @staticmethod
    def vmap(info, in_dims: tuple, *args):
        """(results, the dimension of each along which its slices lie); `in_dims` are those of the arguments."""
        raise NotImplementedError("vmap is not implemented.")

    vjp = staticmethod(lambda ctx, *grad_outputs: Function.backward(ctx, *grad_outputs))

    @classmethod
    def apply(cls, *args, **kwargs):
        """Calls forward and makes its results depend on the arguments through backward."""
        if not _C.is_capturing():
            return _C.function_apply(cls, args, kwargs)
        if not _is_differentiated(args):
            return _apply(cls, args, kwargs)
        return _apply_traced(cls, args, kwargs) if _C.function_follows() else _apply_apart(cls, args, kwargs)


class InplaceFunction(Function):
    """A Function that knows whether it was asked to write its argument."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


_apply_apart = _apply  # once torch._dynamo is there, one that is never captured
_C.function_parts(FunctionCtx, _Backward, Function.setup_context, _apply, _finish)


def once_differentiable(fn):
    """Decorates a backward whose own gradient is not right: asking for that raises."""

    from functools import wraps

    @wraps(fn)
    def wrapper(ctx, *grads):
        with no_grad():
            given = fn(ctx, *grads)
        if not _C.is_grad_enabled() or not any(_is_tensor(g) and g.requires_grad for g in grads):
            return given
        results = given if isinstance(given, tuple) else (given,)
        made = tuple(None if r is None else r.detach() for r in results)
        node = _C.function_node("Error", tuple(r.detach().requires_grad_() for r in made if r is not None), _refuse)
        for k, result in enumerate(made):
            if result is not None:
                _C.function_result(result, node, k, False)
        return made

    wrapper._once_differentiable = True
    return wrapper


def _refuse(node, *grads):
    raise RuntimeError("trying to differentiate twice a function that was marked with @once_differentiable")
