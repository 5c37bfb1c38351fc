"""What sparse tensors do, said of their parts: plain functions of dense tensors, whose gradients follow by themselves.

`indices` is int64[k, n]: the places, in the first k dimensions, of n elements; `values` is [n, ...], an element each,
which has the remaining dimensions. Elements at one place are added up. A place's number (`key`) counts row by row.
"""

from math import prod

from .. import _C, promote_types
from .._distinct import unique


def keys_of(indices, sizes):
    """int64[n]: the number of each place."""
    if len(sizes) == 0:
        return _C.zeros((indices.shape[1],), dtype=_C.int64, device=indices.device)
    key, *rows = indices.unbind(0)
    for row, size in zip(rows, sizes[1:]):
        key = key * size + row
    return key


def places_of(keys, sizes):
    """int64[k, n]: the places of these numbers."""
    if len(sizes) == 1:
        return keys.unsqueeze(0)
    rows = []
    for size in reversed(sizes):
        rows.append(keys % size if size else keys)
        keys = _C.div(keys, max(size, 1), rounding_mode="floor")
    return _C.stack(rows[::-1]) if rows else _C.zeros((0, keys.shape[0]), dtype=_C.int64, device=keys.device)


def in_order(keys):
    """The numbers in order, where each of them stood, and whether it is the first of its like."""
    keys, order = keys.sort(stable=True)
    begins = _C.ones((keys.shape[0],), dtype=_C.bool, device=keys.device)
    begins[1:] = keys[1:] != keys[:-1]
    return keys, order, begins


def sum_up(keys, values):
    """Each number once, in order, and the sums of the values of equal numbers."""
    if keys.shape[0] == 0:
        return keys, values
    keys, order, begins = in_order(keys)
    values, group = values.index_select(0, order), begins.cumsum(0) - 1
    n = int(group[-1]) + 1
    if n == keys.shape[0]:
        return keys, values
    sums = _C.zeros((n, *values.shape[1:]), dtype=values.dtype, device=values.device).index_add(0, group, values)
    return keys[begins], sums


def coalesce(indices, values, sizes):
    """Each place once, in order."""
    keys, values = sum_up(keys_of(indices, sizes), values)
    return places_of(keys, sizes), values


def to_dense(indices, values, sizes):
    """The dense tensor of these elements, `sizes` the places' dimensions."""
    zeros = _C.zeros((prod(sizes), *values.shape[1:]), dtype=values.dtype, device=values.device)
    return zeros.index_add(0, keys_of(indices, sizes), values).reshape((*sizes, *values.shape[1:]))


def from_dense(x, sparse_dim: int):
    """Where an element of x, over its first dimensions, is not all 0, and those elements."""
    mask = x != 0
    for _ in range(x.dim() - sparse_dim):
        mask = mask.any(-1)
    indices = mask.nonzero().t().contiguous()
    return indices, take(x, indices)


def take(x, indices):
    """The elements of a dense x at these places of its first dimensions."""
    k = indices.shape[0]
    flat = x.reshape((prod(x.shape[:k]), *x.shape[k:]))
    return flat.index_select(0, keys_of(indices, x.shape[:k]))


def find(keys, among):
    """Of each number its place among others, which are in order, and whether it is there."""
    if among.shape[0] == 0:
        return _C.zeros_like(keys), _C.zeros_like(keys, dtype=_C.bool)
    at = _C.searchsorted(among, keys).clamp(max=among.shape[0] - 1)
    return at, among.index_select(0, at) == keys


def rows_of(pointers):
    """int64[n]: the row of each element, where row i's elements are number pointers[i] .. pointers[i + 1]."""
    return repeat(pointers[1:] - pointers[:-1])


def repeat(counts):
    """0 counts[0] times, then 1 counts[1] times, and so on."""
    ends = counts.cumsum(0)
    n = int(ends[-1]) if ends.shape[0] else 0
    return _C.searchsorted(ends, _C.arange(n, device=counts.device), right=True)


def pointers_of(rows, n: int):
    """int64[n + 1]: where each row's elements begin; `rows` are in order."""
    return _C.searchsorted(rows.contiguous(), _C.arange(n + 1, device=rows.device))


def multiply(rows, columns, values, n_rows: int, dense):
    """[n_rows, m]: the matrix of these elements by a dense [k, m]."""
    dtype = promote_types(values.dtype, dense.dtype)
    taken = dense.index_select(0, columns).to(dtype) * values.to(dtype).unsqueeze(1)
    return _C.zeros((n_rows, dense.shape[1]), dtype=dtype, device=dense.device).index_add(0, rows, taken)


def multiply_both(rows, columns, values, pointers, its_columns, its_values, width: int):
    """Numbers of places and values of a product of two sparse matrices; the second one's rows by pointers."""
    begins, counts = pointers.index_select(0, columns), (pointers[1:] - pointers[:-1]).index_select(0, columns)
    term, ends = repeat(counts), counts.cumsum(0)
    within = _C.arange(term.shape[0], device=columns.device) - (ends - counts).index_select(0, term)
    other = begins.index_select(0, term) + within
    keys = rows.index_select(0, term) * width + its_columns.index_select(0, other)
    return sum_up(keys, values.index_select(0, term) * its_values.index_select(0, other))


def normalise(indices, values, sizes, dim: int, function):
    """softmax or log_softmax of the elements that are there, along dimension `dim` of the places."""
    others = [d for d in range(len(sizes)) if d != dim]
    key = _C.zeros((indices.shape[1],), dtype=_C.int64, device=indices.device)
    if others:
        key = keys_of(indices[others], [sizes[d] for d in others])
    group = key
    if others and key.shape[0]:
        group = unique(key, return_inverse=True)[1]
    n = int(group.max()) + 1 if key.shape[0] else 0
    at = group.reshape((-1, *[1] * (values.dim() - 1))).expand(values.shape)
    room = _C.full((n, *values.shape[1:]), float("-inf"), dtype=values.dtype, device=values.device)
    top = room.scatter_reduce(0, at, values.detach(), "amax").gather(0, at)
    apart = values - top
    total = _C.zeros_like(room).scatter_add(0, at, apart.exp()).gather(0, at)
    return apart.exp() / total if function == "softmax" else apart - total.log()
