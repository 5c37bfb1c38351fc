"""torch._dynamo.explain: runs a function once, compiled, and tells what became of it."""

from dataclasses import dataclass
from time import perf_counter
from traceback import FrameSummary
from typing import Any

from . import utils


@dataclass
class GraphCompileReason:
    """Why a graph ended where it did; user_stack: FrameSummary of the line."""

    reason: str
    user_stack: list
    graph_break: bool = True


@dataclass
class ExplainOutput:
    """What `explain` found. Unlike PyTorch's, out_guards are not there: None."""

    graphs: list
    graph_count: int
    graph_break_count: int
    break_reasons: list
    op_count: int
    ops_per_graph: list | None = None
    out_guards: Any = None
    compile_times: str | None = None

    def __str__(self) -> str:
        lines = [f"Graph Count: {self.graph_count}", f"Graph Break Count: {self.graph_break_count}"]
        lines += [f"Op Count: {self.op_count}", "Break Reasons:"]
        for number, reason in enumerate(self.break_reasons, 1):
            lines += [f"  Break Reason {number}:", f"    Reason: {reason.reason}", "    User Stack:"]
            lines += [f"      {frame}" for frame in reason.user_stack]
        lines.append("Ops per Graph:")
        for number, ops in enumerate(self.ops_per_graph or [], 1):
            lines += [f"  Ops {number}:", *(f"    {op}" for op in ops)]
        return "\n".join([*lines, f"Compile Times: {self.compile_times}", ""])


def explain(f, *extra_args, **extra_kwargs):
    """explain(f)(*args): f runs once with them, compiled anew, and the result tells its graphs and breaks."""
    from .eval_frame import OptimizeContext
    from .testing import EagerAndRecordGraphs

    def inner(*args, **kwargs) -> ExplainOutput:
        from .._compile import make_backend

        recorder, reasons = EagerAndRecordGraphs(), []

        def collect(code, reason, detail, file, line, function) -> None:
            if code:
                text = f"{reason}: {detail}" if detail else reason
                frame = FrameSummary(file, line, function, lookup_line=False)
                reasons.append(GraphCompileReason(text, [frame]))

        utils.collectors.append(collect)
        began = perf_counter()
        try:
            OptimizeContext(make_backend(recorder))(f)(*args, **kwargs)
        finally:
            utils.collectors.remove(collect)
        ops = [[n.target for n in g.graph.find_nodes(op="call_function")] for g in recorder.graphs]
        return ExplainOutput(
            recorder.graphs,
            len(ops),
            max(len(ops) - 1, 0),
            reasons,
            sum(map(len, ops)),
            ops,
            compile_times=f"{perf_counter() - began:.4f} s, the run included",
        )

    return utils.called_with("explain", inner, extra_args, extra_kwargs)
