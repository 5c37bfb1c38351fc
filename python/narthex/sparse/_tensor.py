"""SparseTensor: a tensor of the layouts sparse_coo, sparse_csr and sparse_csc, made of dense ones.

It holds its indices and its values, dense tensors, and a class answers for it (decision 0015): what it can do stands in
`HANDLERS`, by the name of the function or method; all else raises NotImplementedError. History is the values': what
follows from them by functions of dense tensors has their gradients, and a sparse leaf's `grad` is made of theirs.
"""

from .. import _C
from .._tensor import DisableTorchFunctionSubclass, Tensor
from . import _parts

HANDLERS: dict = {}  # filled by _compute.py: name -> function, for functions and for methods
COO, CSR, CSC = _C.sparse_coo, _C.sparse_csr, _C.sparse_csc
KINDS = {COO: "Sparse", CSR: "SparseCsr", CSC: "SparseCsc"}
# What the shell itself, a tensor without elements, answers.
SHELL = {
    "__hash__", "__len__", "device", "dim", "dtype", "element_size", "get_device", "is_complex", "is_cpu", "is_cuda",
    "is_floating_point", "is_inference", "is_meta", "is_mps", "is_nested", "is_quantized", "is_signed", "is_xla",
    "is_xpu", "itemsize", "names", "ndim", "ndimension", "nelement", "numel", "shape", "size", "__repr__",
    "storage_offset",
}  # fmt: skip


def refuse(name: str, layout):
    raise NotImplementedError(
        f"Could not run 'aten::{name}' with arguments from the '{KINDS[layout]}CPU' backend. This operator is not "
        "there for sparse tensors: take x.to_dense(), or work on x.values()"
    )


def asked(name: str) -> str:
    """add of add, __add__ and add.Tensor."""
    return name.strip("_") if name.startswith("__") and name not in SHELL else name


class SparseTensor(Tensor):
    """Parts of COO: (indices, values); of CSR and CSC: (pointers, indices along the other dimension, values)."""

    @staticmethod
    def make(layout, parts: tuple, size, is_coalesced: bool = False) -> "SparseTensor":
        """Takes the parts as they are."""
        values = parts[-1]
        self = Tensor._make_wrapper_subclass(SparseTensor, tuple(size), dtype=values.dtype, device=values.device)
        self._kind, self._parts, self._coalesced = layout, tuple(parts), is_coalesced or values.shape[0] < 2
        return self

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        name = asked(function.__name__)
        if name == "get":  # of an attribute
            name = getattr(function.__self__, "__name__", None) or function.__self__.fget.__name__
        handler = HANDLERS.get(name)
        if handler is not None:
            return handler(*args, **(kwargs or {}))
        if name in SHELL:
            with DisableTorchFunctionSubclass():
                return function(*args, **(kwargs or {}))
        layouts = [x._kind for x in (*args, *(kwargs or {}).values()) if isinstance(x, SparseTensor)]
        refuse(name, layouts[0] if layouts else COO)

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        name = function.__name__.partition(".")[0]
        handler = HANDLERS.get(name)
        if handler is None:
            refuse(name, next((x._kind for x in args if isinstance(x, SparseTensor)), COO))
        return handler(*args, **(kwargs or {}))

    # ---- what it is ------------------------------------------------------------------------------------------------
    layout = property(lambda self: self._kind)
    is_sparse = property(lambda self: self._kind == COO)
    is_sparse_csr = property(lambda self: self._kind == CSR)
    T = property(lambda self: self.t())
    data = property(lambda self: self.detach())
    real = property(lambda self: HANDLERS["real"](self))
    imag = property(lambda self: HANDLERS["imag"](self))

    def parts(self, *layouts, name: str, expected: str) -> tuple:
        """Its parts, when it has one of these layouts."""
        if self._kind not in layouts:
            raise RuntimeError(f"{name} expected {expected} layout but got {KINDS[self._kind]}")
        return self._parts

    def stride(self, dim=None):
        if self._kind != COO:
            raise RuntimeError(f"Sparse {str(self._kind)[-3:].upper()} tensors do not have strides")
        return (0,) * self.dim() if dim is None else 0

    def is_contiguous(self, memory_format=None):
        return False

    def data_ptr(self):
        raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage")

    def __repr__(self, *, tensor_contents=None):
        from .._tensor_str import sparse_text

        return sparse_text(self)

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            if not self.is_leaf:
                raise RuntimeError("Only Tensors created explicitly by the user support the deepcopy protocol")
            twin = SparseTensor.make(
                self._kind, tuple(p.detach().clone() for p in self._parts), self.shape, self._coalesced
            )
            memo[id(self)] = twin.requires_grad_(self.requires_grad)
        return memo[id(self)]

    def __reduce_ex__(self, protocol):
        from ._make import rebuild

        *places, values = self._parts
        if self._kind == COO:
            return rebuild, (self._kind, (places[0], values, self.shape, self._coalesced))
        return rebuild, (self._kind, (*places, values, self.shape))

    # ---- its history -----------------------------------------------------------------------------------------------
    @property
    def requires_grad(self):
        return self._parts[-1].requires_grad

    @requires_grad.setter
    def requires_grad(self, value):
        self._parts[-1].requires_grad = value

    def requires_grad_(self, requires_grad=True):
        self._parts[-1].requires_grad_(requires_grad)
        return self

    @property
    def grad(self):
        values = self._parts[-1].grad
        return None if values is None else self.gradient(values)

    @grad.setter
    def grad(self, value):
        self._parts[-1].grad = None if value is None else value._parts[-1]

    is_leaf = property(lambda self: self._parts[-1].is_leaf)
    grad_fn = property(lambda self: self._parts[-1].grad_fn)
    _version = property(lambda self: self._parts[-1]._version)

    def retain_grad(self):
        self._parts[-1].retain_grad()

    def backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None):
        """With a sparse gradient that has this tensor's places."""
        seed = None if gradient is None else gradient.coalesce()._parts[-1]
        self.coalesce()._parts[-1].backward(seed, retain_graph, create_graph, inputs)

    def gradient(self, values) -> "SparseTensor":
        """The gradient of this tensor from that of its values: of a place that is there more than once, one's."""
        if self._coalesced or self._kind != COO:
            return self.with_values(values)
        indices = self._parts[0]
        _, order, begins = _parts.in_order(_parts.keys_of(indices, self.sparse_sizes()))
        picked = order[begins]
        return SparseTensor.make(
            COO, (indices.index_select(1, picked), values.index_select(0, picked)), self.shape, True
        )

    def forbid_leaf(self) -> None:
        """A leaf whose gradient is wanted may not be written."""
        if self.requires_grad and self.is_leaf and _C.is_grad_enabled():
            raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")

    # ---- its parts -------------------------------------------------------------------------------------------------
    def with_values(self, values, is_coalesced=None) -> "SparseTensor":
        """Other values at the same places."""
        size = (*self.sparse_sizes(), *values.shape[1:]) if self._kind == COO else self.shape
        known = self._coalesced if is_coalesced is None else is_coalesced
        return SparseTensor.make(self._kind, (*self._parts[:-1], values), size, known)

    def take_from(self, other: "SparseTensor") -> "SparseTensor":
        """Becomes `other` in place; their sizes, dtype and device are the same, or sizes are set besides."""
        self._kind, self._parts, self._coalesced = other._kind, other._parts, other._coalesced
        return self

    def as_coo(self) -> tuple:
        """(indices, values) of any layout."""
        if self._kind == COO:
            return self._parts
        pointers, others, values = self._parts
        rows = _parts.rows_of(pointers)
        return _C.stack([rows, others] if self._kind == CSR else [others, rows]), values

    def sparse_sizes(self) -> tuple:
        """The sizes of the dimensions that places have."""
        return tuple(self.shape[: self._parts[0].shape[0]]) if self._kind == COO else tuple(self.shape)

    def coalesced(self) -> "SparseTensor":
        """Of COO: itself when each place is there once, else a new one."""
        if self._coalesced or self._kind != COO:
            return self
        indices, values = _parts.coalesce(*self._parts, self.sparse_sizes())
        return SparseTensor.make(COO, (indices, values), self.shape, True)


def _no_storage(self, *args, **kwargs):
    """A sparse tensor has no storage of its own: raises."""
    raise NotImplementedError("Cannot access storage of SparseTensorImpl")


def _no_list(self):
    """A sparse tensor has no elements to list: raises."""
    raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage")


def _no_numpy(self, *args, **kwargs):
    """numpy has no sparse arrays: raises."""
    raise TypeError("can't convert Sparse layout tensor to numpy. Use Tensor.to_dense() first.")


SparseTensor.storage = SparseTensor.untyped_storage = _no_storage
SparseTensor.tolist, SparseTensor.numpy, SparseTensor.__array__ = _no_list, _no_numpy, _no_numpy
SparseTensor.__hash__ = Tensor.__hash__
