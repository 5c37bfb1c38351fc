"""Methods of Tensor that few programs call: memory shared with forked processes, hashes, what PyTorch took away."""

import mmap
import warnings
import weakref

from . import _C

_shared: dict = {}  # by a storage's number: what it is mapped by, weakly, since the storage itself keeps it


def _mapped(tensor) -> bool:
    found = _shared.get(_C.storage_key(tensor)[0])
    return found is not None and found() is not None


def _remember(tensor, mapping) -> None:
    for key in [key for key, found in _shared.items() if found() is None]:
        del _shared[key]
    _shared[_C.storage_key(tensor)[0]] = weakref.ref(mapping)


def from_file(filename, shared=None, size=0, *, dtype=None, layout=None, device=None, pin_memory=False,
              requires_grad=False):  # fmt: skip
    """A vector of `size` elements over a file's bytes. `shared`: what is written into it is written into the file,
    which is made or made longer where it must; else into this process's own pages."""
    dtype = dtype or _C.get_default_dtype()
    if device is not None and _C.device(device).type != "cpu":
        raise NotImplementedError("from_file: a file's bytes lie in the memory of the CPU")
    n = size * dtype.itemsize
    with open(filename, "a+b" if shared else "rb") as file:
        there = file.seek(0, 2)
        if there < n and not shared:
            raise RuntimeError(f"from_file: {filename} has {there} bytes, {n} are asked for")
        if there < n:
            file.truncate(n)
        if n == 0:
            return _C.empty((0,), dtype=dtype).requires_grad_(requires_grad)
    with open(filename, "r+b" if shared else "rb") as file:
        mapping = mmap.mmap(file.fileno(), n, access=mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY)
    made = _C.tensor_over(mapping, dtype)
    if shared:
        _remember(made, mapping)
    return made.requires_grad_(requires_grad)


def _bits(tensor):
    """Each element as 64 bits: integers as they are, others as float64."""
    if tensor.dtype.is_complex:
        raise NotImplementedError("hash_tensor: complex numbers have no hash")
    return tensor.double().view(_C.int64) if tensor.dtype.is_floating_point else tensor.long()


def hash_tensor(input, dim=(), *, keepdim=False, mode=0):
    """The exclusive or of the elements' bits along `dim`, without one of all elements; uint64."""
    if mode != 0:
        raise RuntimeError(f"Unknown hash_tensor mode: {mode}")
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    rank = input.dim()
    for one in dims:
        if not -max(rank, 1) <= one < max(rank, 1):
            low, high = -max(rank, 1), max(rank, 1) - 1
            raise IndexError(f"Dimension out of range (expected to be in range of [{low}, {high}], but got {one})")
    if not dims and input.numel() == 0:
        raise RuntimeError("hash_tensor: Expected reduction dim to be specified for input.numel() == 0. "
                           "Specify the reduction dim with the 'dim' argument.")  # fmt: skip
    taken = {one % rank for one in dims if rank} if dims else set(range(rank))
    if rank and len(taken) < len(dims):
        raise RuntimeError("dim appears multiple times in the list of dims")
    kept = [one for one in range(rank) if one not in taken]
    sizes = [1 if one in taken and keepdim else input.shape[one] for one in range(rank) if keepdim or one not in taken]
    rows = _bits(input.detach()).permute(kept + sorted(taken))
    n = 1
    for one in sorted(taken):
        if input.shape[one] == 0:
            raise IndexError(f"hash_tensor: Expected reduction dim {one} to have non-zero size.")
        n *= input.shape[one]
    rows = rows.reshape([input.shape[one] for one in kept] + [n])
    while n > 1:  # the second half onto the first one
        half = (n + 1) // 2
        rest = rows[..., half:]
        rows = _C.cat([rows[..., : n - half] ^ rest, rows[..., n - half : half]], -1)
        n = half
    return rows.reshape(sizes).view(_C.uint64)


def slice_inverse(input, src, dim=0, start=None, end=None, step=1):
    """What `src` was sliced of: the places of `input`'s memory at which `src` lies in its own."""
    return input.as_strided(src.shape, src.stride(), src.storage_offset())


def as_strided_(input, size, stride, storage_offset=None):
    """Tensor.as_strided_"""
    return input.as_strided_(size, stride, storage_offset)


_GONE = "This function was deprecated since version 1.9 and is now removed. "


def _gone(name: str, instead: str):
    def method(self, *args, **keywords):
        """Removed from PyTorch, where it raises, too."""
        raise RuntimeError(f"{_GONE}`torch.{name}` is deprecated in favor of {instead}.")

    method.__name__ = method.__qualname__ = name
    return method


def _resized(tensor, sizes):
    n = 1
    for size in sizes:
        n *= size
    if n != tensor.numel():
        asked, own = ("x".join(map(str, one)) for one in (sizes, tensor.shape))
        raise RuntimeError(
            f"requested resize to {asked} ({n} elements in total), but the given tensor has a size of {own} "
            f"({tensor.numel()} elements). autograd's resize can only change the shape of a given tensor, while "
            "preserving the number of elements. "
        )
    return tensor.contiguous().view(sizes)


class Rest:
    """What add() of _methods gives to Tensor; each is PyTorch's method of that name."""

    def share_memory_(self):
        """Moves the elements into memory that processes forked from this one share with it. PyTorch moves a whole
        storage; here nobody else may show it, since they would stay behind."""
        from .autograd import no_grad

        if self.device.type != "cpu" or self._is_fake:
            raise RuntimeError(f"share_memory_: a tensor on {self.device} has no memory that processes share")
        if _mapped(self):
            return self
        n = _C.storage_key(self)[1]
        if self._base is not None or _C.storage_users(self) > 1:
            raise NotImplementedError(
                "share_memory_: other tensors show the same memory and would not follow: clone it first"
            )
        mapping = mmap.mmap(-1, max(n, 1))
        key = _C.tensor_over(mapping, _C.uint8)
        with no_grad():
            made = _C.tensor_on_storage(key, self.shape, self.stride(), self.storage_offset(), self.dtype)
            self._take_place(made.copy_(self))
        _remember(self, mapping)
        return self

    def is_shared(self):
        """Whether forked processes see what is written here."""
        return self.device.type == "cpu" and not self._is_fake and _mapped(self)

    def renorm_(self, p, dim, maxnorm):
        return self.copy_(self.clone().renorm(p, dim, maxnorm))  # whose derivative reads it as it was

    def lu(self, pivot=True, get_infos=False):
        """Factors and pivots, as torch.linalg.lu_factor_ex gives them, with `get_infos` what it says of each matrix."""
        from .linalg import lu_factor_ex

        found = tuple(lu_factor_ex(self, pivot=pivot))
        return found if get_infos else found[:2]

    def module_load(self, other, assign=False):
        """What a module gets in this tensor's place when a state is loaded into it."""
        return other.detach() if assign else self.copy_(other).detach()

    def resize(self, *sizes):
        """A tensor of that size with the same elements; deprecated, as in PyTorch."""
        warnings.warn("non-inplace resize is deprecated", stacklevel=2)
        return _resized(self, tuple(sizes[0]) if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes)

    def resize_as(self, tensor):
        """resize() to another's size; deprecated, as in PyTorch."""
        warnings.warn("non-inplace resize_as is deprecated", stacklevel=2)
        return _resized(self, tensor.shape)

    def hash_tensor(self, dim=(), *, keepdim=False, mode=0):
        return hash_tensor(self, dim, keepdim=keepdim, mode=mode)

    def slice_inverse(self, src, dim=0, start=None, end=None, step=1):
        return slice_inverse(self, src, dim, start, end, step)

    @property
    def grad_dtype(self):
        """The dtype that a leaf's gradient has: its own."""
        if not self.is_leaf:
            raise RuntimeError("grad_dtype can only be accessed on leaf tensors.")
        return self.dtype

    @grad_dtype.setter
    def grad_dtype(self, dtype):
        if not self.is_leaf:
            raise RuntimeError("grad_dtype can only be set on leaf tensors.")
        if dtype != self.dtype:
            raise NotImplementedError(
                f"grad_dtype: a gradient has its tensor's dtype, {self.dtype}; others are not there yet"
            )

    def reinforce(self, reward):
        """Removed from PyTorch, where it raises, too."""
        raise RuntimeError("reinforce() was removed. Use torch.distributions instead. See "
                           "https://pytorch.org/docs/main/distributions.html")  # fmt: skip

    def xpu(self, device=None, non_blocking=False, memory_format=None):
        """There is no such device: raises, as PyTorch's CPU build does."""
        raise AssertionError("Torch not compiled with XPU enabled")

    def mtia(self, device=None, non_blocking=False, memory_format=None):
        """There is no such device: raises, as PyTorch's CPU build does."""
        raise AssertionError("Torch not compiled with MTIA enabled. There is no such device.")

    def ipu(self, device=None, non_blocking=False, memory_format=None):
        """There is no such device: raises, as PyTorch's CPU build does."""
        raise RuntimeError("PyTorch is not linked with support for ipu devices")

    eig = _gone("eig", "`torch.linalg.eig`, whose results are complex")
    symeig = _gone("symeig", "`torch.linalg.eigh`")
    lstsq = _gone("lstsq", "`torch.linalg.lstsq`")
    solve = _gone("solve", "`torch.linalg.solve`")
