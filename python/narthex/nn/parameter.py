"""Parameter: a tensor that a Module registers when it is assigned to one of its attributes."""

from .. import _C
from .._tensor import Tensor


class _ParameterMeta(type(Tensor)):
    def __instancecheck__(cls, instance) -> bool:
        if issubclass(type(instance), cls):
            return True
        return cls is Parameter and isinstance(instance, Tensor) and instance._is_param


class Parameter(Tensor, metaclass=_ParameterMeta):
    """A leaf tensor over the memory of `data` that requires grad unless told otherwise. Of a tensor whose class has a
    protocol of its own it is a tensor of that class; isinstance knows it."""

    __torch_function__ = _C._disabled_torch_function_impl

    def __new__(cls, data=None, requires_grad: bool = True):
        if data is None:
            data = _C.empty(0)
        if cls is Parameter and not isinstance(data, Parameter) and type(data) is not Tensor:
            made = data.detach().requires_grad_(requires_grad)
            if type(made) is not type(data):
                raise RuntimeError(
                    f"Creating a Parameter from an instance of type {type(data).__name__} requires that detach() "
                    "returns an instance of the same type, but return type "
                    f"{type(made).__name__} was found instead. To use the type as a Parameter, please correct the "
                    "detach() semantics defined by its __torch_dispatch__() implementation."
                )
            _C.mark_parameter(made)
            return made
        return _C.TensorBase.__new__(cls, data, requires_grad, True)

    def __init__(self, *args, **kwargs) -> None:
        """All is done in __new__, which classes replace by ones with other arguments."""


_C.register_parameter_class(Parameter)


class _BufferMeta(type):
    def __instancecheck__(cls, instance) -> bool:
        return type(instance) is Tensor and cls is Buffer and getattr(instance, "_is_buffer", False)


class Buffer(Tensor, metaclass=_BufferMeta):
    """Makes a tensor over the memory of `data` that a Module registers as a buffer when it is assigned to one of its
    attributes; with `persistent` it belongs to the state_dict. The tensor's class is Tensor; isinstance knows it."""

    def __new__(cls, data=None, *, persistent: bool = True):
        made = (_C.empty(0) if data is None else data).detach()
        if data is not None and data.requires_grad:
            made.requires_grad_()
        made._is_buffer, made.persistent = True, persistent
        return made


class UninitializedTensorMixin:
    """What tensors share whose sizes the first call of a lazy module will say."""

    def materialize(self, shape, device=None, dtype=None) -> None:
        """Becomes an ordinary tensor of that shape, with any numbers."""
        device = self.data.device if device is None else device
        self.data = _C.empty(shape, device=device, dtype=self.data.dtype if dtype is None else dtype)
        self.__class__ = self.cls_to_become

    @property
    def shape(self):
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. "
            "This error usually happens in `load_state_dict` when trying to load "
            "an uninitialized parameter into an initialized one. "
            "Call `forward` to initialize the parameters before accessing their attributes."
        )

    def share_memory_(self):
        """Raises: there is no memory yet."""
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. "
            "Call `forward` to initialize the parameters before calling `module.share_memory()`."
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __reduce_ex__(self, proto):
        return type(self), (self.requires_grad,)

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.requires_grad, self.data.device, self.data.dtype)
        return memo[id(self)]


def is_lazy(param) -> bool:
    """Whether the sizes of a parameter or buffer are not known yet."""
    return isinstance(param, UninitializedTensorMixin)


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter whose sizes are not known yet."""

    cls_to_become = Parameter

    def __new__(cls, requires_grad: bool = True, device=None, dtype=None):
        return _C.TensorBase.__new__(cls, _C.empty(0, device=device, dtype=dtype), requires_grad, True)

    def __init__(self, *args, **kwargs) -> None:
        """All is done in __new__."""


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    """A buffer whose sizes are not known yet."""

    cls_to_become = Tensor

    def __new__(cls, requires_grad: bool = False, device=None, dtype=None, persistent: bool = True):
        made = _C.TensorBase.__new__(cls, _C.empty(0, device=device, dtype=dtype), requires_grad, False)
        made.persistent, made._is_buffer = persistent, True
        return made

    def __init__(self, *args, **kwargs) -> None:
        """All is done in __new__."""
