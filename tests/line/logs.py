"""What the end-to-end programs must log, as patterns in order, made from a program's names, shape and operator."""

from __future__ import annotations

import re
from dataclasses import dataclass

KEYS = r"DispatchKeySet\(PrivateUse1, BackendSelect, ADInplaceOrView, AutogradPrivateUse1\)"


@dataclass(frozen=True)
class Program:
    """The facts of a program that its log has to show."""

    path: str
    mode: str
    names: tuple[str, ...] = ("x", "y")
    shape: tuple[int, ...] = (2, 2)
    op: str = "add"
    model: str = "Model"

    @property
    def brief(self) -> str:
        return "f32" + str(list(self.shape))


def expected_lines(program: Program) -> list[str]:
    """Regular expressions of log lines, without their prefix, in the order in which they must come."""
    first, second = program.names
    size, call = str(program.shape), f"torch.{program.op}({first}, {second})"
    line = rf"{re.escape(program.path)}:\d+"
    frame = rf"forward {line}"
    sure = re.escape
    lines = [
        rf"torchdynamo start compiling {frame}, stack \(elided \d+ frames\):",
        rf'  File "{sure(program.path)}", line \d+, in <module>',
        r"    out = opt_model\(.*",
        rf"Step 1: torchdynamo start tracing {frame}",
        "create_env",
        rf"TRACE starts_line {line} in forward \({program.model}\.forward\)",
        rf" +def forward\(self, {first}, {second}\):",
        r"TRACE RESUME 0 \[\]",
        rf"TRACE starts_line {line} in forward \({program.model}\.forward\)",
        rf" +return {sure(call)}",
        r"TRACE LOAD_GLOBAL torch \[\]",
        rf"TRACE LOAD_(METHOD|ATTR) {program.op} \[.+\]",
        rf"TRACE LOAD_FAST {first} \[.+\]",
        rf"TRACE LOAD_FAST {second} \[.+\]",
        r"TRACE CALL 2 \[.+\]",
        r"TRACE RETURN_VALUE None \[.+\]",
        r"Step 1: torchdynamo done tracing forward \(RETURN_VALUE\)",
        "RETURN_VALUE triggered compile",
        r"COMPILING GRAPH due to GraphCompileReason\(reason='return_value', .*",
        "TRACED GRAPH",
        r" ===== __compiled_fn_\d+ =====",
        r" class GraphModule\(torch\.nn\.Module\):",
        rf"\s*def forward\(self, L_{first}_.*, L_{second}_.*",
        rf"\s*# File: {line} in forward, code: return {sure(call)}",
        rf"\s*{program.op}.* = torch\.{program.op}\(l_{first}_, l_{second}_\);  l_{first}_ = l_{second}_ = None",
        "TRACED GRAPH TENSOR SIZES",
        rf"l_{first}_: {sure(size)}",
        rf"l_{second}_: {sure(size)}",
        r"Step 2: calling compiler function functools\.partial\(.*",
        "TRACED GRAPH",
        r" ===== Forward graph \d+ =====",
        r" class <lambda>\(torch\.nn\.Module\):",
        rf'\s*def forward\(self, arg0_1: "{sure(program.brief)}.*", arg1_1: "{sure(program.brief)}.*"\):',
        rf'\s*{program.op}: "{sure(program.brief)}.*" = '
        rf"torch\.ops\.aten\.{program.op}\.Tensor\(arg0_1, arg1_1\);"
        r"  arg0_1 = arg1_1 = None",
        "compiler inputs",
        rf"  input 0: FakeTensor\(\.\.\., device='npu:0', size={sure(size)}\)",
        rf"  input 1: FakeTensor\(\.\.\., device='npu:0', size={sure(size)}\)",
        r"  graph: graph\(.*",
        r"Step 2: done compiler function .*",
        "produce_guards",
        rf"track_symint L\['{first}'\]\.size\(\)\[0\] {program.shape[0]} None",
        rf"Skipping guard L\['{first}'\]\.size\(\)\[0\] == {program.shape[0]}",
        "GUARDS:",
    ]
    if program.mode == "reduce-overhead":
        lines.append(r"Success to capture fx graph\[id: \d+\] and start to run AclGraph\[id: \d+\]\.")
    else:
        lines += [
            "Initializing GE with options:",
            r"start compile graph: graph_1\.",
            r"end compile graph: graph_1 and start run graph\.",
        ]
    return lines


def anywhere(program: Program) -> list[str]:
    """Lines whose place is free: inputs appear when the frame first reads them, guards come in any order."""
    sure = re.escape
    out = []
    for name in program.names:
        out.append(rf"create_graph_input L_{name}_ L\['{name}'\].*")
        out.append(rf"wrap_to_fake L\['{name}'\] {sure(str(program.shape))} .*")
        facts = rf"size={sure(str(list(program.shape)))}, stride=\[.*\]"
        out.append(
            rf".*check_tensor\(L\['{name}'\], Tensor, {KEYS}, torch\.float32, device=0, "
            rf"requires_grad=False, {facts}\)  # return torch\.{program.op}\(.*\)  # .*:\d+ in forward"
        )
    out.append(r".*utils_device\.CURRENT_DEVICE == None.*")
    out.append(r".*___check_current_backend\(\d+\).*")
    return out


OURS = r"[VIWEDC]\d{4} \d\d:\d\d:\d\d\.\d{6} \d+ \S+:\d+\](?: \[\d+/\d+\])?(?: \[__\w+\])?"
TORCHAIRS = r"\[INFO\] TORCHAIR\(\d+,[\w.]+\):[\d-]{11}[\d:]{8}\.\d{3}\.\d{3} \[\w+\.py:\d+\]\d+"
PREFIX = re.compile(f"^(?:{OURS}|{TORCHAIRS}) ?")


def check_log(program: Program, log: str) -> None:
    """Raises AssertionError that names the first line that is missing."""
    lines = [PREFIX.sub("", line, count=1) for line in log.splitlines() if PREFIX.match(line)]
    assert lines, f"no log lines on stderr:\n{log[-3000:]}"
    assert re.search(f"^{TORCHAIRS} compiler inputs$", log, re.MULTILINE), log[-6000:]
    assert re.search(r"^I\d{4} .* \[__aot_graphs\]  ===== Forward graph 0 =====$", log, re.MULTILINE), log[-6000:]
    at = 0
    for pattern in expected_lines(program):
        while at < len(lines) and not re.fullmatch(pattern, lines[at]):
            at += 1
        assert at < len(lines), f"not logged, or not in its place: {pattern}\n{log[-6000:]}"
        at += 1
    for pattern in anywhere(program):
        assert any(re.fullmatch(pattern, line) for line in lines), f"not logged: {pattern}\n{log[-6000:]}"
