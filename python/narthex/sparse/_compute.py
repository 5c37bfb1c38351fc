"""What functions and methods do when one of their arguments is sparse: HANDLERS of _tensor.py, by name."""

from math import inf

from .. import _C, promote_types
from .._distinct import unique
from .._tensor import DisableTorchFunctionSubclass, Tensor
from ..functional import broadcast_shapes
from ..functional import norm as dense_norm
from . import _parts
from ._gradients import add_rows
from ._tensor import COO, CSC, CSR, HANDLERS, KINDS, SparseTensor, refuse


def handles(*names: str):
    def note(function):
        HANDLERS.update(dict.fromkeys(names, function))
        return function

    return note


def is_sparse(x) -> bool:
    return isinstance(x, SparseTensor)


def is_number(x) -> bool:
    return isinstance(x, (int, float, complex)) or (isinstance(x, Tensor) and not is_sparse(x) and x.dim() == 0)


def coo(parts, size, is_coalesced=False) -> SparseTensor:
    return SparseTensor.make(COO, parts, size, is_coalesced)


def in_layout(x: SparseTensor, layout) -> SparseTensor:
    """x, a matrix, in another layout."""
    if x._kind == layout:
        return x
    (indices, values), size = x.as_coo(), tuple(x.shape)
    if layout == COO:
        made = coo((indices, values), size)
        return coo(made.coalesced()._parts, size, True)
    if x.dim() != 2:
        raise RuntimeError(f"to_sparse: a matrix can be {str(layout)[6:]}, this tensor has {x.dim()} dimensions")
    own, other = (0, 1) if layout == CSR else (1, 0)
    keys, values = _parts.sum_up(_parts.keys_of(indices[[own, other]], (size[own], size[other])), values)
    rows, columns = _parts.places_of(keys, (size[own], size[other]))
    return SparseTensor.make(layout, (_parts.pointers_of(rows, size[own]), columns, values), size)


# ---- parts --------------------------------------------------------------------------------------------------------
def _part(name: str, layouts: tuple, expected: str, at: int) -> None:
    HANDLERS[name] = lambda self: self.parts(*layouts, name=name, expected=expected)[at]


_part("crow_indices", (CSR,), "sparse row compressed tensor", 0)
_part("col_indices", (CSR,), "sparse row compressed tensor", 1)
_part("ccol_indices", (CSC,), "sparse column compressed tensor", 0)
_part("row_indices", (CSC,), "sparse column compressed tensor", 1)
HANDLERS["_indices"] = lambda self: self._parts[0]
HANDLERS["_values"] = lambda self: self._parts[-1]
HANDLERS["_nnz"] = lambda self: self._parts[-1].shape[0]
HANDLERS["sparse_dim"] = lambda self: len(self.sparse_sizes())
HANDLERS["dense_dim"] = lambda self: self.dim() - len(self.sparse_sizes())
HANDLERS["is_coalesced"] = lambda self: self.parts(COO, name="is_coalesced", expected=_COORDINATES) and self._coalesced
HANDLERS["is_same_size"] = lambda self, other: tuple(self.shape) == tuple(other.shape)
HANDLERS["contiguous"] = lambda self, memory_format=None: self
_COORDINATES = "sparse coordinate tensor"


@handles("indices")
def indices(self):
    found = self.parts(COO, name="indices", expected=_COORDINATES)[0]
    if not self._coalesced:
        raise RuntimeError("Cannot get indices on an uncoalesced tensor, please call .coalesce() first")
    return found


@handles("values")
def values(self):
    if self._kind == COO and not self._coalesced:
        raise RuntimeError("Cannot get values on an uncoalesced tensor, please call .coalesce() first")
    return self._parts[-1]


@handles("coalesce")
def coalesce(self):
    self.parts(COO, name="coalesce", expected=_COORDINATES)
    return self.coalesced()


@handles("_coalesced_")
def set_coalesced(self, is_coalesced):
    self._coalesced = bool(is_coalesced)
    return self


# ---- layouts, copies ----------------------------------------------------------------------------------------------
@handles("to_dense")
def to_dense(self, dtype=None, *, masked_grad=True):
    if dtype is not None:
        raise RuntimeError("dtype argument is not supported by sparse_to_dense")
    return _parts.to_dense(*self.as_coo(), self.sparse_sizes())


@handles("to_sparse")
def to_sparse(self, sparse_dim=None, *, layout=None, blocksize=None, dense_dim=None):
    if isinstance(sparse_dim, int) and sparse_dim != HANDLERS["sparse_dim"](self):
        raise RuntimeError(f"to_sparse: sparse_dim={sparse_dim} of a tensor that is sparse in other dimensions")
    return in_layout(self, COO if layout is None else layout)


HANDLERS["to_sparse_coo"] = lambda self: in_layout(self, COO)
HANDLERS["to_sparse_csr"] = lambda self, dense_dim=None: in_layout(self, CSR)
HANDLERS["to_sparse_csc"] = lambda self, dense_dim=None: in_layout(self, CSC)


def _kept(name: str) -> None:
    """A function of the values alone that leaves their meaning: what it gives of a sum is the sum of what it gives."""
    of_values = getattr(Tensor, name)
    HANDLERS[name] = lambda self, *args, **kwargs: self.with_values(of_values(self._parts[-1], *args, **kwargs))


for _name in (
    "bfloat16", "bool", "cdouble", "cfloat", "chalf", "char", "conj", "conj_physical", "double", "float", "half",
    "imag", "int", "long", "neg", "negative", "positive", "real", "resolve_conj", "resolve_neg", "short", "byte",
):  # fmt: skip
    if callable(getattr(Tensor, _name, None)):
        _kept(_name)
HANDLERS["real"] = lambda self: self.with_values(self._parts[-1].real)
HANDLERS["imag"] = lambda self: self.with_values(self._parts[-1].imag)


@handles("to", "type", "type_as")
def to(self, *args, **kwargs):
    values = self._parts[-1]
    given = [x._parts[-1] if is_sparse(x) else x for x in args]
    moved = values.to(*given, **kwargs)
    if moved is values:
        return self
    places = tuple(part.to(moved.device) for part in self._parts[:-1])
    return SparseTensor.make(self._kind, (*places, moved), self.shape, self._coalesced)


HANDLERS["cpu"] = lambda self: to(self, "cpu")
HANDLERS["cuda"] = lambda self, device=None, **kwargs: to(self, "cuda" if device is None else device)


@handles("clone")
def clone(self, *, memory_format=None):
    return SparseTensor.make(self._kind, tuple(part.clone() for part in self._parts), self.shape, self._coalesced)


@handles("detach", "alias")
def detach(self):
    return self.with_values(self._parts[-1].detach())


@handles("zeros_like", "empty_like")
def zeros_like(self, *, dtype=None, layout=None, device=None, requires_grad=False, **kwargs):
    dtype, device = dtype or self.dtype, device or self.device
    if layout == _C.strided:
        return _C.zeros(tuple(self.shape), dtype=dtype, device=device)
    return empty(self._kind if layout is None else layout, tuple(self.shape), len(self.sparse_sizes()), dtype, device)


HANDLERS["new_zeros"] = HANDLERS["new_empty"] = lambda self, *size, dtype=None, **kwargs: empty(
    self._kind, tuple(size[0]) if isinstance(size[0], (tuple, list)) else size, None, dtype or self.dtype, self.device
)


def empty(layout, size: tuple, sparse_dim, dtype, device) -> SparseTensor:
    """Nothing but zeros."""
    k = len(size) if sparse_dim is None else sparse_dim
    made = _C.empty((0, *size[k:]), dtype=dtype, device=device)
    none = _C.empty((k, 0), dtype=_C.int64, device=device)
    return in_layout(coo((none, made), size, True), layout)


# ---- one element --------------------------------------------------------------------------------------------------
def _unary(name: str) -> None:
    """A function that has 0 at 0: of the elements, each summed up."""

    def handler(self, *args, **kwargs):
        whole = self.coalesced()
        return whole.with_values(getattr(_C, name)(whole._parts[-1], *args, **kwargs))

    HANDLERS[name] = handler


for _name in (
    "abs", "absolute", "angle", "arcsin", "arcsinh", "arctan", "arctanh", "asin", "asinh", "atan", "atanh", "ceil",
    "deg2rad", "erf", "erfinv", "expm1", "fix", "floor", "frac", "isinf", "isnan", "isneginf", "isposinf", "log1p",
    "nan_to_num", "rad2deg", "relu", "round", "sgn", "sign", "signbit", "sin", "sinh", "sqrt", "square", "tan",
    "tanh", "trunc",
):  # fmt: skip
    if hasattr(_C, _name):
        _unary(_name)


@handles("pow")
def power(self, exponent):
    if not is_sparse(self) or not is_number(exponent):
        refuse("pow.Tensor_Tensor", COO)
    if exponent == 0:
        raise RuntimeError("pow: exponent cannot be zero for a sparse tensor")
    whole = self.coalesced()
    return whole.with_values(whole._parts[-1] ** exponent)


@handles("dropout", "alpha_dropout", "feature_dropout")
def dropout(self, p=0.5, training=True, inplace=False, **kwargs):
    return self.with_values(_C.dropout(self._parts[-1], p, training))


# ---- two of them --------------------------------------------------------------------------------------------------
def _same_sizes(name: str, a, b) -> None:
    if tuple(a.shape) != tuple(b.shape):
        raise RuntimeError(
            f"{name}: expected sizes of 'self' and 'other' to match, but {list(a.shape)} != {list(b.shape)}"
        )


@handles("add")
def add(self, other, *, alpha=1, out=None):
    if not is_sparse(other):
        if isinstance(other, Tensor) and is_sparse(self) and self._kind != COO:
            return add(other, self) if alpha == 1 else add(other * alpha, self)
        raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
    if not is_sparse(self):
        if not isinstance(self, Tensor):
            raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
        if self.dim() < other.dim() or tuple(broadcast_shapes(self.shape, other.shape)) != tuple(self.shape):
            raise RuntimeError(
                f"add: expected 'self' and 'other' to have same size, but self has size {list(self.shape)} while "
                f"other has size {list(other.shape)} (FYI: op2-dense addition does not currently support broadcasting)"
            )
        return self + to_dense(other) * alpha
    _same_sizes("add", self, other)
    if self._kind != other._kind:
        raise RuntimeError(f"add: layouts differ: {KINDS[self._kind]} and {KINDS[other._kind]}")
    dtype = promote_types(self.dtype, other.dtype)
    (places, values), (its, its_values) = self.as_coo(), other.as_coo()
    if its.shape[0] != places.shape[0]:
        raise RuntimeError(
            f"add: expected 'self' and 'other' to have same number of sparse dimensions, but "
            f"{places.shape[0]} != {its.shape[0]}"
        )
    both = _C.cat([places, its], 1), _C.cat([values.to(dtype), (its_values * alpha).to(dtype)])
    sizes = tuple(self.shape[: places.shape[0]])
    made = coo(_parts.coalesce(*both, sizes), self.shape, self._kind != COO or (self._coalesced and other._coalesced))
    return in_layout(made, self._kind)


@handles("sub", "subtract")
def subtract(self, other, *, alpha=1):
    if is_sparse(self) and is_sparse(other) and self._kind != COO:
        raise RuntimeError(f"unsupported tensor layout: {KINDS[self._kind]}")
    return add(self, other, alpha=-alpha)


@handles("mul", "multiply")
def multiply(self, other, *, out=None):
    if not is_sparse(self):
        self, other = other, self
    if is_number(other):
        return self.with_values(self._parts[-1] * other)
    if not is_sparse(other):
        places, values = self.as_coo()
        whole = other.expand(self.shape)
        return self.with_values(values * _parts.take(whole, places))
    _same_sizes("mul", self, other)
    one, two = self.coalesced(), other.coalesced()
    (places, values), (its, its_values) = one.as_coo(), two.as_coo()
    sizes = tuple(self.shape[: places.shape[0]])
    if one._kind == CSC:  # in order of columns
        return in_layout(multiply(in_layout(one, COO), in_layout(two, COO)), CSC)
    at, found = _parts.find(_parts.keys_of(places, sizes), _parts.keys_of(its, sizes))
    made = values[found] * its_values.index_select(0, at[found])
    return in_layout(coo((places[:, found], made), self.shape, self._coalesced and other._coalesced), self._kind)


@handles("div", "divide", "true_divide")
def divide(self, other, *, rounding_mode=None):
    if not is_number(other) or not is_sparse(self):
        shape = list(other.shape) if isinstance(other, Tensor) else []
        raise RuntimeError(
            f"Sparse division requires a scalar or zero-dim dense tensor divisor (got shape {shape} for divisor)"
        )
    if self._kind != COO:
        raise RuntimeError(f"unsupported tensor layout: {KINDS[self._kind]}")
    whole = self if rounding_mode is None else self.coalesced()
    return whole.with_values(_C.div(whole._parts[-1], other, rounding_mode=rounding_mode))


@handles("floor_divide", "floordiv")
def floor_divide(self, other):
    return divide(self, other, rounding_mode="floor")


# ---- products of matrices -----------------------------------------------------------------------------------------
@handles("mm", "matmul")
def matmul(self, other, *, out=None):
    if isinstance(other, Tensor) and other.dim() == 1:
        return mv(self, other)
    if isinstance(self, Tensor) and self.dim() == 3:
        return bmm(self, other)
    if self.dim() != 2 or other.dim() != 2:
        raise RuntimeError("matmul: a sparse tensor is multiplied as a matrix, by a matrix or a vector")
    if self.shape[1] != other.shape[0]:
        (a, b), (c, d) = self.shape, other.shape
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({a}x{b} and {c}x{d})")
    if not is_sparse(self):
        return matmul(transpose(other, 0, 1), self.t()).t()
    (rows, columns), values = self.as_coo()
    if values.dim() != 1:
        raise RuntimeError("matmul: expected a matrix whose two dimensions are both sparse")
    if not is_sparse(other):
        return _parts.multiply(rows, columns, values, self.shape[0], other)
    pointers, its_columns, its_values = in_layout(other, CSR)._parts
    keys, values = _parts.multiply_both(rows, columns, values, pointers, its_columns, its_values, other.shape[1])
    size = (self.shape[0], other.shape[1])
    return in_layout(coo((_parts.places_of(keys, size), values), size, True), self._kind)


@handles("mv")
def mv(self, vec):
    if self.dim() != 2 or vec.dim() != 1 or self.shape[1] != vec.shape[0]:
        raise RuntimeError(f"size mismatch, got input ({'x'.join(map(str, self.shape))}), vec ({vec.shape[0]})")
    return matmul(self, vec.unsqueeze(1)).squeeze(1)


@handles("bmm")
def bmm(self, mat2):
    if self.dim() != 3 or mat2.dim() != 3 or self.shape[0] != mat2.shape[0] or self.shape[2] != mat2.shape[1]:
        raise RuntimeError(f"bmm: sizes do not fit: {list(self.shape)} and {list(mat2.shape)}")
    (batch, rows, columns), values = self.as_coo()
    b, n, k = self.shape
    flat = _parts.multiply(batch * n + rows, batch * k + columns, values, b * n, mat2.reshape((b * k, mat2.shape[2])))
    return flat.reshape((b, n, mat2.shape[2]))


@handles("addmm")
def addmm(self, mat1, mat2, *, beta=1, alpha=1, out=None):
    product = matmul(mat1, mat2)
    if is_sparse(product) or is_sparse(self):
        return add(self if beta == 1 else multiply(self, beta), product if alpha == 1 else multiply(product, alpha))
    return product * alpha + (self * beta if beta != 0 else 0)


@handles("linear")
def linear(input, weight, bias=None):
    product = matmul(input.reshape((-1, input.shape[-1])), transpose(weight, 0, 1))
    product = product.reshape((*input.shape[:-1], weight.shape[0]))
    return product if bias is None else product + bias


@handles("smm")
def smm(self, mat):
    return sspaddmm(empty(COO, (self.shape[0], mat.shape[1]), None, self.dtype, self.device), self, mat)


@handles("sspaddmm")
def sspaddmm(self, mat1, mat2, *, beta=1, alpha=1):
    (rows, columns), values = mat1.coalesced().as_coo()
    n = mat2.shape[1]
    present = unique(rows)
    product = matmul(mat1, mat2).index_select(0, present).reshape((-1,)) * alpha
    own = _C.arange(n, device=rows.device).repeat(present.shape[0])
    made = _C.stack([present.reshape((-1, 1)).expand((-1, n)).reshape((-1,)), own])
    places, kept = self._parts
    return coo((_C.cat([places, made], 1), _C.cat([kept * beta, product])), self.shape)


@handles("hspmm")
def hspmm(mat1, mat2, *, out=None):
    rows = unique(mat1._parts[0][0])
    product = matmul(mat1, mat2)
    return coo((rows.unsqueeze(0), product.index_select(0, rows)), product.shape)


# ---- sums ---------------------------------------------------------------------------------------------------------
@handles("sum")
def total(self, dim=None, keepdim=False, *, dtype=None):
    places, values = self.as_coo()
    if dtype is None and not (values.dtype.is_floating_point or values.dtype.is_complex):
        dtype = _C.int64
    values = values if dtype is None else values.to(dtype)
    if dim is None or dim == () or dim == []:
        return values.sum()
    if self._kind != COO and not keepdim:
        raise RuntimeError("reduction operations on CSR tensors with keepdim=False is unsupported")
    given = [dim] if isinstance(dim, int) else list(dim)
    dims = sorted(d % self.dim() for d in given if -self.dim() <= d < self.dim())
    if len(dims) != len(given):
        raise IndexError(f"Dimension out of range (expected to be in range of [{-self.dim()}, {self.dim() - 1}])")
    k = places.shape[0]
    inner = [d - k + 1 for d in dims if d >= k]
    values = values.sum(inner, keepdim=keepdim) if inner else values
    left = [d for d in range(k) if d not in dims]
    if not left and not keepdim:
        return values.sum(0)
    sizes = [self.shape[d] for d in left]
    places, values = _parts.coalesce(places[left], values, sizes)
    if keepdim:
        rows = iter(places.unbind(0))
        places = _C.stack([next(rows) if d in left else _C.zeros_like(values, dtype=_C.int64) for d in range(k)])
        sizes = [self.shape[d] if d in left else 1 for d in range(k)]
    return in_layout(coo((places, values), (*sizes, *values.shape[1:]), True), self._kind)


@handles("norm")
def norm(self, p="fro", dim=None, keepdim=False, dtype=None):
    if dim not in (None, (), []) and sorted(dim if isinstance(dim, (tuple, list)) else [dim]) != list(
        range(self.dim())
    ):
        raise RuntimeError(
            "norm_sparse currently only supports full reductions, so 'dim' must either be empty or contain all "
            "dimensions of the input"
        )
    if self._kind != COO:
        refuse("norm.out", self._kind)
    order = 2.0 if p in (None, "fro") else p
    return dense_norm(self.coalesced()._parts[-1], inf if order == "inf" else order)


HANDLERS["any"] = lambda self: self._parts[-1].any()


# ---- dimensions ---------------------------------------------------------------------------------------------------
@handles("transpose", "swapaxes", "swapdims")
def transpose(self, dim0, dim1):
    n = self.dim()
    for d in (dim0, dim1):
        if not -n <= d < n:
            raise IndexError(f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {d})")
    order = list(range(n))
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return permute(self, order)


@handles("t")
def t(self):
    if self.dim() > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 sparse and 0 dense dimensions, but got {self.dim()}")
    return transpose(self, 0, 1) if self.dim() == 2 else self


@handles("permute")
def permute(self, *dims):
    order = [d % self.dim() for d in (dims[0] if isinstance(dims[0], (tuple, list)) else dims)]
    size = tuple(self.shape[d] for d in order)
    if self._kind != COO:
        if order == [0, 1]:
            return self
        return SparseTensor.make(CSC if self._kind == CSR else CSR, self._parts, size)
    places, values = self._parts
    k = places.shape[0]
    if sorted(order[:k]) != list(range(k)):
        raise RuntimeError("transpositions between sparse and dense dimensions are not allowed.")
    values = values.permute([0, *(d - k + 1 for d in order[k:])])
    return coo((places[order[:k]], values), size, self._coalesced and order[:k] == list(range(k)))


@handles("unsqueeze")
def unsqueeze(self, dim):
    dim = dim + self.dim() + 1 if dim < 0 else dim
    places, values = self.parts(COO, name="unsqueeze", expected=_COORDINATES)
    size = (*self.shape[:dim], 1, *self.shape[dim:])
    k = places.shape[0]
    if dim > k:
        return coo((places, values.unsqueeze(dim - k + 1)), size, self._coalesced)
    row = _C.zeros((1, places.shape[1]), dtype=_C.int64, device=places.device)
    return coo((_C.cat([places[:dim], row, places[dim:]]), values), size, self._coalesced)


@handles("select")
def select(self, dim, index):
    dim, n = dim % self.dim(), self.shape[dim]
    if not -n <= index < n:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(self.shape)} at dimension {dim}"
        )
    if self._kind != COO:
        self = in_layout(self, COO)  # noqa: PLW0642
    places, values = self._parts
    size = (*self.shape[:dim], *self.shape[dim + 1 :])
    k = places.shape[0]
    if dim >= k:
        return coo((places, values.select(dim - k + 1, index)), size, self._coalesced)
    here = places[dim] == index % n
    left = [d for d in range(k) if d != dim]
    if not left:
        return values[here].sum(0)
    return coo((places[left][:, here], values[here]), size, self._coalesced)


@handles("index_select")
def index_select(self, dim, index):
    dim = dim % self.dim()
    places, values = self.parts(COO, name="index_select", expected=_COORDINATES)
    size = (*self.shape[:dim], index.shape[0], *self.shape[dim + 1 :])
    k = places.shape[0]
    if dim >= k:
        return coo((places, values.index_select(dim - k + 1, index)), size, self._coalesced)
    if index.numel() and not (-self.shape[dim] <= int(index.min()) and int(index.max()) < self.shape[dim]):
        raise IndexError(f"index_select(): index contains {int(index.max())} that is out of range")
    index = _C.where(index < 0, index + self.shape[dim], index)
    order = places[dim].argsort(stable=True)
    ordered = places[dim].index_select(0, order)
    begins, ends = _C.searchsorted(ordered, index), _C.searchsorted(ordered, index, right=True)
    counts = ends - begins
    term = _parts.repeat(counts)
    within = _C.arange(term.shape[0], device=index.device) - (counts.cumsum(0) - counts).index_select(0, term)
    taken = order.index_select(0, begins.index_select(0, term) + within)
    places = places.index_select(1, taken)
    places = _C.cat([places[:dim], term.unsqueeze(0), places[dim + 1 :]])
    return coo((places, values.index_select(0, taken)), size)


@handles("narrow_copy")
def narrow_copy(self, dim, start, length):
    places, values = self.parts(COO, name="narrow_copy", expected=_COORDINATES)
    size = (*self.shape[:dim], length, *self.shape[dim + 1 :])
    if dim >= places.shape[0]:
        return coo((places, values.narrow_copy(dim - places.shape[0] + 1, start, length)), size, self._coalesced)
    here = (places[dim] >= start) & (places[dim] < start + length)
    places = places[:, here]
    places = _C.cat([places[:dim], (places[dim] - start).unsqueeze(0), places[dim + 1 :]])
    return coo((places, values[here]), size, self._coalesced)


@handles("getitem")
def getitem(self, index):
    dim = 0
    for one in index if isinstance(index, tuple) else (index,):
        if one is None:
            self, dim = unsqueeze(self, dim), dim + 1  # noqa: PLW0642
        elif isinstance(one, int) and is_sparse(self):
            self = select(self, dim, one)  # noqa: PLW0642
        elif isinstance(one, int):
            self = self[one]  # noqa: PLW0642
        elif isinstance(one, slice) and one == slice(None):
            dim += 1
        else:
            refuse("as_strided" if isinstance(one, slice) else "index.Tensor", self._kind)
    return self


@handles("unbind", "iter")
def unbind(self, dim=0):
    return tuple(select(self, dim, k) for k in range(self.shape[dim]))


HANDLERS["iter"] = lambda self: iter(unbind(self))


@handles("cat", "concat", "concatenate")
def cat(tensors, dim=0, *, out=None):
    if not all(is_sparse(x) and x._kind == COO for x in tensors):
        raise RuntimeError("cat: expected all tensors to be of layout sparse_coo")
    first = tensors[0]
    dim, k = dim % first.dim(), first._parts[0].shape[0]
    places, values, before, whole = [], [], 0, sum(x.shape[dim] for x in tensors)
    for x in tensors:
        its, numbers = x._parts
        if its.shape[0] != k or x.dim() != first.dim():
            raise RuntimeError("All tensors must have the same shape, and number of sparse dimensions")
        if dim < k:
            its = its + before * (_C.arange(k, device=its.device) == dim).to(_C.int64).unsqueeze(1)
        else:
            room = list(numbers.shape)
            parts = []
            for n in (before, None, whole - before - x.shape[dim]):
                room[dim - k + 1] = n
                parts.append(
                    numbers if n is None else _C.zeros(tuple(room), dtype=numbers.dtype, device=numbers.device)
                )
            numbers = _C.cat(parts, dim - k + 1)
        places.append(its)
        values.append(numbers)
        before += x.shape[dim]
    size = (*first.shape[:dim], whole, *first.shape[dim + 1 :])
    return coo((_C.cat(places, 1), _C.cat(values)), size)


@handles("stack")
def stack(tensors, dim=0, *, out=None):
    return cat([unsqueeze(x, dim) for x in tensors], dim)


def _refuse_expand(self, *args, **kwargs):
    raise RuntimeError("expand is unsupported for Sparse tensors")


HANDLERS["expand"] = HANDLERS["repeat"] = HANDLERS["expand_as"] = _refuse_expand


@handles("item")
def item(self):
    if self.numel() != 1:
        raise RuntimeError(f"a Tensor with {self.numel()} elements cannot be converted to Scalar")
    return self._parts[-1].sum().item()


def _refuse_reshape(self, *args, **kwargs):
    raise RuntimeError("reshape is not implemented for sparse tensors")


HANDLERS["reshape"] = HANDLERS["flatten"] = _refuse_reshape


# ---- in place -----------------------------------------------------------------------------------------------------
def _writes(name: str) -> None:
    """The form that writes: a dense tensor's elements, or a sparse one's parts."""
    function = HANDLERS[name]

    def handler(self, *args, **kwargs):
        if not is_sparse(self):
            return self.copy_(function(self, *args, **kwargs))
        self.forbid_leaf()
        return self.take_from(to(function(self, *args, **kwargs), self.dtype))

    HANDLERS[name + "_"] = handler


for _name in ("mul", "div", "neg", "abs", "sqrt", "relu", "sin", "tanh", "floor", "ceil", "pow"):
    _writes(_name)


@handles("add_")
def add_(self, other, *, alpha=1):
    if is_sparse(self):
        self.forbid_leaf()
        return self.take_from(to(add(self, other, alpha=alpha), self.dtype))
    if self.requires_grad and _C.is_grad_enabled():
        return self.add_(to_dense(other), alpha=alpha)
    _same_sizes("add_", self, other)
    return add_rows(self, other, alpha)


@handles("sub_")
def sub_(self, other, *, alpha=1):
    return add_(self, other, alpha=-alpha)


for _name in ("add", "sub", "mul", "div"):
    HANDLERS[f"i{_name}"] = HANDLERS[_name + "_"]


@handles("zero_")
def zero_(self):
    self.forbid_leaf()
    return self.take_from(zeros_like(self))


@handles("copy_")
def copy_(self, src, non_blocking=False):
    if not (is_sparse(self) and is_sparse(src)):
        raise RuntimeError("copy_() between dense and sparse Tensors is not implemented!")
    _same_sizes("copy_", self, src)
    return self.take_from(in_layout(clone(to(src, self.dtype)), self._kind))


@handles("_foreach_zero_")
def zero_all(tensors):
    for x in tensors:
        x.zero_()


@handles("grad")
def grad(outputs, inputs, grad_outputs=None, *args, **kwargs):
    """torch.autograd.grad: of sparse tensors the values take part; a sparse output takes its gradient at its places."""
    from ..autograd import grad as dense_grad

    outputs, inputs = ([x] if isinstance(x, Tensor) else list(x) for x in (outputs, inputs))
    if isinstance(grad_outputs, Tensor):
        grad_outputs = [grad_outputs]
    if any(is_sparse(x) for x in outputs):
        if grad_outputs is None:
            raise RuntimeError("grad can be implicitly created only for scalar outputs")
        pairs = zip(grad_outputs, outputs, strict=True)
        grad_outputs = [sparse_mask(g, x)._parts[-1] if is_sparse(x) and g is not None else g for g, x in pairs]
        outputs = [x._parts[-1] if is_sparse(x) else x for x in outputs]
    wanted = [x._parts[-1] if is_sparse(x) else x for x in inputs]
    found = dense_grad(outputs, wanted, grad_outputs, *args, **kwargs)
    return tuple(x.gradient(g) if is_sparse(x) and g is not None else g for x, g in zip(inputs, found, strict=True))


# ---- masks --------------------------------------------------------------------------------------------------------
@handles("sparse_mask")
def sparse_mask(self, mask):
    _same_sizes("sparse_mask", self, mask)
    places, kept = mask.as_coo()
    if not is_sparse(self):
        return mask.with_values(_parts.take(self, places))
    own, values = self.coalesced().as_coo()
    sizes = tuple(self.shape[: places.shape[0]])
    at, found = _parts.find(_parts.keys_of(places, sizes), _parts.keys_of(own, sizes))
    zero = _C.zeros((places.shape[1], *values.shape[1:]), dtype=values.dtype, device=values.device)
    taken = values.index_select(0, at) if values.shape[0] else zero
    return mask.with_values(_C.where(found.reshape((-1, *[1] * (values.dim() - 1))), taken, zero))


@handles("sparse_resize_")
def sparse_resize_(self, size, sparse_dim, dense_dim):
    if len(size) != sparse_dim + dense_dim or sparse_dim != self._parts[0].shape[0]:
        raise RuntimeError(f"number of dimensions must be sparse_dim ({sparse_dim}) + dense_dim ({dense_dim})")
    return resized(self, SparseTensor.make(COO, self._parts, tuple(size), self._coalesced))


@handles("sparse_resize_and_clear_")
def sparse_resize_and_clear_(self, size, sparse_dim, dense_dim):
    return resized(self, empty(COO, tuple(size), sparse_dim, self.dtype, self.device))


@handles("resize_as_sparse_")
def resize_as_sparse_(self, other):
    if tuple(self.shape) == tuple(other.shape):
        return self
    return sparse_resize_(self, tuple(other.shape), other._parts[0].shape[0], other.dim() - other._parts[0].shape[0])


def resized(self, made: SparseTensor) -> SparseTensor:
    """`self` with another one's size and parts."""
    with DisableTorchFunctionSubclass():
        _C.TensorBase.data.__set__(self, made)
    return self.take_from(made)


# ---- methods that dense tensors have not --------------------------------------------------------------------------
for _name in (
    "_coalesced_", "_indices", "_nnz", "_values", "ccol_indices", "coalesce", "col_indices", "crow_indices",
    "dense_dim", "indices", "is_coalesced", "is_same_size", "row_indices", "sparse_dim", "sparse_mask",
    "sparse_resize_", "sparse_resize_and_clear_", "resize_as_sparse_", "smm", "sspaddmm", "to_dense", "to_sparse",
    "to_sparse_coo", "to_sparse_csc", "to_sparse_csr", "values",
):  # fmt: skip
    setattr(SparseTensor, _name, HANDLERS[_name])
