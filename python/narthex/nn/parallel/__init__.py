"""torch.nn.parallel: modules over several devices or processes are not there yet."""

from ..._absent import getter
from ..._later import names

_LATER = ("DataParallel", "DistributedDataParallel", "data_parallel")
globals().update(names("torch.nn.parallel", "use the module itself", _LATER))

__getattr__ = getter("torch.nn.parallel")
