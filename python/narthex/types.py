"""torch.types: names for annotations."""

import builtins
from collections.abc import Sequence
from typing import Any, Union

from . import _C
from ._absent import getter
from ._C import SymInt
from ._symbolic import SymBool, SymFloat
from ._tensor import Tensor

Number = Union[builtins.int, builtins.float, builtins.bool]  # noqa: UP007  (isinstance of Union members is asked)
_int, _float, _bool, _complex = builtins.int, builtins.float, builtins.bool, builtins.complex
_dtype, _device, _size, _layout = _C.dtype, _C.device, Union[_C.Size, list, tuple], type(_C.strided)  # noqa: UP007
Device = Union[_C.device, str, builtins.int, None]  # noqa: UP007
IntLikeType = Union[builtins.int, SymInt]  # noqa: UP007
FloatLikeType = Union[builtins.float, SymFloat]  # noqa: UP007
BoolLikeType = Union[builtins.bool, SymBool]  # noqa: UP007
PySymType = Union[SymInt, SymFloat, SymBool]  # noqa: UP007
py_sym_types = (SymInt, SymFloat, SymBool)
FileLike = Any
Storage = Any
_TensorOrTensors = Union[Tensor, Sequence[Tensor]]  # noqa: UP007

__getattr__ = getter("torch.types")
