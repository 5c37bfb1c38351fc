"""Methods of Tensor that are made of others, and answers about what no tensor here is: sparse, quantised, shared."""

from . import _C
from ._shells import shells_of_module

# What PyTorch says where a dense tensor is asked for the parts of a sparse one.
_SPARSE = {
    "coalesce": "sparse coordinate tensor", "indices": "sparse coordinate tensor", "values": "sparse tensor",
    "is_coalesced": "sparse coordinate tensor", "crow_indices": "sparse row compressed tensor",
    "col_indices": "sparse row compressed tensor", "ccol_indices": "sparse column compressed tensor",
    "row_indices": "sparse column compressed tensor",
}  # fmt: skip


def _no_sparse(name: str, expected: str):
    def method(self):
        """Of sparse tensors only: raises."""
        raise RuntimeError(f"{name} expected {expected} layout but got Strided")

    return method


class Methods:
    """What add() gives to Tensor; each is PyTorch's method of that name."""

    is_ipu = is_maia = is_mps = is_mtia = is_sparse_csr = is_vulkan = is_xla = is_xpu = False
    name = None
    volatile = False

    def quantile(self, q, dim=None, keepdim=False, *, interpolation="linear"):
        from ._distinct import quantile

        return quantile(self, q, dim, keepdim, interpolation=interpolation)

    def nanquantile(self, q, dim=None, keepdim=False, *, interpolation="linear"):
        from ._distinct import nanquantile

        return nanquantile(self, q, dim, keepdim, interpolation=interpolation)

    def unique(self, sorted=True, return_inverse=False, return_counts=False, dim=None):
        from ._distinct import unique

        return unique(self, sorted, return_inverse, return_counts, dim)

    def unique_consecutive(self, return_inverse=False, return_counts=False, dim=None):
        from ._distinct import unique_consecutive

        return unique_consecutive(self, return_inverse, return_counts, dim)

    def histc(self, bins=100, min=0, max=0):
        from ._distinct import histc

        return histc(self, bins, min, max)

    def histogram(self, bins, *, range=None, weight=None, density=False):
        from ._distinct import histogram

        return histogram(self, bins, range=range, weight=weight, density=density)

    def hsplit(self, parts):
        return hsplit(self, parts)

    def vsplit(self, parts):
        return vsplit(self, parts)

    def dsplit(self, parts):
        return dsplit(self, parts)

    def unsafe_chunk(self, chunks, dim=0):
        return self.chunk(chunks, dim)

    def unsafe_split(self, split_size, dim=0):
        return self.split(split_size, dim)

    def unsafe_split_with_sizes(self, split_sizes, dim=0):
        return self.split_with_sizes(split_sizes, dim)

    def broadcast_to(self, *size, **named):
        """expand, of sizes one by one or together."""
        return self.expand(*size, **named)

    def index_reduce(self, dim, index, source, reduce, *, include_self=True):
        return index_reduce(self, dim, index, source, reduce, include_self=include_self)

    def index_reduce_(self, dim, index, source, reduce, *, include_self=True):
        return self.copy_(index_reduce(self, dim, index, source, reduce, include_self=include_self))

    def fill_diagonal_(self, fill_value, wrap=False):
        if self.dim() < 2:
            raise RuntimeError("dimensions must larger than 1")
        if self.dim() > 2 and len(set(self.shape)) != 1:
            raise RuntimeError("all dimensions of input must be of equal length")
        if wrap and self.dim() == 2 and self.shape[0] > self.shape[1]:
            rows, columns = self.shape
            for first in range(0, rows, columns + 1):
                self[first : first + columns].diagonal().fill_(fill_value)
            return self
        at = _C.arange(min(self.shape))
        self[(at,) * self.dim()] = fill_value
        return self

    def apply_(self, function):
        """Writes `function(x)` for each element, one Python call each."""
        values = [function(x) for x in self.flatten().tolist()]
        return self.copy_(_C.tensor(values, dtype=self.dtype).view(self.shape))

    def map_(self, tensor, function):
        pairs = zip(self.flatten().tolist(), tensor.expand(self.shape).flatten().tolist())
        return self.copy_(_C.tensor([function(a, b) for a, b in pairs], dtype=self.dtype).view(self.shape))

    def map2_(self, x, y, function):
        others = (t.expand(self.shape).flatten().tolist() for t in (x, y))
        values = [function(*row) for row in zip(self.flatten().tolist(), *others)]
        return self.copy_(_C.tensor(values, dtype=self.dtype).view(self.shape))

    def is_distributed(self):
        return False

    def is_inference(self):
        return False

    def is_signed(self):
        return self.dtype.is_signed

    def is_nonzero(self):
        return bool(self)

    def is_set_to(self, tensor):
        return (self.data_ptr(), self.shape, self.stride()) == (tensor.data_ptr(), tensor.shape, tensor.stride())

    def sparse_dim(self):
        return 0

    def dense_dim(self):
        return self.dim()

    def to_dense(self, dtype=None, *, masked_grad=True):
        return self if dtype is None else self.to(dtype)

    def dequantize(self):
        return self.float()

    def const_data_ptr(self):
        return self.data_ptr()

    def dim_order(self, *, ambiguity_check=False):
        """The dimensions from that of the largest stride to that of the smallest."""
        return tuple(sorted(range(self.dim()), key=lambda d: (-self.stride(d), d)))

    def resize_(self, *size, memory_format=None):
        """Another size: the elements in memory from the first on, behind them undefined ones."""
        size = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size
        if self.requires_grad:
            raise RuntimeError("cannot resize variables that require grad")
        if _C.tangent_of(self) is not None:
            raise RuntimeError("cannot resize variables that has a forward grad")
        if any(k < 0 for k in size):
            raise RuntimeError(f"resize_: Trying to create tensor with negative dimension {min(size)}: {list(size)}")
        n = 1
        for k in size:
            n *= k
        old = self.data
        if tuple(self.shape) == tuple(size):
            return self
        if not old.is_contiguous():
            old = old.contiguous()
        if n <= old.numel():
            self.data = old.view(-1)[:n].view(size)
        else:
            made = _C.empty((n,), dtype=self.dtype, device=self.device)
            made[: old.numel()].copy_(old.view(-1))
            self.data = made.view(size)
        return self

    def resize_as_(self, the_template, *, memory_format=None):
        return self.resize_(the_template.shape)

    def set_(self, source=None, storage_offset=0, size=None, stride=None):
        """Takes over the memory of a tensor or storage, with its size and strides or the given ones."""
        from .storage import set_

        return set_(self, source, storage_offset, size, stride)

    def untyped_storage(self):
        """The bytes that it lies in, with others perhaps."""
        from .storage import untyped

        return untyped(self)

    def storage(self):
        """The same as numbers of its dtype; deprecated, as in PyTorch."""
        from .storage import _typed, _warn_typed_storage_removal

        _warn_typed_storage_removal(stacklevel=2)
        return _typed(self)

    def to_sparse_coo(self):
        """to_sparse() of all dimensions."""
        return self.to_sparse()

    def storage_type(self):
        """The class of storage(), such as torch.FloatStorage."""
        from . import storage

        return getattr(storage, storage._typed(self).pickle_storage_type())


def _from(module: str, name: str):
    def method(self, *args, **kwargs):
        """The function of that name."""
        from importlib import import_module

        return getattr(import_module(f"narthex.sparse.{module}"), name)(self, *args, **kwargs)

    method.__name__ = name
    return method


def _of_others(name: str):
    def method(self, *args, **kwargs):
        """Raises NotImplementedError: the CPU has no such kernel."""
        from ._other_backends import refuse

        refuse(name, self)

    method.__name__ = name
    return method


for _name in ("to_sparse", "to_sparse_bsc", "to_sparse_bsr", "to_sparse_csc", "to_sparse_csr"):
    setattr(Methods, _name, _from("_make", _name))
for _name in ("resize_as_sparse_", "smm", "sparse_mask", "sparse_resize_", "sparse_resize_and_clear_", "sspaddmm"):
    setattr(Methods, _name, _from("_functions", _name))
for _name in (
    "int_repr", "q_per_channel_axis", "q_per_channel_scales", "q_per_channel_zero_points", "q_scale", "q_zero_point",
    "qscheme", "record_stream", "to_padded_tensor",
):  # fmt: skip
    setattr(Methods, _name, _of_others(_name))
for _name, _expected in _SPARSE.items():
    setattr(Methods, _name, _no_sparse(_name, _expected))


def add(tensor: type) -> None:
    """Gives the class Tensor what it has not from elsewhere."""
    from ._tensor_rest import Rest

    for name, value in (*vars(Methods).items(), *vars(Rest).items()):
        if not name.startswith("_") and not hasattr(tensor, name):
            setattr(tensor, name, value)


# ---- functions of torch
def _split(name: str, rank: int, dim: int, x, parts):
    if isinstance(parts, (str, float)):
        raise TypeError(
            f"{name}() received an invalid combination of arguments - got (Tensor, {type(parts).__name__}), but "
            "expected one of:\n * (Tensor input, int sections)\n * (Tensor input, tuple of ints indices)"
        )
    if x.dim() < rank:
        raise RuntimeError(f"torch.{name} requires a tensor with at least {rank} dimension, "
                           f"but got a tensor with {x.dim()} dimensions!")  # fmt: skip
    if isinstance(parts, int):
        if parts == 0 or x.shape[dim] % parts:
            raise RuntimeError(f"torch.{name} attempted to split along dimension {dim}, but the size of the dimension "
                               f"{x.shape[dim]} is not divisible by the split_size {parts}!")  # fmt: skip
    return x.tensor_split(parts, dim)


def hsplit(input, indices_or_sections):
    """Parts along the second dimension, of a vector along its one."""
    return _split("hsplit", 1, 1 if input.dim() > 1 else 0, input, indices_or_sections)


def vsplit(input, indices_or_sections):
    """Parts along the first dimension of at least two."""
    return _split("vsplit", 2, 0, input, indices_or_sections)


def dsplit(input, indices_or_sections):
    """Parts along the third dimension."""
    return _split("dsplit", 3, 2, input, indices_or_sections)


def _at_least(rank: int, x):
    if x.dim() >= rank:
        return x
    if rank == 3:
        return x.reshape(1, 1, 1) if x.dim() == 0 else x[None, :, None] if x.dim() == 1 else x.unsqueeze(-1)
    return x.reshape((1,) * rank) if x.dim() == 0 else x.unsqueeze(0)


def _over_all(rank: int):
    def at_least(*tensors):
        if len(tensors) == 1 and not isinstance(tensors[0], _C.TensorBase):
            tensors = tuple(tensors[0])
        made = tuple(_at_least(rank, x) for x in tensors)
        return made[0] if len(made) == 1 else made

    at_least.__name__ = at_least.__qualname__ = f"atleast_{rank}d"
    at_least.__doc__ = f"Each tensor with at least {rank} dimensions, those that lack of size 1."
    return at_least


atleast_1d, atleast_2d, atleast_3d = (_over_all(rank) for rank in (1, 2, 3))


def cartesian_prod(*tensors):
    """All rows with an element of each vector."""
    if any(x.dim() != 1 for x in tensors):
        raise RuntimeError(
            "Expect a 1D vector, but got shape " + str(list(next(x for x in tensors if x.dim() != 1).shape))
        )
    if len(tensors) == 1:
        return tensors[0]
    from .functional import meshgrid

    return _C.stack([x.flatten() for x in meshgrid(*tensors, indexing="ij")], 1)


def combinations(input, r=2, with_replacement=False):
    """All rows of `r` elements of a vector in their order."""
    from itertools import combinations as some
    from itertools import combinations_with_replacement as more

    if input.dim() != 1:
        raise RuntimeError(f"Expect a 1D vector, but got shape {list(input.shape)}")
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    if r == 2:  # pair number k of a triangle, whose roots are exact where a row begins
        size = input.shape[0] + (1 if with_replacement else 0)
        top = 2 * size - 1
        k = _C.arange(size * (size - 1) // 2)
        row = ((top - (top * top - 8 * k).double().sqrt()) / 2).long()
        column = k - (row * (top - row) >> 1) + row + (0 if with_replacement else 1)
        return input[_C.stack([row, column], 1)]
    rows = list((more if with_replacement else some)(range(input.shape[0]), r))
    if not rows or r == 0:
        return input[:0] if r == 0 else input[:0].reshape(0, r)
    return input[_C.tensor(rows)]


def index_reduce(input, dim, index, source, reduce, *, include_self=True):
    """`source` folded into the parts of dimension `dim` that `index` names: prod, mean, amax or amin."""
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}.")
    if input.dim() == 0:
        out = index_reduce(input.view(1), 0, index.reshape(1), source.reshape(1), reduce, include_self=include_self)
        return out.view(())
    dim = dim % input.dim()
    places = index.reshape([-1 if d == dim else 1 for d, _ in enumerate(input.shape)]).expand(source.shape)
    return input.scatter_reduce(dim, places, source, reduce, include_self=include_self)


def unravel_index(indices, shape):
    """The index in each dimension of a tensor of `shape` of places in a row of all elements."""
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    indices = indices.long()
    found = []
    for size in reversed(shape):
        found.append(indices % size)
        indices = indices.div(size, rounding_mode="floor")
    return tuple(reversed(found))


def scalar_tensor(s, *, dtype=None, device=None, requires_grad=False):
    """A tensor of the one number, of the default dtype."""
    made = _C.full((), s, dtype=dtype or _C.get_default_dtype(), device=device)
    return made.requires_grad_() if requires_grad else made


def is_nonzero(input):
    """Whether the one element is not 0."""
    return bool(input)


def is_same_size(input, other):
    """Whether both have the same shape."""
    return input.shape == other.shape


def is_signed(input):
    """Whether the dtype has negative numbers."""
    return input.dtype.is_signed


shells_of_module(globals())
