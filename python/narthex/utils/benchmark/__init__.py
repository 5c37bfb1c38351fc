"""torch.utils.benchmark: how long statements take, and tables of it. Counts of instructions (callgrind), statements in
C++ and random inputs (Fuzzer) are not there."""

from ..._absent import getter as _getter
from .utils.common import (
    Measurement,
    TaskSpec,
    ordered_unique,
    select_unit,
    set_torch_threads,
    trim_sigfig,
    unit_to_english,
)
from .utils.compare import Colorize, Compare
from .utils.timer import Language, Timer, timer

__all__ = [
    "Colorize", "Compare", "Language", "Measurement", "TaskSpec", "Timer", "ordered_unique", "select_unit",
    "set_torch_threads", "timer", "trim_sigfig", "unit_to_english",
]  # fmt: skip
__getattr__ = _getter("torch.utils.benchmark")
