"""torch._dynamo.utils: what was captured, counted."""

from collections import Counter, defaultdict

from .. import _C

counters: defaultdict = defaultdict(Counter)
collectors: list = []  # of explain, while it runs


def is_compile_supported(device_type) -> bool:
    """Whether torch.compile makes graphs for a device: where there is such a one, and this CPython is captured."""
    from . import is_dynamo_supported

    kind = _C.device(device_type).type
    return is_dynamo_supported() and kind in ("cpu", "npu")


def count_graph(graph) -> None:
    """A graph goes to its backend: one for each captured piece, and for each set of sizes that it is fitted to."""
    counters["stats"]["unique_graphs"] += 1
    counters["stats"]["calls_captured"] += sum(node.op.startswith("call") for node in graph.nodes)


def _on_end(code: str, reason: str, detail, file, line: int, function) -> None:
    counters["frames"]["total"] += 1
    counters["frames"]["ok"] += 1
    if code:
        counters["graph_break"][f"{reason}: {detail}" if detail else reason] += 1
    for collect in collectors:
        collect(code, reason, detail, file, line, function)


_C.set_capture_listener(_on_end)
