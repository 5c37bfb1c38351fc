"""MaskedTensor: a tensor of which some elements are not there, made of two dense ones.

It holds its data and its mask, and a class answers for it: what it can do stands in `HANDLERS`, by the name of the
function or method; all else raises TypeError. History is the data's. What is not there takes part in no reduction, and
gives no gradient to the dense tensors that it came from, whatever a derivative is there.
"""

from __future__ import annotations

import warnings

from .. import _C
from .._tensor import DisableTorchFunctionSubclass, Tensor
from ..utils._pytree import tree_map

HANDLERS: dict = {}
# What the shell itself, a tensor without elements, answers.
SHELL = {
    "__hash__", "__len__", "__repr__", "device", "dim", "dtype", "element_size", "get_device", "is_complex", "is_cpu",
    "is_cuda", "is_floating_point", "is_inference", "is_meta", "is_mps", "is_nested", "is_quantized", "is_signed",
    "is_sparse", "is_sparse_csr", "is_xla", "is_xpu", "itemsize", "layout", "names", "ndim", "ndimension", "nelement",
    "numel", "shape", "size",
}  # fmt: skip
_DTYPES = {"float16", "bfloat16", "float32", "float64", "bool", "int8", "int16", "int32", "int64", "uint8"}


def _guarded(tensor, mask):
    """`tensor` for places of which the mask names those that are there: the others give it no gradient."""
    if not (isinstance(tensor, _C.TensorBase) and tensor.requires_grad and _C.is_grad_enabled()):
        return tensor
    return _C.where(mask, tensor, tensor.detach())


def _check(data, mask) -> None:
    for name, value in (("data", data), ("mask", mask)):
        if not isinstance(value, _C.TensorBase) or isinstance(value, MaskedTensor):
            raise TypeError(f"{name} must be a Tensor")
    if data.dim() != mask.dim():
        raise ValueError("data.dim() must equal mask.dim()")
    if data.shape != mask.shape:
        raise ValueError("data.size() must equal mask.size()")
    if mask.dtype != _C.bool:
        raise TypeError("mask must have dtype bool.")
    if str(data.dtype).rpartition(".")[2] not in _DTYPES:
        raise TypeError(f"{data.dtype} is not supported in MaskedTensor.")
    if data.requires_grad and not data.is_floating_point():
        raise ValueError("requires_grad=True needs a floating point dtype")


class MaskedTensor(Tensor):
    """Made by masked_tensor and as_masked_tensor."""

    def __new__(cls, data, mask, requires_grad=False):
        """A leaf of its own, of copies of both."""
        _check(data, mask)
        if data.requires_grad:
            warnings.warn(
                "It is not recommended to create a MaskedTensor with a tensor that requires_grad. "
                "To avoid this, you can use data.detach().clone()",
                stacklevel=2,
            )
        made = MaskedTensor.make(data.detach().clone(), mask.detach().clone())
        return made.requires_grad_() if requires_grad else made

    @staticmethod
    def make(data, mask) -> MaskedTensor:
        """Takes both as they are."""
        self = Tensor._make_wrapper_subclass(MaskedTensor, tuple(data.shape), dtype=data.dtype, device=data.device)
        self._masked_data, self._masked_mask = data, mask
        return self

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        name = function.__name__
        if name == "__get__":  # of an attribute
            name = getattr(function.__self__, "__name__", None) or function.__self__.fget.__name__
        handler = HANDLERS.get(name) or HANDLERS.get(name.strip("_") if name.startswith("__") else name)
        if handler is not None:
            return handler(*args, **(kwargs or {}))
        if name in SHELL:
            with DisableTorchFunctionSubclass():
                return function(*args, **(kwargs or {}))
        raise TypeError(
            f"'{name}' is not there for MaskedTensor: take x.get_data() and x.get_mask(), or x.to_tensor(value)"
        )

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        raise TypeError(f"'{function}' is not there for MaskedTensor: take x.get_data() and x.get_mask()")

    # ---- what it is ------------------------------------------------------------------------------------------------
    def get_data(self):
        """The dense data, with gradients where the mask is."""
        return _guarded(self._masked_data, self._masked_mask)

    def get_mask(self):
        """Which elements are there."""
        return self._masked_mask

    def to_tensor(self, value):
        """The data with `value` where nothing is."""
        return _C.where(self._masked_mask, self._masked_data, _C.full((), value, dtype=self.dtype, device=self.device))

    T = property(lambda self: HANDLERS["t"](self))
    data = property(lambda self: HANDLERS["detach"](self))
    is_sparse = is_sparse_csr = property(lambda self: False)

    def stride(self, dim=None):
        return self._masked_data.stride() if dim is None else self._masked_data.stride(dim)

    def is_contiguous(self, memory_format=None):
        return self._masked_data.is_contiguous()

    def item(self):
        if self.numel() != 1:
            raise RuntimeError(f"a Tensor with {self.numel()} elements cannot be converted to Scalar")
        if not self._masked_mask.item():
            raise ValueError("item: the element is masked")
        return self._masked_data.item()

    def tolist(self):
        raise RuntimeError(".tolist() is not supported for tensor subclasses, got MaskedTensor")

    def numpy(self, *args, **kwargs):
        raise RuntimeError(".numpy() is not supported for tensor subclasses.")

    __array__ = numpy

    def __repr__(self, *, tensor_contents=None) -> str:
        data, mask = self._masked_data.detach(), self._masked_mask
        if self.dim() == 0:
            return f"MaskedTensor({_shown(data.item(), mask.item()).rstrip() if mask.item() else '--'}, {mask.item()})"
        lines = _lines(data.tolist(), mask.tolist()).split("\n")
        return "MaskedTensor(\n" + "\n".join("  " + line for line in lines) + "\n)"

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            if not self.is_leaf:
                raise RuntimeError("Only Tensors created explicitly by the user support the deepcopy protocol")
            twin = MaskedTensor.make(self._masked_data.detach().clone(), self._masked_mask.clone())
            memo[id(self)] = twin.requires_grad_(self.requires_grad)
        return memo[id(self)]

    def __reduce_ex__(self, protocol):
        return MaskedTensor, (self._masked_data.detach(), self._masked_mask, self.requires_grad)

    # ---- its history -----------------------------------------------------------------------------------------------
    @property
    def requires_grad(self):
        return self._masked_data.requires_grad

    @requires_grad.setter
    def requires_grad(self, value):
        self._masked_data.requires_grad = value

    def requires_grad_(self, requires_grad=True):
        self._masked_data.requires_grad_(requires_grad)
        return self

    @property
    def grad(self):
        found = self._masked_data.grad
        return None if found is None else MaskedTensor.make(found, self._masked_mask)

    @grad.setter
    def grad(self, value):
        self._masked_data.grad = value._masked_data if isinstance(value, MaskedTensor) else value

    is_leaf = property(lambda self: self._masked_data.is_leaf)
    grad_fn = property(lambda self: self._masked_data.grad_fn)
    _version = property(lambda self: self._masked_data._version)

    def retain_grad(self):
        self._masked_data.retain_grad()

    def backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None):
        """What is masked gives no gradient."""
        if gradient is None and self.numel() != 1:
            raise RuntimeError("grad can be implicitly created only for scalar outputs")
        seed = _C.ones_like(self._masked_data.detach()) if gradient is None else _plain(gradient)
        seed = _C.where(self._masked_mask, seed, _C.zeros_like(seed))
        self._masked_data.backward(seed, retain_graph, create_graph, inputs)


MaskedTensor.__hash__ = Tensor.__hash__


def _shown(value, is_there: bool) -> str:
    if not is_there:
        return "      --"
    return f"{value:8.4f}" if isinstance(value, float) else str(value)


def _lines(data: list, mask: list) -> str:
    if not isinstance(mask, list) or not mask or not isinstance(mask[0], list):
        return "[" + ", ".join(map(_shown, data, mask)) + "]"
    parts = [_lines(d, m) for d, m in zip(data, mask)]
    indented = ("\n".join("  " + line for line in part.split("\n")) for part in parts)
    return "[\n" + ",\n".join(indented) + "\n]"


def _plain(value):
    return value._masked_data if isinstance(value, MaskedTensor) else value


def masked_tensor(data, mask, requires_grad: bool = False) -> MaskedTensor:
    """Of copies of `data` and of `mask`, which says by True what is there."""
    return MaskedTensor(data, mask, requires_grad)


def as_masked_tensor(data, mask) -> MaskedTensor:
    """The same without copies: gradients go on to `data`."""
    _check(data, mask)
    return MaskedTensor.make(_guarded(data, mask), mask)


# ---- what it can do ------------------------------------------------------------------------------------------------
_UNARY = """
    abs absolute acos arccos acosh arccosh angle asin arcsin asinh arcsinh atan arctan atanh arctanh bitwise_not ceil
    clamp clip conj_physical cos cosh deg2rad digamma erf erfc erfinv exp exp2 expm1 fix floor frac i0 invert isnan
    lgamma log log10 log1p log2 logit nan_to_num neg negative positive pow rad2deg reciprocal round rsqrt sgn sigmoid
    sign signbit sin sinc sinh sqrt square tan tanh trunc
    bfloat16 bool byte char clone contiguous double float half int long short detach ones_like zeros_like to type_as
"""
_BINARY = """
    add and atan2 arctan2 bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift div divide eq equal_
    floor_divide floordiv fmax fmin fmod ge greater greater_equal gt le less less_equal logaddexp logaddexp2 lshift lt
    maximum minimum mod mul multiply ne nextafter not_equal or radd rdiv remainder rfloordiv rmul rpow rshift rsub
    rtruediv sub subtract true_divide truediv xor
"""
_MOVES = """
    t transpose view reshape expand expand_as unsqueeze squeeze permute select getitem flatten narrow movedim mT split
    chunk unbind unfold swapaxes swapdims flip roll
"""
_IN_PLACE = """
    abs_ add_ ceil_ clamp_ cos_ div_ exp_ floor_ log_ mul_ neg_ pow_ reciprocal_ round_ rsqrt_ sigmoid_ sign_ sin_ sqrt_
    square_ sub_ tan_ tanh_ trunc_ iadd isub imul itruediv
"""


def _method(name: str):
    """The method of plain tensors, or the function where there is none."""
    found = getattr(Tensor, name, None) or getattr(Tensor, f"__{name}__", None)
    return found or getattr(_C, name)


def _masks(*values):
    """The one mask of the masked tensors among `values`."""
    masks = [value._masked_mask for value in values if isinstance(value, MaskedTensor)]
    for other in masks[1:]:
        if other is not masks[0] and (other.shape != masks[0].shape or not bool((other == masks[0]).all())):
            raise ValueError("Input masks must match. If you need support for this, please open an issue on Github.")
    return masks[0]


def _elementwise(name: str):
    method = _method(name)

    def handler(*args, **kwargs):
        mask = _masks(*args, *kwargs.values())
        given = [_plain(a) if isinstance(a, MaskedTensor) else _guarded(a, mask) for a in args]
        result = method(*given, **{key: _plain(value) for key, value in kwargs.items()})
        return MaskedTensor.make(result, mask if result.shape == mask.shape else mask.expand(result.shape))

    return handler


def _moved(name: str):
    method = _method(name)

    def handler(tensor, *args, **kwargs):
        data = method(tensor._masked_data, *map(_plain, args), **kwargs)
        mask = method(tensor._masked_mask, *map(_plain, args), **kwargs)
        return (
            tree_map(MaskedTensor.make, data, mask)
            if isinstance(data, (tuple, list))
            else MaskedTensor.make(data, mask)
        )

    return handler


def _in_place(name: str):
    method = _method(name)

    def handler(tensor, *args, **kwargs):
        mask = _masks(tensor, *args)
        method(
            tensor._masked_data,
            *(_plain(a) if isinstance(a, MaskedTensor) else _guarded(a, mask) for a in args),
            **kwargs,
        )
        return tensor

    return handler


def _rest_of_mask(mask, dim, keepdim: bool):
    if dim is None or dim == ():
        rest = mask.any()
        return rest.view((1,) * mask.dim()) if keepdim else rest
    for one in sorted(((dim,) if isinstance(dim, int) else dim), key=lambda d: d % max(mask.dim(), 1), reverse=True):
        mask = mask.any(one, keepdim)
    return mask


def _reduced(name: str):
    def handler(tensor, dim=None, keepdim=False, **kwargs):
        from importlib import import_module

        function = getattr(import_module("narthex.masked"), name)
        mask = tensor._masked_mask
        found = function(tensor._masked_data, dim, keepdim=bool(keepdim), mask=mask, **kwargs)
        return MaskedTensor.make(found, _rest_of_mask(mask, dim, bool(keepdim)))

    return handler


def _spread(name: str):
    of = _reduced(name)

    def handler(tensor, dim=None, unbiased=None, keepdim=False, *, correction=None):
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        return of(tensor, dim, keepdim, unbiased=unbiased, correction=correction)

    return handler


def _all(tensor, dim=None, keepdim=False):
    data = tensor._masked_data.bool() | ~tensor._masked_mask
    found = data.all() if dim is None else data.all(dim, keepdim)
    return MaskedTensor.make(found, _rest_of_mask(tensor._masked_mask, dim, keepdim))


def _normalised(name: str):
    def handler(tensor, dim=None, *args, dtype=None, **kwargs):
        from importlib import import_module

        function = getattr(import_module("narthex.masked"), name)
        return MaskedTensor.make(
            function(tensor._masked_data, dim, dtype=dtype, mask=tensor._masked_mask), tensor._masked_mask
        )

    return handler


def _joined(name: str):
    def handler(tensors, dim=0):
        if not all(isinstance(one, MaskedTensor) for one in tensors):
            raise TypeError(f"{name}: all tensors must be MaskedTensors")
        function = getattr(_C, name)
        return MaskedTensor.make(
            *(function([getattr(x, part) for x in tensors], dim) for part in ("_masked_data", "_masked_mask"))
        )

    return handler


def _where(condition, input, other):
    if isinstance(condition, MaskedTensor) or not (isinstance(input, MaskedTensor) and isinstance(other, MaskedTensor)):
        raise TypeError("where: a tensor and two MaskedTensors are needed")
    mask = _C.where(condition, input._masked_mask, other._masked_mask)
    return MaskedTensor.make(_C.where(condition, input._masked_data, other._masked_data), mask)


HANDLERS.update({name: _elementwise(name) for name in (_UNARY + _BINARY).split() if name != "equal_"})
HANDLERS.update({name: _moved(name) for name in _MOVES.split()})
HANDLERS.update({name: _in_place(name) for name in _IN_PLACE.split()})
HANDLERS.update({name: _reduced(name) for name in ("sum", "mean", "prod", "amax", "amin", "argmax", "argmin")})
HANDLERS.update({name: _spread(name) for name in ("var", "std")})
HANDLERS.update({name: _normalised(name) for name in ("softmax", "log_softmax", "softmin")})
HANDLERS.update({name: _joined(name) for name in ("cat", "stack")})
HANDLERS.update({"all": _all, "where": _where})
