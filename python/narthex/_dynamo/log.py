"""The capture engine's events as log lines, in PyTorch's words.

`event` is given to `_C.set_capture_log`: it is called with the name of an event and what belongs to it while a frame is
being captured. Every line is made from that; nothing here knows what a program does.
"""

import logging
import os

from .. import _logging

log = logging.getLogger(_logging.LOGS["dynamo"])
_VERBOSE = {"graph_code": "graph_code_verbose", "guards": "verbose_guards", "recompiles": "recompiles_verbose"}
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


class _Frame:
    """The frame in work: its compile id and the inputs seen so far."""

    id = None  # "0/0"; None between compilations
    inputs: list = []


_numbers: dict = {}  # id of a code object: [the code object, number of the frame, compilations so far]


def compile_id():
    """The id of the frame that is being compiled ("0/0"), None outside."""
    return _Frame.id


def _take_id(code) -> str:
    row = _numbers.setdefault(id(code), [code, len(_numbers), -1])
    row[2] += 1
    return f"{row[1]}/{row[2]}"


def _say(level: int, text: str) -> None:
    # stacklevel 2: the line of the handler below stands in the prefix.
    log.log(level, "%s", text, extra={"compile_id": _Frame.id}, stacklevel=2)


def _shown(name: str) -> str | None:
    """The artifact of that name or the verbose one, which says the same, whichever is on."""
    verbose = _VERBOSE.get(name)
    return name if _logging.enabled(name) else verbose if verbose and _logging.enabled(verbose) else None


def _artifact(name: str, text: str) -> None:
    shown = _shown(name)
    if shown:
        _logging.artifact("dynamo", shown, text, _Frame.id, stacklevel=3)


def _stack_text(stack: list) -> tuple:
    """(text of the program's frames as a traceback shows them, outermost first; number of Narthex's own frames)."""
    from linecache import getline

    lines, elided = [], 0
    for file, line, function in stack:
        if file.startswith(_PACKAGE) or file.startswith("<frozen "):
            elided += 1
            continue
        lines.append(f'  File "{file}", line {line}, in {function}')
        source = getline(file, line).strip()
        if source:
            lines.append("    " + source)
    return "\n".join(lines), elided


def _on_start(code, filename: str, line: int, name: str, stack) -> None:
    _Frame.id, _Frame.inputs = _take_id(code), []
    text, elided = _stack_text(stack or [])
    _say(
        logging.DEBUG,
        f"torchdynamo start compiling {name} {filename}:{line}, stack (elided {elided} frames):\n{text}\n",
    )
    _say(logging.INFO, f"Step 1: torchdynamo start tracing {name} {filename}:{line}")


def _on_create_env(name: str) -> None:
    _say(logging.INFO, "create_env")


def _on_line(filename: str, lineno: int, function: str, qualname: str) -> None:
    from linecache import getline

    text = getline(filename, lineno).rstrip("\n")
    owner = qualname.rpartition("<locals>.")[2]
    _artifact("trace_source", f"TRACE starts_line {filename}:{lineno} in {function} ({owner})\n    {text}")


def _on_opcode(name: str, argrepr, stack: list) -> None:
    _artifact("trace_bytecode", f"TRACE {name} {argrepr} [{', '.join(stack)}]")


def _on_input(name: str, source: str) -> None:
    _say(logging.DEBUG, f"create_graph_input {name} {source}")


def _on_fake(source: str, shape: tuple, varying: tuple, fake) -> None:
    _Frame.inputs.append((source, fake))
    kinds = ", ".join("<DimDynamic.DUCK: 1>" if open_ else "<DimDynamic.STATIC: 2>" for open_ in varying)
    _say(logging.DEBUG, f"wrap_to_fake {source} {shape} StatefulSymbolicContext(dynamic_sizes=[{kinds}]) {fake!r}")


def _on_done(name: str, reason: str) -> None:
    _say(logging.INFO, f"Step 1: torchdynamo done tracing {name} ({reason})")
    _say(logging.DEBUG, f"{reason} triggered compile")


def _on_compile(reason: str, user_stack: list) -> None:
    frames = ", ".join(f"<FrameSummary file {file}, line {line} in {function}>" for file, line, function in user_stack)
    is_break = reason != "return_value"
    text = f"GraphCompileReason(reason={reason!r}, user_stack=[{frames}], graph_break={is_break})"
    _say(logging.DEBUG, f"COMPILING GRAPH due to {text}")


def _on_graph(graph, name: str) -> None:
    title = f" ===== {name} ====="
    if _shown("graph_code"):
        from ..fx import GraphModule

        code = GraphModule(graph).print_readable(print_output=False)
        _artifact("graph_code", f"TRACED GRAPH\n{title}\n {code}\n")
    if _shown("graph"):
        _artifact("graph", f"TRACED GRAPH\n{title}\n{graph.text()}\n")
    if _shown("graph_sizes"):
        sizes = [(node.name, getattr(node.value, "shape", None)) for node in graph.nodes if node.op != "output"]
        rows = [f"{name}: {tuple(shape)}" for name, shape in sizes if shape is not None]
        _artifact("graph_sizes", "\n".join(["TRACED GRAPH TENSOR SIZES", title, *rows]) + "\n")


def _on_call_backend(backend, name: str) -> None:
    _say(logging.INFO, f"Step 2: calling compiler function {backend!r}")


def _on_backend_done(backend, name: str) -> None:
    _say(logging.INFO, f"Step 2: done compiler function {backend!r}")


def _on_guards(guards: list) -> None:
    _say(logging.INFO, "produce_guards")
    facts = []
    for source, value in _Frame.inputs:
        facts += [(f"{source}.size()[{at}]", size) for at, size in enumerate(value.shape)]
        facts += [(f"{source}.stride()[{at}]", step) for at, step in enumerate(value.stride())]
        facts.append((f"{source}.storage_offset()", value.storage_offset()))
    for name, value in facts:
        _say(logging.DEBUG, f"track_symint {name} {value} None")
    for name, value in facts:
        _say(logging.DEBUG, f"Skipping guard {name} == {value}")
    _artifact("guards", "GUARDS:")
    for text, code, where in guards:
        _artifact("guards", text + (f"  # {code}  # {where}" if where else ""))


def _on_break(code: str, reason: str, detail, filename, line: int, mend: str) -> None:
    why = reason + (f": {detail}" if detail else "")
    _artifact("graph_breaks", f"Graph break in user code at {filename}:{line}\n  Reason: {code}: {why}\n  Hint: {mend}")


def _on_recompile(reason) -> None:
    _artifact("recompiles", f"Recompiling: a guard failed:\n    - {reason}")


def _on_run(name: str, guards_ns: int = 0) -> None:
    """A compiled piece runs for the first time; nothing is said of it."""


def _on_ran(name: str) -> None:
    """It has run."""


_HANDLERS = {name[4:]: function for name, function in list(globals().items()) if name.startswith("_on_")}


def event(name: str, /, **info) -> None:
    """Writes the lines of one event; see the module's head."""
    _HANDLERS[name](**info)
