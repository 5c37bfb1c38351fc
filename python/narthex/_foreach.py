"""torch._foreach_X: X of each tensor of a list, composed; in place (`_foreach_X_`) and as new tensors.

Those that are operators of their own (in-place sums and products, norm) stand in `_C`; of _FOREACH_FORMS more forms are
composed here, a number for each tensor.
"""

from . import _C, _FOREACH_FORMS
from ._absent import absent

_UNARY = (
    "abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg reciprocal round "
    "rsqrt sigmoid sign sin sinh sqrt tan tanh trunc"
).split()
_OTHERS = "add sub mul div maximum minimum clamp_min clamp_max pow lerp addcmul addcdiv copy norm clone max mm".split()
_OF_A_NUMBER = {"maximum": "clamp_min", "minimum": "clamp_max"}  # that take one, and a tensor as well


def _spread(name: str, value, n: int) -> list:
    """One value for each of n tensors, of a list or of one for all."""
    if not isinstance(value, (list, tuple)):
        return [value] * n
    if len(value) != n:
        raise RuntimeError(f"{name}: Tensor lists must have the same number of tensors, got {n} and {len(value)}")
    return list(value)


def _is_each(value) -> bool:
    """Whether it is a number for each tensor, or one that the operators of `_C` do not take."""
    if isinstance(value, complex):
        return True
    return isinstance(value, (list, tuple)) and len(value) > 0 and not isinstance(value[0], _C.TensorBase)


def _each(full: str, base: str, in_place: bool):
    from ._tensor import Tensor

    whole = vars(_C)[full] if full in _FOREACH_FORMS else None

    def foreach(self, *others, **keywords):
        if base in ("addcmul", "addcdiv"):
            if len(others) == 3 or "scalars" in keywords:
                value = others[2] if len(others) == 3 else keywords.pop("scalars")
                others, keywords = others[:2], {"value": value, **keywords}
            if isinstance(keywords.get("value"), _C.TensorBase):
                keywords["value"] = keywords["value"].tolist()
        elif "scalars" in keywords:
            others = (*others, keywords.pop("scalars"))
        weights = base == "lerp" and len(others) == 2 and isinstance(others[1], (list, tuple))
        of_a_tensor = base in ("add", "sub") and len(others) > 0 and isinstance(others[0], _C.TensorBase)
        if whole and not weights and not of_a_tensor and not any(map(_is_each, (*others, *keywords.values()))):
            return whole(self, *others, **keywords)
        if len(self) == 0:
            raise RuntimeError("Tensor list must have at least one tensor.")
        name = base
        if base in _OF_A_NUMBER and (in_place or not isinstance(others[0], (list, tuple))):
            name = _OF_A_NUMBER[base]
        elif base in _OF_A_NUMBER and (not isinstance(others[0][0], _C.TensorBase) or self[0].is_complex()):
            name = _OF_A_NUMBER[base]  # complex ones are refused in its words
        function = getattr(Tensor, name + "_") if in_place else getattr(_C, name)
        columns = [_spread(full, value, len(self)) for value in others]
        named = {key: _spread(full, value, len(self)) for key, value in keywords.items()}
        made = [
            function(tensor, *(column[k] for column in columns), **{key: value[k] for key, value in named.items()})
            for k, tensor in enumerate(self)
        ]
        return self if in_place else tuple(made)

    foreach.__name__ = foreach.__qualname__ = full
    foreach.__doc__ = (
        f"`{base}{'_' if in_place else ''}` of each tensor of a list: {'the list' if in_place else 'a tuple'}."
    )
    return foreach


def _foreach_powsum(self, ord=2, dtype=None):  # noqa: A002
    """The sum of the powers `ord` of the absolute values, of each tensor of a list: a tuple."""
    if len(self) == 0:
        raise RuntimeError("Tensor list must have at least one tensor.")
    return tuple((x if dtype is None else x.to(dtype)).abs().pow(ord).sum() for x in self)


def __getattr__(full: str):
    base = full.removeprefix("_foreach_")
    in_place = base.endswith("_")
    base = base.rstrip("_")
    known = base in _UNARY or base in _OTHERS
    alone = base in ("clone", "max", "mm")  # not in place
    has_form = hasattr(_C.TensorBase, base + "_") and not alone if in_place else hasattr(_C, base) and base != "copy"
    if not full.startswith("_foreach_") or not known or not (has_form or base in _OF_A_NUMBER):
        raise absent("torch", full, "`narthex op` lists the operators")
    made = globals()[full] = _each(full, base, in_place)
    return made
