"""torch.utils.flop_counter: how many multiplications and additions the products, convolutions and attentions of a
program take, by module: a dispatch mode looks at the shapes of what runs, a ModuleTracker says where that stands."""

import warnings
from collections import defaultdict
from collections.abc import Callable
from functools import wraps
from math import prod

from .. import _C
from .._ops import ops
from ._python_dispatch import TorchDispatchMode
from ._pytree import tree_map
from .module_tracker import ModuleTracker

__all__ = ["FlopCounterMode", "register_flop_formula"]

aten = ops.aten
flop_registry: dict = {}  # an operator of torch.ops -> what counts a call, given its arguments and out_val, its result


def get_shape(i):
    """The shape of a tensor; anything else as it is."""
    return i.shape if isinstance(i, _C.TensorBase) else i


def shape_wrapper(f):
    """`f`, which takes shapes and out_shape, as a function of tensors and out_val."""

    @wraps(f)
    def counted(*args, out_val=None, **kwargs):
        args, kwargs, out_shape = tree_map(get_shape, (args, kwargs, out_val))
        return f(*args, out_shape=out_shape, **kwargs)

    return counted


def register_flop_formula(targets, get_raw: bool = False) -> Callable:
    """A decorator: the function counts calls of these operators, given the shapes of their arguments and `out_shape`;
    with `get_raw` the arguments themselves and `out_val`."""

    def register(formula):
        counts = formula if get_raw else shape_wrapper(formula)
        for target in targets if isinstance(targets, (list, tuple)) else [targets]:
            if not hasattr(target, "overloads"):  # a packet, of the table or of torch.library
                raise ValueError(
                    "register_flop_formula(targets): expected each target to be OpOverloadPacket (i.e. "
                    f"torch.ops.mylib.foo), JitFunction, or HigherOrderOperator, got {target} which is of type "
                    f"{type(target)}"
                )
            if target in flop_registry:
                raise RuntimeError(f"duplicate registrations for {target}")
            flop_registry[target] = counts
        return counts

    return register


# ---- formulas: an addition and a multiplication are two ----------------------------------------------------------
@register_flop_formula(aten.mm)
def mm_flop(a_shape, b_shape, *args, out_shape=None, **kwargs) -> int:
    """(m, k) times (k, n)."""
    (m, k), (_, n) = a_shape, b_shape
    return 2 * m * k * n


@register_flop_formula(aten.addmm)
def addmm_flop(self_shape, a_shape, b_shape, out_shape=None, **kwargs) -> int:
    """The product's; what is added does not count."""
    return mm_flop(a_shape, b_shape)


@register_flop_formula(aten.bmm)
def bmm_flop(a_shape, b_shape, out_shape=None, **kwargs) -> int:
    """(b, m, k) times (b, k, n)."""
    return a_shape[0] * mm_flop(a_shape[1:], b_shape[1:])


@register_flop_formula(aten.baddbmm)
def baddbmm_flop(self_shape, a_shape, b_shape, out_shape=None, **kwargs) -> int:
    """The product's; what is added does not count."""
    return bmm_flop(a_shape, b_shape)


def conv_flop_count(x_shape: list, w_shape: list, out_shape: list, transposed: bool = False) -> int:
    """A kernel at each place of the result, or, transposed, at each place of the argument."""
    places = (x_shape if transposed else out_shape)[2:]
    return 2 * x_shape[0] * prod(places) * prod(w_shape)


@register_flop_formula(aten.convolution)
def conv_flop(
    x_shape, w_shape, _bias, _stride, _padding, _dilation, transposed, *args, out_shape=None, **kwargs
) -> int:
    """As conv_flop_count."""
    return conv_flop_count(x_shape, w_shape, out_shape, transposed)


@register_flop_formula(aten.convolution_backward)
def conv_backward_flop(
    grad_out_shape, x_shape, w_shape, _bias, _stride, _padding, _dilation, transposed, _output_padding, _groups,
    output_mask, out_shape, **kwargs,
) -> int:  # fmt: skip
    """The gradients that `output_mask` asks for: by the argument, a convolution of the other kind; by the kernel, one
    of the argument and the gradient in which channels take the place of the batch."""

    def turned(shape) -> list:
        return [shape[1], shape[0], *shape[2:]]

    count = 0
    if output_mask[0]:
        count += conv_flop_count(grad_out_shape, w_shape, out_shape[0], not transposed)
    if output_mask[1]:
        x, w = (grad_out_shape, x_shape) if transposed else (x_shape, grad_out_shape)
        count += conv_flop_count(turned(x), turned(w), turned(out_shape[1]), False)
    return count


def sdpa_flop_count(query_shape, key_shape, value_shape) -> int:
    """Query by key, and that by value."""
    (b, h, s, e), (_, _, t, _), (_, _, _, v) = query_shape, key_shape, value_shape
    return bmm_flop((b * h, s, e), (b * h, e, t)) + bmm_flop((b * h, s, t), (b * h, t, v))


def sdpa_flop(query_shape, key_shape, value_shape, *args, out_shape=None, **kwargs) -> int:
    """As sdpa_flop_count."""
    return sdpa_flop_count(query_shape, key_shape, value_shape)


def sdpa_backward_flop_count(grad_out_shape, query_shape, key_shape, value_shape) -> int:
    """The scores once more, and two products for each of the two."""
    (b, h, s, e), (_, _, t, _), (_, _, _, v) = query_shape, key_shape, value_shape
    scores, values = bmm_flop((b * h, s, e), (b * h, e, t)), bmm_flop((b * h, s, t), (b * h, t, v))
    return 3 * scores + 2 * values


def sdpa_backward_flop(grad_out_shape, query_shape, key_shape, value_shape, *args, out_shape=None, **kwargs) -> int:
    """As sdpa_backward_flop_count."""
    return sdpa_backward_flop_count(grad_out_shape, query_shape, key_shape, value_shape)


# ---- numbers as text -----------------------------------------------------------------------------------------------
_SUFFIXES = ("", "K", "M", "B", "T")


def get_suffix_str(number) -> str:
    """The suffix with which a number has two to four digits before the point."""
    return _SUFFIXES[max(0, min(len(_SUFFIXES) - 1, (len(str(number)) - 2) // 3))]


def convert_num_with_suffix(number, suffix) -> str:
    """The number with that suffix and three digits behind the point."""
    return f"{number / 1000 ** _SUFFIXES.index(suffix):.3f}{suffix}"


def convert_to_percent_str(num, denom) -> str:
    """ "27.27%"."""
    return f"{num / denom:.2%}" if denom else "0%"


def _table(rows: list) -> str:
    titles = ["Module", "FLOP", "% Total"]
    widths = [max(len(title) + 2, *(len(row[k]) for row in rows)) for k, title in enumerate(titles)]
    lines = [
        "  ".join(
            text.ljust(width) if k == 0 else text.rjust(width) for k, (text, width) in enumerate(zip(row, widths))
        )
        for row in [titles, ["-" * width for width in widths], *rows]
    ]
    return "\n".join(lines)


# ---- the counter ---------------------------------------------------------------------------------------------------
class FlopCounterMode:
    """`with` it, what runs is counted, by module and operator; leaving prints a table of modules down to `depth` unless
    `display` is False. `custom_mapping`: formulas for operators beside those known, as register_flop_formula takes
    them."""

    def __init__(self, mods=None, depth: int = 2, display: bool = True, custom_mapping: dict | None = None) -> None:
        if mods is not None:
            warnings.warn("mods argument is not needed anymore, you can stop passing it", stacklevel=2)
        own = {op: f if getattr(f, "_get_raw", False) else shape_wrapper(f) for op, f in (custom_mapping or {}).items()}
        self.flop_registry = {**flop_registry, **own}
        self.flop_counts: dict = defaultdict(lambda: defaultdict(int))
        self.depth, self.display = depth, display
        self.mode: _Counter | None = None
        self.mod_tracker = ModuleTracker()

    def get_total_flops(self) -> int:
        """All that was counted."""
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self) -> dict:
        """{module: {operator: count}}; "Global" has all."""
        return {name: dict(counts) for name, counts in self.flop_counts.items()}

    def get_table(self, depth=None) -> str:
        """The counts as text, down to modules of `depth` names; "Global" where no module has them all."""
        depth = self.depth if depth is None else depth
        total = self.get_total_flops()
        suffix = get_suffix_str(total)

        def row(name, count) -> list:
            text = convert_num_with_suffix(count, suffix) if suffix else f"{count:g}"
            return [str(name), text, convert_to_percent_str(count, total)]

        shown = [
            name for name in sorted(self.flop_counts)
            if name != "Global" and (depth is None or name.count(".") < depth)
        ]  # fmt: skip
        sums = {name: sum(self.flop_counts[name].values()) for name in shown}
        if not any(count >= total for count in sums.values()):
            shown, sums["Global"] = ["Global", *shown] if "Global" in self.flop_counts else shown, total
        rows = []
        for name in shown:
            rows.append(row(name, sums[name]))
            rows += [row(f"- {op}", count) for op, count in self.flop_counts[name].items()]
        return _table(rows or [["Global", "0", "0%"]])

    def __enter__(self) -> "FlopCounterMode":
        self.flop_counts.clear()
        self.mod_tracker.__enter__()
        self.mode = _Counter(self)
        self.mode.__enter__()
        return self

    def __exit__(self, *exception) -> None:
        self.mode.__exit__(*exception)
        self.mode = None
        self.mod_tracker.__exit__(*exception)
        if self.display:
            print(self.get_table(self.depth))


class _Counter(TorchDispatchMode):
    def __init__(self, counter: FlopCounterMode) -> None:
        super().__init__()
        self.counter = counter

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        op = func._overloadpacket
        if op in self.counter.flop_registry:
            count = self.counter.flop_registry[op](*args, **kwargs, out_val=result)
            for name in set(self.counter.mod_tracker.parents):
                self.counter.flop_counts[name][op] += count
        return result
