"""class Tensor: the extension's tensor and the conveniences that are written in Python."""

import copyreg

from . import _C
from ._methods import add
from ._shells import shells_of_class

_to_copy = _C.op_function("aten::_to_copy", "torch.ops.aten._to_copy.default")
_MEMORY_FORMAT_KEYS = ("memory_format", "non_blocking", "copy")


def _to_arguments(args: tuple, kwargs: dict):
    """Sorts the arguments of Tensor.to into (device, dtype, copy, memory_format)."""
    device, dtype = kwargs.pop("device", None), kwargs.pop("dtype", None)
    flags = {name: kwargs.pop(name, None) for name in _MEMORY_FORMAT_KEYS}
    other = kwargs.pop("other", None)
    if kwargs:
        raise TypeError(f"to() got an unexpected keyword argument '{next(iter(kwargs))}'")
    rest = []
    for value in args:
        if isinstance(value, _C.TensorBase) and other is None:
            other = value
        elif dtype is None and (found := _C.dtype_from(value)) is not None:
            dtype = found
        elif isinstance(value, (_C.device, str)) and device is None:
            device = value
        elif isinstance(value, bool):
            rest.append(value)
        elif isinstance(value, int) and device is None:
            device = value
        elif value is not None:
            raise TypeError(
                f"to() received an invalid argument of type {type(value).__name__}: "
                "give a device, a torch.dtype or a tensor"
            )
    if len(rest) > 2:
        raise TypeError("to() takes at most two flags: non_blocking and copy")
    if other is not None:
        device, dtype = other.device, other.dtype
    if device is not None and not isinstance(device, _C.device):
        device = _C.device(device)
    if dtype is not None and not isinstance(dtype, _C.dtype):
        if (found := _C.dtype_from(dtype)) is None:
            raise TypeError(f"to(): argument 'dtype' must be torch.dtype, not {type(dtype).__name__}")
        dtype = found
    copy = rest[1] if len(rest) == 2 else flags["copy"]
    return device, dtype, bool(copy), flags["memory_format"]


def _parse_to(*args, **kwargs):
    """The arguments of Module.to as (device, dtype, non_blocking, memory_format)."""
    device, dtype, copy, memory_format = _to_arguments(args, dict(kwargs))
    if copy:
        raise RuntimeError(".to() does not accept copy argument")
    flags = [value for value in args if isinstance(value, bool)]
    return device, dtype, flags[0] if flags else bool(kwargs.get("non_blocking")), memory_format


def _memory_format_of(tensor):
    """The order of the dimensions in memory that the strides suggest: channels_last or, without a sign of it, rows."""
    if tensor.ndim not in (4, 5) or tensor.stride(1) == 0:
        return _C.contiguous_format
    least = 0
    for dim in (1, *range(tensor.ndim - 1, 1, -1), 0):
        size, stride = tensor.shape[dim], tensor.stride(dim)
        if size == 0 or stride < least or (dim == 0 and least == tensor.stride(1)):
            return _C.contiguous_format
        least = stride * size
    return _C.channels_last if tensor.ndim == 4 else _C.channels_last_3d


_builtin_int, _builtin_float = int, float


def _unpickled(kind, elements: bytearray, dtype: str, shape: tuple, where, requires_grad: bool, is_param: bool):
    """A tensor of its own from what Tensor.__reduce_ex__ wrote."""
    dtype = getattr(_C, dtype)
    made = _C.tensor_over(elements, dtype).view(shape) if elements else _C.empty(shape, dtype=dtype)
    made = made if where is None else made.to(where)
    if kind is not Tensor:
        made = _C.TensorBase.__new__(kind, made, False, is_param)
    return made.requires_grad_(requires_grad)


def _unpickled_meta(kind, dtype: str, size: tuple, stride: tuple, requires_grad: bool, is_param: bool):
    made = _C.empty_strided(size, stride, dtype=getattr(_C, dtype.rpartition(".")[2]), device="meta")
    if kind is not Tensor:
        made = _C.TensorBase.__new__(kind, made, False, is_param)
    return made.requires_grad_(requires_grad)


def _device(text: str):
    return _C.device(text)


def _size(sizes: tuple):
    return _C.Size(sizes)


# By functions of ours: the classes call themselves torch.device and torch.Size, which may be PyTorch's.
copyreg.pickle(_C.device, lambda device: (_device, (str(device),)))
copyreg.pickle(_C.Size, lambda size: (_size, (tuple(size),)))


class _Without:
    """`with` it, this thread asks fewer protocols than before."""

    def __enter__(self) -> None:
        self._before = _C.swap_function_state(max(self._least, _C.function_state()))

    def __exit__(self, *exception) -> None:
        _C.swap_function_state(self._before)


class DisableTorchFunctionSubclass(_Without):
    """`with` it, modes answer for functions and classes do not."""

    _least = 1


class DisableTorchFunction(_Without):
    """`with` it, nobody answers for functions."""

    _least = 2


_C.DisableTorchFunctionSubclass, _C.DisableTorchFunction = DisableTorchFunctionSubclass, DisableTorchFunction
_C._is_torch_function_enabled = lambda: _C.function_state() == 0
_C._is_torch_function_all_disabled = lambda: _C.function_state() == 2
_C._is_torch_function_mode_enabled = lambda: bool(_C.function_modes()) and _C.function_state() < 2
_C._len_torch_function_stack = lambda: len(_C.function_modes())


def _asked(descriptor, tensor):
    """What is answered to reading an attribute that is a property of Tensor."""
    return _C.ask_torch_function(descriptor.__get__, (tensor,), (tensor,), {})


def _converted(result, cls):
    """The tensors of a result as tensors of the class."""
    if isinstance(result, _C.TensorBase) and not isinstance(result, cls):
        return result.as_subclass(cls)
    if isinstance(result, (tuple, list)):
        kind = type(result)
        parts = [_converted(part, cls) for part in result]
        if not any(isinstance(part, _C.TensorBase) for part in parts) and kind not in (tuple, list):
            return result
        return kind(parts) if not hasattr(kind, "_fields") else kind(*parts)
    return result


class Tensor(_C.TensorBase):
    """A multi-dimensional array of one dtype on one device, which autograd can follow."""

    def __new__(cls, *args, **keywords):
        """Tensor(2, 3) has no defined elements, Tensor([1, 2]) those numbers, both of the default dtype."""
        if keywords or (cls is not Tensor and args and isinstance(args[0], _C.TensorBase)):
            return _C.TensorBase.__new__(cls, *args, **keywords)
        from ._legacy import tensor_like_before

        return _C.TensorBase.__new__(cls, tensor_like_before(_C.get_default_dtype(), args), False)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        """The function as it would be without protocols, its tensors as tensors of this class."""
        if not all(issubclass(cls, type) for type in types):
            return NotImplemented
        before = _C.swap_function_state(max(1, _C.function_state()))
        try:
            result = func(*args, **(kwargs or {}))
        finally:
            _C.swap_function_state(before)
        return result if cls is Tensor or func in _UNWRAPPED else _converted(result, cls)

    __torch_dispatch__ = _C._disabled_torch_dispatch_impl
    _make_wrapper_subclass = staticmethod(_C.make_wrapper_subclass)

    def __repr__(self, *, tensor_contents=None) -> str:
        from ._tensor_str import tensor_text

        return tensor_text(self, contents=tensor_contents)

    def __format__(self, spec: str) -> str:
        if self.dim() == 0 and type(self) is Tensor:
            return format(self.item(), spec)
        return object.__format__(self, spec)

    def __deepcopy__(self, memo: dict):
        if not self.is_leaf:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment"
            )
        if id(self) in memo:
            return memo[id(self)]
        copy = self.detach().clone()
        if type(self) is not Tensor:
            copy = _C.TensorBase.__new__(type(self), copy, False, self._is_param)
        copy.requires_grad_(self.requires_grad)
        if self.grad is not None:
            from copy import deepcopy

            copy.grad = deepcopy(self.grad, memo)  # which keeps it alive, so that no other object gets its id
        memo[id(self)] = copy
        return copy

    def __copy__(self):
        copy = self.detach()
        if type(self) is not Tensor:
            copy = _C.TensorBase.__new__(type(self), copy, False, self._is_param)
        return copy.requires_grad_(self.requires_grad)

    def __reduce_ex__(self, protocol):
        if self.requires_grad and not self.is_leaf:
            raise RuntimeError(
                "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not support "
                "crossing process boundaries.  If you just want to transfer the data, call detach() on the tensor "
                "before serializing (e.g., putting it on the queue)."
            )
        if self.device.type == "meta":
            shape = tuple(self.shape), self.stride()
            return _unpickled_meta, (type(self), str(self.dtype), *shape, self.requires_grad, self._is_param)
        whole = self.detach().clone().cpu().contiguous()
        elements = bytearray(_C.storage_bytes(whole)) if self.numel() else bytearray()
        where = None if self.device.type == "cpu" else str(self.device)
        kind = str(self.dtype).rpartition(".")[2]
        return _unpickled, (type(self), elements, kind, tuple(self.shape), where, self.requires_grad, self._is_param)

    def register_hook(self, hook):
        """`hook(grad)` is called with this tensor's gradient and may return another; the handle's `remove()` ends it.

        It belongs to the value that the tensor has now: a later write in place gives it a new one.
        """
        from .utils.hooks import RemovableHandle

        if not self.requires_grad:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        return RemovableHandle.of(self._hooks_of(False), hook)

    def register_post_accumulate_grad_hook(self, hook):
        """`hook(tensor)` is called after a backward has added to this leaf's `.grad`."""
        from .utils.hooks import RemovableHandle

        if not self.requires_grad:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        if self.grad_fn is not None:
            raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
        return RemovableHandle.of(self._hooks_of(True), hook)

    def to(self, *args, **kwargs):
        """This tensor with another dtype or on another device: itself if nothing changes and `copy` is not set."""
        device, dtype, copy, memory_format = _to_arguments(args, dict(kwargs))
        if device is not None and device.index is None and device.type != "cpu":
            device = _C.current_device(device.type)
        same = (device is None or device == self.device) and (dtype is None or dtype is self.dtype)
        if memory_format is None or memory_format is _C.preserve_format:
            if same and not copy:
                return self
            return _to_copy(self, dtype=dtype or self.dtype, device=device or self.device)
        if same and not copy and _memory_format_of(self) is memory_format:
            return self
        return _to_copy(self, dtype=dtype or self.dtype, device=device or self.device, memory_format=memory_format)

    def polygamma(self, n):
        """`torch.polygamma(n, self)`"""
        return _C.polygamma(n, self)

    def polygamma_(self, n):
        """The same, written here."""
        return self.copy_(_C.polygamma(n, self))

    def addbmm_(self, *args, **kwargs):
        """addbmm in place; the tensor gets the result's size, unless it has a history."""
        if len(args) == 2 and all(isinstance(batch, _C.TensorBase) and batch.dim() == 3 for batch in args):
            recorded = _C.is_grad_enabled() and any(x.requires_grad for x in (self, *args))
            if not recorded and tuple(self.shape) != (args[0].shape[1], args[1].shape[2]):
                return _C.addbmm(self.clone(), *args, **kwargs, out=self)
        return super().addbmm_(*args, **kwargs)

    def cpu(self):
        """This tensor in the host's memory."""
        return self.to(_C.device("cpu"))

    def float(self, memory_format=None):
        """`self.to(torch.float32, memory_format=memory_format)`"""
        return self.to(_C.float32, memory_format=memory_format)

    def double(self, memory_format=None):
        """`self.to(torch.float64, memory_format=memory_format)`"""
        return self.to(_C.float64, memory_format=memory_format)

    def half(self, memory_format=None):
        """`self.to(torch.float16, memory_format=memory_format)`"""
        return self.to(_C.float16, memory_format=memory_format)

    def bfloat16(self, memory_format=None):
        """`self.to(torch.bfloat16, memory_format=memory_format)`"""
        return self.to(_C.bfloat16, memory_format=memory_format)

    def chalf(self, memory_format=None):
        """`self.to(torch.complex32, memory_format=memory_format)`"""
        return self.to(_C.complex32, memory_format=memory_format)

    def cfloat(self, memory_format=None):
        """`self.to(torch.complex64, memory_format=memory_format)`"""
        return self.to(_C.complex64, memory_format=memory_format)

    def cdouble(self, memory_format=None):
        """`self.to(torch.complex128, memory_format=memory_format)`"""
        return self.to(_C.complex128, memory_format=memory_format)

    def short(self, memory_format=None):
        """`self.to(torch.int16, memory_format=memory_format)`"""
        return self.to(_C.int16, memory_format=memory_format)

    def char(self, memory_format=None):
        """`self.to(torch.int8, memory_format=memory_format)`"""
        return self.to(_C.int8, memory_format=memory_format)

    def byte(self, memory_format=None):
        """`self.to(torch.uint8, memory_format=memory_format)`"""
        return self.to(_C.uint8, memory_format=memory_format)

    def int(self, memory_format=None):
        """`self.to(torch.int32, memory_format=memory_format)`"""
        return self.to(_C.int32, memory_format=memory_format)

    def long(self, memory_format=None):
        """`self.to(torch.int64, memory_format=memory_format)`"""
        return self.to(_C.int64, memory_format=memory_format)

    def bool(self, memory_format=None):
        """`self.to(torch.bool, memory_format=memory_format)`"""
        return self.to(_C.bool, memory_format=memory_format)

    def type_as(self, other):
        """This tensor with the dtype and on the device of `other`."""
        return self.to(other)

    def cuda(self, device=None, non_blocking=False, memory_format=None):
        """Raises AssertionError: there is no CUDA."""
        raise AssertionError("Torch not compiled with CUDA enabled: Narthex has no CUDA device")

    def pin_memory(self):
        """Raises RuntimeError: no accelerator needs pinned memory."""
        raise RuntimeError("Cannot access accelerator device when none is available.")

    def is_pinned(self, device=None):
        """False."""
        return False

    def get_device(self):
        """The index of the device; -1 on the CPU."""
        return -1 if self.device.type == "cpu" else self.device.index

    def ndimension(self):
        """`self.dim()`"""
        return self.dim()

    def is_complex(self):
        """Whether the elements are complex numbers."""
        return self.dtype.is_complex

    def is_same_size(self, other):
        """Whether `other` has the same shape."""
        return self.shape == other.shape

    def reshape_as(self, other):
        """`self.reshape(other.shape)`"""
        return self.reshape(other.shape)

    def _new(self, make, shape, first, dtype, device, requires_grad, size=None):
        if size is not None:
            if shape:
                raise TypeError(f"new_{make.__name__}() got multiple values for argument 'size'")
            shape = (size,)
        if len(shape) == 1 and not isinstance(shape[0], _builtin_int):
            shape = tuple(shape[0])
        made = make(shape, *first, dtype=dtype or self.dtype, device=device or self.device)
        if not _C.is_capturing() and self._is_fake and not made._is_fake:  # beside a trace, which makes fakes itself
            made = _C.fake_like(made)
        return made.requires_grad_() if requires_grad else made

    def new_empty(
        self, *sizes, size=None, dtype=None, device=None, requires_grad=False, layout=None, pin_memory=False
    ):
        """A tensor of `size` without defined elements, with this one's dtype and device unless others are given."""
        return self._new(_C.empty, sizes, (), dtype, device, requires_grad, size)

    def new_zeros(
        self, *sizes, size=None, dtype=None, device=None, requires_grad=False, layout=None, pin_memory=False
    ):
        """Zeros of `size`, with this tensor's dtype and device unless others are given."""
        return self._new(_C.zeros, sizes, (), dtype, device, requires_grad, size)

    def new_ones(
        self, *sizes, size=None, dtype=None, device=None, requires_grad=False, layout=None, pin_memory=False
    ):
        """Ones of `size`, with this tensor's dtype and device unless others are given."""
        return self._new(_C.ones, sizes, (), dtype, device, requires_grad, size)

    def new_full(
        self, size, fill_value, *, dtype=None, device=None, requires_grad=False, layout=None, pin_memory=False
    ):
        """A tensor of `size` filled with one number, with this one's dtype and device unless others are given."""
        return self._new(_C.full, (size,), (fill_value,), dtype, device, requires_grad)

    def new_tensor(self, data, *, dtype=None, device=None, requires_grad=False):
        """A copy of `data`, with this tensor's dtype and device unless others are given."""
        made = _C.tensor(data, dtype=dtype or self.dtype, device=device or self.device)
        return made.requires_grad_() if requires_grad else made

    is_sparse = is_quantized = is_mkldnn = is_nested = False

    @property
    def is_meta(self) -> bool:
        """Whether it has a shape and no elements."""
        if _C._has_torch_function_unary(self):
            return _asked(Tensor.is_meta, self)
        return self.device.type == "meta"

    def numpy(self, *, force: bool = False):
        """A numpy array over the same memory. numpy is imported here and nowhere else."""
        source = self.detach() if self.requires_grad else self
        if force:
            source = self.detach().cpu()
        elif self.requires_grad and _C.is_grad_enabled():
            raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
        elif self.device.type != "cpu":
            raise TypeError(
                f"can't convert {self.device} device type tensor to numpy. "
                "Use Tensor.cpu() to copy the tensor to host memory first."
            )
        from ._from_numpy import array_over

        return array_over(source)

    __array_priority__ = 1000  # numpy's operators ask a tensor on the right first

    def __array__(self, dtype=None, copy=None):
        """What numpy's functions read: an array over the same memory where `dtype` and `copy` allow it."""
        array = self.numpy()
        if dtype is None or array.dtype == dtype:
            return array.copy() if copy else array
        if copy is False:
            raise ValueError(f"numpy(): {self.dtype} cannot be read as {dtype} without a copy")
        return array.astype(dtype)

    def __array_wrap__(self, array, context=None, return_scalar=False):
        """What numpy's functions return for a tensor: a tensor over their array."""
        from ._from_numpy import from_numpy

        return from_numpy(array.astype("uint8") if array.dtype == bool else array)

    def type(self, dtype=None):
        """The name of the element type ("torch.FloatTensor"), or a tensor with elements of `dtype`."""
        if dtype is not None:
            from ._legacy import dtype_of

            return self.to(dtype_of(dtype))
        place = "" if self.device.type == "cpu" else self.device.type + "."
        return f"torch.{place}{self.dtype.kind}Tensor"

    def new(self, *args, device=None):
        """A tensor of this dtype: of sizes, without defined elements; of a sequence or a tensor, its elements."""
        from ._legacy import tensor_like_before

        return tensor_like_before(self.dtype, args).to(self.device if device is None else device)

    def where(self, condition, other):
        """`torch.where(condition, self, other)`"""
        return _C.where(condition, self, other)

    def norm(self, p="fro", dim=None, keepdim: bool = False, dtype=None):
        """torch.norm of this tensor."""
        from .functional import norm

        return norm(self, p, dim, keepdim, dtype=dtype)

    def matrix_power(self, n: int):
        """torch.linalg.matrix_power of this tensor."""
        from .linalg import matrix_power

        return matrix_power(self, n)

    def stft(
        self, n_fft, hop_length=None, win_length=None, window=None, center=True, pad_mode="reflect",
        normalized=False, onesided=None, return_complex=None, align_to_window=None,
    ):  # fmt: skip
        """torch.stft of this tensor."""
        from ._spectrum import stft

        return stft(self, n_fft, hop_length, win_length, window, center, pad_mode, normalized, onesided, return_complex,
                    align_to_window)  # fmt: skip

    def istft(
        self, n_fft, hop_length=None, win_length=None, window=None,
        center=True, normalized=False, onesided=None, length=None,
        return_complex=False,
    ):  # fmt: skip
        """torch.istft of this tensor."""
        from ._spectrum import istft

        return istft(self, n_fft, hop_length, win_length, window, center, normalized, onesided, length, return_complex)

    def cov(self, *, correction: int = 1, fweights=None, aweights=None):
        """torch.cov of this tensor."""
        from ._composed import cov

        return cov(self, correction=correction, fweights=fweights, aweights=aweights)

    def corrcoef(self):
        """torch.corrcoef of this tensor."""
        from ._composed import corrcoef

        return corrcoef(self)

    def diff(self, n: int = 1, dim: int = -1, prepend=None, append=None):
        """torch.diff of this tensor."""
        from ._composed import diff

        return diff(self, n, dim, prepend, append)

    def renorm(self, p, dim: int, maxnorm):
        """torch.renorm of this tensor."""
        from ._composed import renorm

        return renorm(self, p, dim, maxnorm)

    def rot90(self, k: int = 1, dims=(0, 1)):
        """torch.rot90 of this tensor."""
        from ._composed import rot90

        return rot90(self, k, dims)

    @property
    def T(self):  # noqa: N802  (PyTorch's name)
        """The dimensions in reverse order; of a matrix its transpose."""
        if _C._has_torch_function_unary(self):
            return _asked(Tensor.T, self)
        if self.dim() <= 2:
            return self.t()
        return self.permute(tuple(range(self.dim() - 1, -1, -1)))

    @property
    def mT(self):  # noqa: N802  (PyTorch's name)
        """The last two dimensions exchanged: each matrix of a batch transposed."""
        if _C._has_torch_function_unary(self):
            return _asked(Tensor.mT, self)
        if self.dim() < 2:
            raise RuntimeError("tensor.mT is only supported on matrices or batches of matrices. Got 1-D tensor.")
        return self.transpose(-2, -1)

    @property
    def H(self):  # noqa: N802  (PyTorch's name)
        """A matrix transposed and conjugated."""
        if _C._has_torch_function_unary(self):
            return _asked(Tensor.H, self)
        if self.dim() not in (0, 2):
            raise RuntimeError(f"tensor.H is only supported on matrices (2-D tensors). Got {self.dim()}-D tensor.")
        return self.adjoint()

    @property
    def mH(self):  # noqa: N802  (PyTorch's name)
        """Each matrix of a batch transposed and conjugated."""
        if _C._has_torch_function_unary(self):
            return _asked(Tensor.mH, self)
        return self.adjoint()

    @property
    def real(self):
        """The real part, a view; of a real tensor the tensor itself."""
        if _C._has_torch_function_unary(self):
            return _asked(Tensor.real, self)
        return _C.functions["torch.real"](self)

    @real.setter
    def real(self, value):
        _C.functions["torch.real"](self).copy_(value)

    @property
    def imag(self):
        """The imaginary part, a view."""
        if _C._has_torch_function_unary(self):
            return _asked(Tensor.imag, self)
        return _C.functions["torch.imag"](self)

    @imag.setter
    def imag(self, value):
        _C.functions["torch.imag"](self).copy_(value)

    def is_conj(self):
        """False: a conjugate is computed at once."""
        return False

    def is_neg(self):
        """False: a negative is computed at once."""
        return False

    def __bool__(self):
        if self.numel() != 1:
            many = "no values" if self.numel() == 0 else "more than one value"
            raise RuntimeError(f"Boolean value of Tensor with {many} is ambiguous")
        if _C._batch_levels(self):
            raise RuntimeError(
                "vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow. We don't "
                "support that yet: torch.where chooses by elements."
            )
        return self.item() != 0

    def __reversed__(self):
        """The parts along the first dimension from the last one on."""
        return self if self.dim() == 0 else self.flip(0)

    def __contains__(self, element) -> bool:
        """Whether an element is equal to `element`, a number or a tensor."""
        if not isinstance(element, (_C.TensorBase, bool, int, float, complex)):
            raise RuntimeError(
                f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}."
            )
        return bool((element == self).any())

    def __complex__(self):
        return complex(self.item())

    def __float__(self):
        return _builtin_float(self.item())

    def __int__(self):
        return _builtin_int(self.item())

    def __index__(self):
        value = self.item() if self.numel() == 1 else None
        if not isinstance(value, _builtin_int):
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return _builtin_int(value)

    def __rdiv__(self, other):
        """`other / self`, as PyTorch computes it."""
        return self.reciprocal() * other

    @property
    def _grad(self):
        """`grad`"""
        return self.grad


add(Tensor)
shells_of_class(Tensor)
# The functions whose results stay as they are.
_UNWRAPPED = frozenset((Tensor._base.__get__, Tensor.grad.__get__, Tensor._grad.__get__))
