"""torch._C._profiler: what programs hand to torch.profiler.profile."""

from __future__ import annotations

from ..profiler import ProfilerActivity  # noqa: F401


class _ExperimentalConfig:
    """Settings of PyTorch's recorder. `verbose`, with which stacks are kept, changes nothing: they are."""

    def __init__(self, profiler_metrics=(), profiler_measure_per_kernel: bool = False, verbose: bool = False,
                 **more) -> None:  # fmt: skip
        refused = {"profiler_metrics": profiler_metrics, "profiler_measure_per_kernel": profiler_measure_per_kernel}
        for name, value in {**refused, **more}.items():
            if value:
                raise NotImplementedError(f"_ExperimentalConfig: {name} is not there")
        self.verbose = verbose
