"""The graph engine as torchair sees it."""

import logging

from ...._later import names
from .utils import say

_options: dict = {}


def initialize_graph_engine(options=None) -> None:
    """Notes the options of the engine, once in a process: the engine itself needs no start."""
    if _options:
        return
    _options.update({"ge.exec.deviceId": "0", "ge_run_with_torch_npu": "1", "ge.session_device_id": "0"})
    _options.update(options or {})
    _options["ge.session_device_id"] = _options["ge.exec.deviceId"]
    say(
        logging.INFO,
        "Initializing GE with options:\n%s",
        "\n".join(f"  {name}: {value}" for name, value in _options.items()),
    )


globals().update(
    names(
        "torchair.core._backend", "use torch.compile with get_npu_backend, or nx_session_* from C", ("TorchNpuGraph",)
    )
)
