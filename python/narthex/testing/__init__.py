"""What tests of programs need: comparing tensors and making them."""

from .._absent import getter
from ._comparison import assert_allclose as assert_allclose
from ._comparison import assert_close as assert_close
from ._creation import make_tensor as make_tensor
from ._file_check import FileCheck as FileCheck

__getattr__ = getter("torch.testing")
