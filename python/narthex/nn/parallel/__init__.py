"""torch.nn.parallel: DataParallel where there is no CUDA device. Several processes are not there yet."""

from ..._absent import getter
from .data_parallel import DataParallel, data_parallel
from .distributed import DistributedDataParallel
from .parallel_apply import parallel_apply
from .replicate import replicate
from .scatter_gather import gather, scatter

__getattr__ = getter("torch.nn.parallel")
