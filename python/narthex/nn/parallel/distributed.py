"""torch.nn.parallel.distributed: several processes are not there yet."""

from ..._absent import getter
from ..._later import class_for
from ..modules.module import Module

DistributedDataParallel = class_for("torch.nn.parallel.DistributedDataParallel", "use the module itself", Module)

__getattr__ = getter("torch.nn.parallel.distributed")
