"""torch.nn.parallel: DataParallel where there is no CUDA device. Several processes are not there yet."""

from ..._absent import getter
from ..._later import names
from .data_parallel import DataParallel, data_parallel
from .pieces import gather, parallel_apply, replicate, scatter

_LATER = ("DistributedDataParallel",)
globals().update(names("torch.nn.parallel", "use the module itself", _LATER))

__getattr__ = getter("torch.nn.parallel")
