"""torch.func.rearrange: dimensions in another order, joined and taken apart, as a pattern says."""

from __future__ import annotations

import re

_TOKEN = re.compile(r"\s*(\.\.\.|\(|\)|[A-Za-z_]\w*|1)")


def _groups(side: str, pattern: str) -> list:
    """The dimensions of one side: each a list of names; "..." stands by itself. A 1 is a dimension of no name."""
    found: list = []
    inside = None
    at = 0
    side = side.rstrip()
    while at < len(side):
        match = _TOKEN.match(side, at)
        if match is None:
            raise ValueError(f"rearrange: cannot read '{side[at:].strip()}' in the pattern '{pattern}'")
        token, at = match[1], match.end()
        if token == "(":
            if inside is not None:
                raise ValueError("brackets inside brackets are not allowed")
            inside = []
        elif token == ")":
            if inside is None:
                raise ValueError("Brackets are not balanced")
            found.append(inside)
            inside = None
        elif token == "1":
            if inside is None:
                found.append([])
        elif inside is not None:
            inside.append(token)
        else:
            found.append(token if token == "..." else [token])
    if inside is not None:
        raise ValueError(f"imbalanced parentheses in expression: '{side.strip()}'")
    return found


def _names(groups: list) -> list:
    return [name for group in groups for name in (["..."] if group == "..." else group)]


def _sizes_of(group: list, size: int, known: dict, pattern: str) -> None:
    """Adds the sizes of a dimension's names, of which one may be unknown."""
    product, open_names = 1, [name for name in group if name not in known]
    for name in group:
        product *= known.get(name, 1)
    if len(open_names) > 1:
        raise ValueError(
            f"rearrange: the sizes of {', '.join(open_names)} in '{pattern}' do not follow: give all but one"
        )
    if product == 0 or size % product or (not open_names and size != product):
        raise ValueError(
            f"rearrange: a dimension of size {size} cannot be ({' '.join(group)}) of '{pattern}' with {known}"
        )
    if open_names:
        known[open_names[0]] = size // product


def rearrange(tensor, pattern: str, **axes_lengths: int):
    """`tensor` with its dimensions as the right side of "left -> right" has them. Names stand for dimensions, (a b)
    for one that holds both, ... for any number of them, 1 for one of size 1. A sequence of tensors is stacked first.
    `axes_lengths`: sizes of names that are taken apart."""
    from .. import _C

    if not isinstance(tensor, _C.TensorBase):
        tensor = _C.stack(list(tensor))
    left, arrow, right = pattern.partition("->")
    if not arrow or "->" in right:
        raise ValueError(f"rearrange: the pattern '{pattern}' must have one '->'")
    before, after = _groups(left, pattern), _groups(right, pattern)
    names, wanted = _names(before), _names(after)
    for some in (names, wanted):
        if len(set(some)) < len(some):
            raise ValueError(f"rearrange: a name stands twice on one side of '{pattern}'")
    if set(names) != set(wanted):
        raise ValueError(f"Identifiers only on one side of expression (should be on both): {set(names) ^ set(wanted)}")
    if unknown := set(axes_lengths) - set(names):
        raise ValueError(f"rearrange: {', '.join(sorted(unknown))} of axes_lengths is not in '{pattern}'")
    n_more = tensor.dim() - len(before) + 1 if "..." in before else 0
    if n_more < 0 or ("..." not in before and len(before) != tensor.dim()):
        raise ValueError(f"Number of dimensions in pattern ({len(before)}) and tensor ({tensor.dim()}) do not match")
    known, parts, at = dict(axes_lengths), [], 0  # parts: the names in the order of the taken apart dimensions
    for group in before:
        if group == "...":
            parts += [("...", k) for k in range(n_more)]
            known |= {("...", k): tensor.shape[at + k] for k in range(n_more)}
            at += n_more
            continue
        _sizes_of(group, tensor.shape[at], known, pattern)
        parts += group
        at += 1
    flat = tensor.reshape([known[name] for name in parts])
    more = [("...", k) for k in range(n_more)]
    spread = [(more if name == "..." else [name]) for name in wanted]
    flat = flat.permute([parts.index(name) for some in spread for name in some])
    sizes: list = []
    for group in after:
        if group == "...":
            sizes += [known[name] for name in more]
            continue
        size = 1
        for name in group:
            for one in more if name == "..." else [name]:
                size *= known[one]
        sizes.append(size)
    return flat.reshape(sizes)
