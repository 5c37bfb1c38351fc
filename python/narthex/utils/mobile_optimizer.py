"""torch.utils.mobile_optimizer: there is no mobile interpreter, so nothing is prepared for it."""

from enum import Enum

from .._absent import getter
from .._later import names


class LintCode(Enum):
    """What generate_mobile_module_lints finds."""

    BUNDLED_INPUT = 1
    REQUIRES_GRAD = 2
    DROPOUT = 3
    BATCHNORM = 4


globals().update(names("torch.utils.mobile_optimizer", "torch.jit.save, or torch.model_file.save for C programs", (
    "MobileOptimizerType", "generate_mobile_module_lints", "optimize_for_mobile",
)))  # fmt: skip

__getattr__ = getter("torch.utils.mobile_optimizer")
