"""The marks by the place where PyTorch defines them."""

from . import DeQuantStub as DeQuantStub
from . import QuantStub as QuantStub
from . import QuantWrapper as QuantWrapper
