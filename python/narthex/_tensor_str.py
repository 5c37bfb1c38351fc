"""How tensors print: the digits, widths, line breaks and suffixes of PyTorch.

`tensor_text` is what repr() gives. All elements are formatted by one `_Style`, chosen from the elements that will be
shown; a tensor with more than `threshold` elements shows `edgeitems` at each end of each dimension.
"""

from contextlib import contextmanager
from math import ceil, inf, isfinite

from . import _C
from ._tensor import Tensor


class _Options:
    precision, threshold, edgeitems, linewidth, sci_mode = 4, 1000, 3, 80, None


_PROFILES = {
    "default": (4, 1000, 3, 80),
    "short": (2, 1000, 2, 80),
    "full": (4, inf, 3, 80),
}


def set_printoptions(
    precision=None, threshold=None, edgeitems=None, linewidth=None, profile=None, sci_mode=None
) -> None:
    """Sets how tensors print from here on. profile: default, short or full; sci_mode None: by the numbers."""
    if profile is not None:
        if profile not in _PROFILES:
            raise ValueError(f"set_printoptions: profile is '{profile}'; it must be one of {', '.join(_PROFILES)}")
        _Options.precision, _Options.threshold, _Options.edgeitems, _Options.linewidth = _PROFILES[profile]
    for name, value in (
        ("precision", precision),
        ("threshold", threshold),
        ("edgeitems", edgeitems),
        ("linewidth", linewidth),
    ):
        if value is not None:
            setattr(_Options, name, value)
    _Options.sci_mode = sci_mode


@contextmanager
def printoptions(**options):
    """set_printoptions for the time of a `with`."""
    names = ("precision", "threshold", "edgeitems", "linewidth", "sci_mode")
    before = {name: getattr(_Options, name) for name in names}
    set_printoptions(**options)
    try:
        yield
    finally:
        set_printoptions(**before)


class _Style:
    """How each of some elements is written, so that all have one width. `zero`: what counts as 0."""

    def __init__(self, values: list, floating: bool, zero: float = 0.0) -> None:
        self.floating, self.whole, self.scientific, self.width = floating, True, False, 1
        if not floating:
            self.width = max([1, *(len(str(value)) for value in values)])
            return
        shown = [value for value in values if isfinite(value) and value not in (0, zero)]
        if not shown:
            return
        low, high = min(map(abs, shown)), max(map(abs, shown))
        self.whole = all(value == ceil(value) for value in shown)
        self.scientific = high / low > 1000.0 or high > 1.0e8 or (not self.whole and low < 1.0e-4)
        if _Options.sci_mode is not None:
            self.scientific = _Options.sci_mode
        # One more column in whole numbers: for the point that follows each of them.
        spare = 1 if self.whole and not self.scientific else 0
        self.width = max(1, max(len(self._digits(value)) for value in shown) + spare)

    def _digits(self, value: float) -> str:
        if self.scientific:
            return f"{value:.{_Options.precision}e}"
        return f"{value:.0f}" if self.whole else f"{value:.{_Options.precision}f}"

    def write(self, value) -> str:
        """`value` as text, at least as wide as the others."""
        if not self.floating:
            text = str(value)
        else:
            text = self._digits(value)
            if self.whole and not self.scientific and isfinite(value):
                text += "."
        return text.rjust(self.width)


class _ComplexStyle:
    """How complex numbers are written: each part in a style of its own."""

    def __init__(self, values: list) -> None:
        self.real = _Style([value.real for value in values], True)
        self.imaginary = _Style([value.imag for value in values], True)
        self.width = self.real.width + self.imaginary.width + 1

    def write(self, value) -> str:
        """`value` as text."""
        imaginary = self.imaginary.write(value.imag).lstrip() + "j"
        return self.real.write(value.real) + ("" if imaginary[0] in "+-" else "+") + imaginary


def _style_of(dtype, values: list):
    if dtype.is_complex:
        return _ComplexStyle(values)
    # float8_e8m0fnu has no 0: its smallest number stands for it.
    return _Style(values, dtype.is_floating_point, 2.0**-127 if dtype is _C.float8_e8m0fnu else 0.0)


def _edges(size: int, short: bool) -> tuple:
    """The indices that are shown at the front and at the back of a dimension."""
    if short and size > 2 * _Options.edgeitems:
        return range(_Options.edgeitems), range(size - _Options.edgeitems, size)
    return range(size), range(0)


def _shown(data, shape: tuple, short: bool) -> list:
    """The elements of nested lists that will be printed, flat."""
    if not shape:
        return [data]
    front, back = _edges(shape[0], short)
    return [value for part in (front, back) for index in part for value in _shown(data[index], shape[1:], short)]


def _rows(data, shape: tuple, indent: int, short: bool, style: _Style) -> str:
    """The bracketed text of nested lists. `indent`: the column in which the first bracket stands."""
    if not shape:
        return style.write(data)
    front, back = _edges(shape[0], short)
    if len(shape) == 1:
        words = (
            [style.write(data[i]) for i in front] + ([" ..."] if back else []) + [style.write(data[i]) for i in back]
        )
        a_line = max(1, (_Options.linewidth - indent) // (style.width + 2))
        lines = [", ".join(words[at : at + a_line]) for at in range(0, len(words), a_line)]
        return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"
    parts = [_rows(data[i], shape[1:], indent + 1, short, style) for i in front]
    parts += ["..."] if back else []
    parts += [_rows(data[i], shape[1:], indent + 1, short, style) for i in back]
    return "[" + ("," + "\n" * (len(shape) - 1) + " " * (indent + 1)).join(parts) + "]"


def _contents(tensor, indent: int) -> str:
    shape = tuple(tensor.shape)
    source = tensor.detach()
    if source.device.type != "cpu":
        source = source.to("cpu")
    data = source.tolist()
    short = tensor.numel() > _Options.threshold
    return _rows(data, shape, indent, short, _style_of(tensor.dtype, _shown(data, shape, short)))


def _grad_suffix(tensor) -> list:
    made_by, tangent = tensor.grad_fn, _C.tangent_of(tensor)
    suffixes = [] if tangent is None else [f"tangent={tangent}"]
    if made_by is not None:
        return [f"grad_fn=<{made_by.name()}>", *suffixes]
    return (["requires_grad=True"] if tensor.requires_grad else []) + suffixes


def tensor_text(tensor, *, contents=None) -> str:
    """The tensor as repr() shows it. `contents` stands in for the elements if it is given."""
    if _C._batch_levels(tensor):
        return batched_text(tensor)
    fake = tensor._is_fake
    plain = type(tensor) is Tensor or tensor._is_param
    name = "tensor" if plain else type(tensor).__name__
    prefix = "FakeTensor(" if fake and tensor.device.type != "meta" else name + "("
    indent, dtype = len(prefix), tensor.dtype
    empty = tensor.numel() == 0 and contents is None and not fake
    suffixes = [] if tensor.device.type == "cpu" else [f"device='{tensor.device}'"]
    if fake:
        suffixes.append(f"size={tuple(tensor.shape)}")
        contents = "..." if contents is None else contents
    elif empty and tensor.dim() != 1:
        suffixes.append(f"size={tuple(tensor.shape)}")
    default = _C.get_default_dtype()
    usual = (default,) if empty or fake else (default, _usual_complex(default), _C.int64, _C.bool)
    if dtype not in usual:
        suffixes.append(f"dtype={dtype}")
    text = "[]" if empty else contents if contents is not None else _contents(tensor, indent)
    out = prefix + text
    column = len(out) - out.rfind("\n") + 1  # two more than there are: PyTorch leaves room for ", "
    for suffix in suffixes + _grad_suffix(tensor):
        if column + len(suffix) + 2 > _Options.linewidth:
            out, column = out + ",\n" + " " * indent + suffix, indent + len(suffix)
        else:
            out, column = out + ", " + suffix, column + len(suffix) + 2
    out += ")"
    return "Parameter containing:\n" + out if tensor._is_param else out


def _usual_complex(default):
    """The complex dtype that goes without saying: PyTorch's is complex64 beside float16, too."""
    return _C.complex128 if default is _C.float64 else _C.complex64


def batched_text(tensor) -> str:
    """One slice of many (vmap) as repr() shows it: all slices, and around them the levels, the innermost outside."""
    numbers, levels = [number for number, *_ in _C._batch_open()], _C._batch_levels(tensor)
    depths = [depth for depth, number in enumerate(numbers, 1) if levels >> number & 1]
    text = tensor_text(_C._batch_whole(tensor))
    for depth in depths + [-1] * (levels.bit_count() - len(depths)):  # -1: it has outlived its level
        text = f"BatchedTensor(lvl={depth}, bdim=0, value=\n    " + text.replace("\n", "\n    ") + "\n)"
    return text


def sparse_text(tensor) -> str:
    """A sparse tensor as repr() shows it: its parts, then what is not usual about it."""
    prefix, dtype = "tensor(", tensor.dtype
    indent = len(prefix)
    names = {"coo": ("indices",), "csr": ("crow_indices", "col_indices"), "csc": ("ccol_indices", "row_indices")}
    *places, values = tensor._parts
    kind = str(tensor.layout)[-3:]
    parts = []
    for name, part in zip((*names[kind], "values"), (*places, values), strict=True):
        head = f"{name}=tensor("
        text = "[]" if part.numel() == 0 else _contents(part, indent + len(head))
        if part.numel() == 0:
            text += f", size={tuple(part.shape)}" if part.dim() != 1 or name == "values" and part.dim() != 1 else ""
        parts.append(f"{head}{text})")
    out = prefix + (",\n" + " " * indent).join(parts)
    suffixes = [] if tensor.device.type == "cpu" else [f"device='{tensor.device}'"]
    suffixes += [f"size={tuple(tensor.shape)}", f"nnz={values.shape[0]}"]
    default = _C.get_default_dtype()
    if dtype not in (default, _usual_complex(default), _C.int64, _C.bool):
        suffixes.append(f"dtype={dtype}")
    suffixes.append(f"layout={tensor.layout}")
    out += (",\n" + " " * indent) if kind == "coo" else ", "
    column, first = len(out) - out.rfind("\n") + 1, True
    for suffix in suffixes + _grad_suffix(tensor):
        if not first and column + len(suffix) + 2 > _Options.linewidth:
            out, column = out + ",\n" + " " * indent + suffix, indent + len(suffix)
        else:
            out, column = out + ("" if first else ", ") + suffix, column + len(suffix) + 2
        first = False
    return out + ")"


PRINT_OPTS = _Options  # PyTorch's name for what set_printoptions sets


def _tensor_str(self, indent: int) -> str:
    """The elements alone, further lines `indent` columns in."""
    return _contents(self, indent)
