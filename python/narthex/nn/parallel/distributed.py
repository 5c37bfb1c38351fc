"""torch.nn.parallel.distributed: several processes are not there yet."""

from ..._absent import getter
from ..._later import class_for

DistributedDataParallel = class_for("torch.nn.parallel.DistributedDataParallel", "use the module itself")

__getattr__ = getter("torch.nn.parallel.distributed")
