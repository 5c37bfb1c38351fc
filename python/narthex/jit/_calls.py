"""What the code of TorchScript archives calls: torch.NAME and ops.SPACE.NAME, of tensors and of plain values.

`torch.add` there is one name for tensors, numbers, lists and texts. With a tensor among its arguments it is the
operator of ATen; else the plain meaning stands here. A dtype, a layout and a memory format are numbers there.
"""

import builtins
import math
import operator
import warnings

from .. import _C

DTYPES = {
    0: _C.uint8,
    1: _C.int8,
    2: _C.int16,
    3: _C.int32,
    4: _C.int64,
    5: _C.float16,
    6: _C.float32,
    7: _C.float64,
    8: _C.complex32,
    9: _C.complex64,
    10: _C.complex128,
    11: _C.bool,
    15: _C.bfloat16,
}
NUMBERS = {dtype: number for number, dtype in DTYPES.items()}
FORMATS = {0: _C.contiguous_format, 1: _C.preserve_format, 2: _C.channels_last, 3: _C.channels_last_3d}


class ScriptError(RuntimeError):
    """What the code raises by a class that is not Python's own."""


def is_tensor(x) -> bool:
    return isinstance(x, _C.TensorBase)


def has_tensor(args) -> bool:
    return any(is_tensor(x) or (isinstance(x, (list, tuple)) and x and has_tensor(x)) for x in args)


def dtype_of(code):
    return DTYPES[code] if isinstance(code, int) and not isinstance(code, bool) else code


# ---- plain values --------------------------------------------------------------------------------------------------
def _slice(x, start=None, stop=None, step=1):
    return x[start:stop:step]


def _format(text: str, *args) -> str:
    """{} alone: what else Python puts between the braces would read attributes."""
    first, *rest = text.split("{}")
    return first + "".join(str(arg) + part for arg, part in zip(args, rest))


def _range_length(low: int, high: int, step: int) -> int:
    return len(range(low, high, step))


def _pop(x, *at):
    return x.pop(*at)


def _sort(x, reverse=False):
    x.sort(reverse=reverse)


def _set_item(x, at, value):
    x[at] = value
    return x


def _delete(x, at):
    del x[at]


def _join(between: str, texts) -> str:
    return between.join(texts)


def _rounded(function):
    return lambda x: int(function(x)) if math.isfinite(x) else x


PLAIN = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "floordiv": operator.floordiv,
    "remainder": operator.mod,
    "mod": operator.mod,
    "pow": operator.pow,
    "neg": operator.neg,
    "abs": abs,
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "__and__": operator.and_,
    "__or__": operator.or_,
    "__xor__": operator.xor,
    "__not__": operator.not_,
    "__lshift__": operator.lshift,
    "__rshift__": operator.rshift,
    "__is__": operator.is_,
    "__isnot__": operator.is_not,
    "__contains__": operator.contains,
    "__getitem__": operator.getitem,
    "_set_item": _set_item,
    "__delitem__": _delete,
    "len": len,
    "slice": _slice,
    "append": list.append,
    "extend": list.extend,
    "insert": list.insert,
    "pop": _pop,
    "clear": lambda x: x.clear(),
    "reverse": list.reverse,
    "sort": _sort,
    "sorted": sorted,
    "copy": lambda x: x.copy(),
    "list": list,
    "count": lambda x, y: x.count(y),
    "index": lambda x, y: x.index(y),
    "keys": lambda x: list(x.keys()),
    "values": lambda x: list(x.values()),
    "items": lambda x: list(x.items()),
    "get": lambda x, *rest: x.get(*rest),
    "update": dict.update,
    "dict": lambda *pairs: dict(*pairs),
    "format": _format,
    "str": str,
    "join": _join,
    "split": lambda x, *rest: x.split(*rest),
    "strip": lambda x, *rest: x.strip(*rest),
    "lower": str.lower,
    "upper": str.upper,
    "startswith": str.startswith,
    "endswith": str.endswith,
    "replace": str.replace,
    "find": str.find,
    "ord": ord,
    "chr": chr,
    "hash": hash,
    "Int": int,
    "Float": float,
    "Bool": bool,
    "IntImplicit": int,
    "FloatImplicit": float,
    "ScalarImplicit": lambda x: x,
    "floor": _rounded(math.floor),
    "ceil": _rounded(math.ceil),
    "round": _rounded(round),
    "sqrt": math.sqrt,
    "exp": math.exp,
    "log": math.log,
    "log2": math.log2,
    "log10": math.log10,
    "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan,
    "tanh": math.tanh,
    "fmod": math.fmod,
    "gcd": math.gcd,
    "isnan": math.isnan,
    "isinf": math.isinf,
    "isfinite": math.isfinite,
    "sum": sum,
    "any": any,
    "all": all,
    "min": min,
    "max": max,
    "__range_length": _range_length,
    "__derive_index": lambda index, start, step: start + index * step,
    "warn": lambda text, level=2: warnings.warn(text, stacklevel=level),
    "is_scripting": lambda: True,
    "manual_seed": lambda seed: _at_torch("manual_seed")(seed),
    "is_grad_enabled": lambda: _C.is_grad_enabled(),
    "set_grad_enabled": lambda on: _C.set_grad_enabled(on),
    "device": lambda *where: _C.device(*where),
    "tensor": lambda *args, **kwargs: _tensor(*args, **kwargs),
}


def _at_torch(name: str):
    import narthex

    return getattr(narthex, name)


# ---- tensors -------------------------------------------------------------------------------------------------------
def _size(x, dim=None):
    return list(x.shape) if dim is None else x.shape[dim]


def _to(x, *args, **kwargs):
    """torch.to(x, dtype), (x, device, dtype, ...) or (x, other, ...), with numbers in the place of words."""
    where = [a for a in args if isinstance(a, (_C.device, str)) or is_tensor(a)]
    codes = [a for a in args[:2] if isinstance(a, int) and not isinstance(a, bool)]
    kwargs = {name: dtype_of(value) for name, value in kwargs.items() if name == "dtype" and value is not None}
    kind = kwargs.get("dtype") or (dtype_of(codes[0]) if codes else None)
    for place in where:
        kind = place.dtype if is_tensor(place) else kind
        x = x.to(place.device if is_tensor(place) else place)
    return x if kind is None else x.to(kind)


def _convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups, *flags):
    return _C.convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)


def _tensor(data, *, dtype=None, device=None, requires_grad=False):
    return _C.tensor(data, dtype=dtype_of(dtype), device=device, requires_grad=requires_grad)


def _list(x):
    return x.tolist() if is_tensor(x) else list(x)


OF_TENSORS = {
    "size": _size,
    "dim": lambda x: x.dim(),
    "numel": lambda x: x.numel(),
    "len": len,
    "to": _to,
    "item": lambda x: x.item(),
    "Int": int,
    "Float": float,
    "Bool": bool,
    "IntImplicit": int,
    "FloatImplicit": float,
    "ScalarImplicit": lambda x: x.item(),
    "__getitem__": operator.getitem,
    "_convolution": _convolution,
    "_convolution_mode": lambda *args: _C.convolution(*args),
    "__not__": operator.not_,
    "__is__": operator.is_,
    "__isnot__": operator.is_not,
    "append": list.append,
    "list": _list,
    "extend": list.extend,
    "insert": list.insert,
    "pop": _pop,
    "_set_item": _set_item,
    "copy": lambda x: list(x),
    "stride": lambda x, *dim: list(x.stride()) if not dim else x.stride(*dim),
    "is_floating_point": lambda x: x.is_floating_point(),
    "is_complex": lambda x: x.is_complex(),
    "backward": lambda x, *rest: x.backward(*rest),
    "items": lambda x: list(x.items()),
    "format": _format,
    "keys": lambda x: list(x.keys()),
    "values": lambda x: list(x.values()),
    "get": lambda x, *rest: x.get(*rest),
    "contiguous": lambda x, *rest, **more: x.contiguous(),
    "tensor": _tensor,
    "__contains__": operator.contains,
    "requires_grad_": lambda x, on=True: x.requires_grad_(on),
    "reverse": list.reverse,
    "index": lambda x, at: x[tuple(slice(None) if one is None else one for one in at)],
}


def _encoder_layer(
    x,
    size,
    heads,
    qkv,
    qkv_bias,
    out,
    out_bias,
    gelu,
    norm_first,
    eps,
    norm1,
    bias1,
    norm2,
    bias2,
    wide,
    wide_bias,
    narrow,
    narrow_bias,
    mask=None,
    mask_type=None,
):
    """What a nn.TransformerEncoderLayer without gradients calls."""
    from ..nn import functional as F  # noqa: N812

    if mask is not None:
        raise NotImplementedError("jit.load: _transformer_encoder_layer_fwd with a mask is not there")

    def attend(x):
        parts = F.linear(x, qkv, qkv_bias).unflatten(-1, (3, heads, size // heads)).permute(2, 0, 3, 1, 4)
        return F.linear(F.scaled_dot_product_attention(*parts.unbind(0)).transpose(1, 2).flatten(2), out, out_bias)

    def widen(x):
        return F.linear((F.gelu if gelu else F.relu)(F.linear(x, wide, wide_bias)), narrow, narrow_bias)

    def normed(x, weight, bias):
        return F.layer_norm(x, (size,), weight, bias, eps)

    if norm_first:
        x = x + attend(normed(x, norm1, bias1))
        return x + widen(normed(x, norm2, bias2))
    x = normed(x + attend(x), norm1, bias1)
    return normed(x + widen(x), norm2, bias2)


def _upsampled(name: str, mode: str):
    def upsample(x, size, *rest):
        """With a list of factors, or by the operator."""
        from .._ops import ops
        from ..nn import functional

        if rest and (size is None or isinstance(rest[-1], list)):
            corners = {} if mode == "nearest" else {"align_corners": rest[0]}
            return functional.interpolate(x, size, rest[-1] if size is None else None, mode, **corners)
        return getattr(ops.aten, name)(x, size, *rest)

    OF_TENSORS[name] = upsample


for _name, _mode in (
    ("upsample_nearest1d", "nearest"),
    ("upsample_nearest2d", "nearest"),
    ("upsample_nearest3d", "nearest"),
    ("upsample_linear1d", "linear"),
    ("upsample_bilinear2d", "bilinear"),
    ("upsample_bicubic2d", "bicubic"),
    ("upsample_trilinear3d", "trilinear"),
):
    _upsampled(_name, _mode)
OF_TENSORS["_transformer_encoder_layer_fwd"] = _encoder_layer
THIRD_IS_DTYPE = {"softmax", "log_softmax", "cumsum", "cumprod"}


def _words(kwargs: dict) -> dict:
    """Keywords as Python has them: the numbers of dtypes, layouts and formats as words; what says nothing left out."""
    made = {}
    for name, value in kwargs.items():
        if value is None or name in ("layout", "pin_memory"):
            continue
        made[name] = dtype_of(value) if name == "dtype" else FORMATS.get(value) if name == "memory_format" else value
    return made


# Operators of ATen that are functions of Python here.
OF_TORCH = {
    "lstm",
    "gru",
    "rnn_tanh",
    "rnn_relu",
    "lstm_cell",
    "gru_cell",
    "rnn_tanh_cell",
    "rnn_relu_cell",
    "stft",
    "istft",
    "einsum",
    "tensordot",
    "norm",
    "meshgrid",
    "is_autocast_enabled",
    "is_autocast_cpu_enabled",
    "unique_consecutive",
    "unique_dim",
    "cdist",
    "cartesian_prod",
    "block_diag",
    "broadcast_tensors",
    "embedding_bag",
    "rot90",
    "trapezoid",
    "diff",
    "renorm",
    "hann_window",
    "hamming_window",
    "bartlett_window",
    "blackman_window",
    "kaiser_window",
    "quantile",
    "nanquantile",
    "histc",
    "cov",
    "corrcoef",
    "hsplit",
    "vsplit",
    "dsplit",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "combinations",
    "is_grad_enabled",
}
SAME = {"unsafe_chunk": "chunk", "unsafe_split": "split"}
OF_FUNCTIONAL = {"pad", "embedding_renorm_", "multi_head_attention_forward", "fold", "unfold"}


def function_of(name: str):
    """The function of Narthex that is ATen's operator of that name."""
    from ..nn import functional

    return _at_torch(name) if name in OF_TORCH else getattr(functional, name) if name in OF_FUNCTIONAL else None


def call(name: str, args: tuple, kwargs: dict):
    """torch.NAME(...) of the code."""
    of_tensors = has_tensor(args) or has_tensor(kwargs.values())
    if of_tensors and name in OF_TENSORS:
        return OF_TENSORS[name](*args, **kwargs)
    if not of_tensors and name in PLAIN:
        return PLAIN[name](*args, **kwargs)
    if name in THIRD_IS_DTYPE and len(args) > 2:
        args, kwargs = args[:2], {**kwargs, "dtype": args[2]}
    if name in GATHERED and args and isinstance(args[0], int):
        args = (list(args),)
    from .._ops import ops

    found = getattr(ops.aten, name, None) or function_of(name)
    if found is None and args and is_tensor(args[0]) and not name.startswith("_"):
        found = getattr(type(args[0]), SAME.get(name, name), None)
    if found is None:
        raise NotImplementedError(f"jit.load: the code calls torch.{name}, which is not there")
    made = found(*args, **_words(kwargs))
    return list(made) if isinstance(made, (_C.Size,)) or (type(made) is tuple and name in LISTS) else made


LISTS = {"chunk", "split", "split_with_sizes", "unbind", "tensor_split", "broadcast_tensors", "meshgrid"}


# ---- ops.prim ------------------------------------------------------------------------------------------------------
def _raise(text, kind=None):
    found = getattr(builtins, (kind or "").rpartition(".")[2], None)
    is_error = isinstance(found, type) and issubclass(found, Exception)  # else the code could call any builtin
    raise (found if is_error else ScriptError)(text)


PRIM = {
    "NumToTensor": _C.tensor,
    "RaiseException": _raise,
    "device": lambda x: x.device,
    "dtype": lambda x: NUMBERS[x.dtype],
    "data": lambda x: x.detach(),
    "requires_grad": lambda x: x.requires_grad,
    "is_cuda": lambda x: x.is_cuda,
    "layout": lambda x: 0,
    "shape": _size,
    "min": lambda *x: min(*x) if len(x) > 1 else min(x[0]),
    "max": lambda *x: max(*x) if len(x) > 1 else max(x[0]),
    "abs": abs,
    "ndim": lambda x: x.dim(),
    "grad": lambda x: x.grad,
    "unchecked_unwrap_optional": lambda x: x,
    "itemsize": lambda x: x.itemsize,
    "Print": print,
    "is_nested": lambda x: False,
    "type": lambda x: x.type if isinstance(x, _C.device) else x,
    "index": lambda x: x.index,
    "is_mkldnn": lambda x: False,
    "is_quantized": lambda x: False,
    "is_sparse": lambda x: x.is_sparse,
    "rangelist": lambda n: list(range(n)),
    "T": lambda x: x.T,
    "mT": lambda x: x.mT,
    "H": lambda x: x.H,
    "real": lambda x: x.real,
    "imag": lambda x: x.imag,
    "tolist": lambda x, *kind: x.tolist(),
}


PROPERTIES = {"shape", "dtype", "device", "data", "requires_grad", "is_cuda", "layout", "ndim", "grad", "itemsize",
              "is_nested", "is_mkldnn", "is_quantized", "is_sparse", "T", "mT", "H", "real", "imag"}  # fmt: skip
CASTS = {"float", "double", "half", "bfloat16", "long", "int", "short", "char", "byte", "bool", "cpu", "tolist",
         "backward"}  # fmt: skip
METHODS = {
    list: {"append", "extend", "insert", "pop", "clear", "reverse", "sort", "copy", "count", "index", "remove"},
    dict: {"keys", "values", "items", "get", "pop", "update", "clear", "copy", "setdefault"},
    str: {
        "join", "split", "rsplit", "strip", "lstrip", "rstrip", "lower", "upper", "startswith", "endswith", "replace",
        "find", "rfind", "count", "isdigit", "isalpha", "splitlines", "title", "capitalize", "zfill",
    },
}  # fmt: skip
GATHERED = {"zeros", "ones", "empty", "rand", "randn"}  # torch.zeros(2, 3) for torch.zeros([2, 3])


def is_operator(name: str) -> bool:
    """Whether torch.NAME of the code is an operator of ATen."""
    from .._ops import ops

    return name in OF_TORCH or name in PLAIN or name in OF_TENSORS or getattr(ops.aten, name, None) is not None


def method_of(x, name: str):
    """x.NAME of the code, of a tensor, a list, a dict, a text, a device, results with names; None: nothing."""
    if is_tensor(x):
        if name in PROPERTIES:
            return PRIM[name](x)
        if name in OF_TENSORS or name in THIRD_IS_DTYPE:
            return lambda *args, **kwargs: call(name, (x, *args), kwargs)
        if name.startswith("_") or not (name in CASTS or is_operator(name)):
            return None
        return lambda *args, **kwargs: _method(x, name, args, kwargs)
    if type(x) is str and name == "format":
        return lambda *args: _format(x, *args)
    if name in METHODS.get(type(x), ()):
        found = getattr(x, name)
        return (lambda: list(found())) if name in ("keys", "values", "items") else found
    if isinstance(x, _C.device) and name in ("type", "index"):
        return getattr(x, name)
    if isinstance(x, tuple) and name in ("values", "indices") and type(x) is not tuple:
        return getattr(x, name)
    return None


def _method(x, name: str, args: tuple, kwargs: dict):
    found = getattr(type(x), name, None)
    if found is None:
        return call(name, (x, *args), kwargs)
    made = found(x, *args, **_words(kwargs))
    return list(made) if isinstance(made, _C.Size) or (type(made) is tuple and name in LISTS) else made


def operator_of(name: str):
    """torch.NAME of the code."""
    if name.startswith("__") and name not in PLAIN and name not in OF_TENSORS:
        raise RuntimeError(f"jit.load: the code names torch.{name}, which means nothing")
    return lambda *args, **kwargs: call(name, args, kwargs)


def of_space(space: str, name: str):
    """ops.SPACE.NAME of the code: prim and aten, or an operator that torch.library added."""
    if space == "aten":
        return operator_of(name)
    if space == "prim":
        if name not in PRIM:
            raise NotImplementedError(f"jit.load: the code calls ops.prim.{name}, which is not there")
        return PRIM[name]
    from .._ops import OpOverloadPacket, ops

    found = None if space.startswith("_") or name.startswith("_") else getattr(getattr(ops, space), name, None)
    if not isinstance(found, OpOverloadPacket):
        raise NotImplementedError(f"jit.load: the code calls ops.{space}.{name}, which is not there")
    return found
