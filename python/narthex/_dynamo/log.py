"""The capture engine's events as log lines, in PyTorch's words.

`event` is given to `_C.set_capture_log`: it is called with the name of an event and what belongs to it while a frame is
being captured. Every line is made from that; nothing here knows what a program does.
"""

import logging

from .. import _logging

log = logging.getLogger("torch._dynamo")
_current = [None]  # compile id of the frame in work, for lines that are written between events


def compile_id():
    """The id of the frame that is being compiled ("0/0"), None outside."""
    return _current[0]


def _say(level: int, text: str) -> None:
    # stacklevel 2: the line of the handler below stands in the prefix.
    log.log(level, "%s", text, extra={"compile_id": _current[0]}, stacklevel=2)


def _artifact(name: str, text: str) -> None:
    _logging.artifact("dynamo", name, text, _current[0], stacklevel=3)


def _stack_text(stack) -> str:
    """Frames as a traceback shows them, outermost first, each with its source line."""
    from linecache import getline

    lines = []
    for file, line, function in stack:
        lines.append(f'  File "{file}", line {line}, in {function}')
        source = getline(file, line).strip()
        if source:
            lines.append("    " + source)
    return "\n".join(lines)


def _on_start(info: dict) -> None:
    where = f"{info['name']} {info['file']}:{info['line']}"
    stack = list(info.get("stack") or ())
    elided = f" (elided {info['elided']} frames)" if "elided" in info else " (elided 0 frames)"
    _say(logging.DEBUG, f"torchdynamo start compiling {where}, stack{elided}:\n{_stack_text(stack)}\n")
    _say(logging.INFO, f"Step 1: torchdynamo start tracing {where}")


def _on_create_env(info: dict) -> None:
    _say(logging.INFO, "create_env")


def _on_line(info: dict) -> None:
    from linecache import getline

    code = info.get("code") or getline(info["file"], info["line"]).rstrip("\n")
    name = info["function"]
    _artifact(
        "trace_source",
        f"TRACE starts_line {info['file']}:{info['line']} in {name} ({info.get('qualname') or name})\n    {code}",
    )


def _value_text(value) -> str:
    return value if isinstance(value, str) else type(value).__name__


def _on_opcode(info: dict) -> None:
    stack = "[" + ", ".join(_value_text(value) for value in info.get("stack") or ()) + "]"
    _artifact("trace_bytecode", f"TRACE {info['opname']} {info.get('arg')} {stack}")


def _on_input(info: dict) -> None:
    value = f" {info['value']!r}" if info.get("value") is not None else ""
    _say(logging.DEBUG, f"create_graph_input {info['name']} {info['source']}{value}")


def _on_fake(info: dict) -> None:
    sizes = tuple(info["sizes"])
    dims = ", ".join("<DimDynamic.STATIC: 2>" for _ in sizes)
    text = (
        f"wrap_to_fake {info['source']} {sizes} StatefulSymbolicContext(dynamic_sizes=[{dims}]) {info.get('type', '')}"
    )
    _say(logging.DEBUG, text.rstrip())


def _on_done(info: dict) -> None:
    _say(logging.INFO, f"Step 1: torchdynamo done tracing {info['name']} ({info['reason']})")
    _say(logging.DEBUG, f"{info['reason']} triggered compile")


def _on_compile(info: dict) -> None:
    frames = ", ".join(
        f"<FrameSummary file {file}, line {line} in {function}>" for file, line, function in info.get("stack") or ()
    )
    is_break = bool(info.get("graph_break", False))
    reason = f"GraphCompileReason(reason='{info['reason']}', user_stack=[{frames}], graph_break={is_break})"
    _say(logging.DEBUG, f"COMPILING GRAPH due to {reason}")


def _on_graph(info: dict) -> None:
    graph, name = info["graph"], info["name"]
    title = f" ===== {name} ====="
    if _logging.enabled("graph_code"):
        _artifact("graph_code", f"TRACED GRAPH\n{title}\n{graph.python(shapes=True, lines=True)}\n")
    if _logging.enabled("graph"):
        _artifact("graph", f"TRACED GRAPH\n{title}\n{graph.text()}\n")
    if _logging.enabled("graph_sizes"):
        rows = [f"{node.name}: {tuple(value.shape)}" for node, value in sized_nodes(graph)]
        _artifact("graph_sizes", "\n".join(["TRACED GRAPH TENSOR SIZES", title, *rows]) + "\n")


def sized_nodes(graph):
    """(node, tensor) for the nodes of a graph that make one tensor."""
    from ..fx import Graph

    for node in Graph(graph).nodes:
        value = node.meta.get("val")
        if value is not None and hasattr(value, "shape") and node.op != "output":
            yield node, value


def _on_call_backend(info: dict) -> None:
    _say(logging.INFO, f"Step 2: calling compiler function {describe_backend(info['backend'])}")


def _on_backend_done(info: dict) -> None:
    _say(logging.INFO, f"Step 2: done compiler function {describe_backend(info['backend'])}")


def describe_backend(backend) -> str:
    """A backend as the user gave it: a partial in full, a function by its name."""
    backend = getattr(backend, "backend", backend)
    if isinstance(backend, str):
        return backend
    return getattr(backend, "__name__", None) or repr(backend)


def _on_guards(info: dict) -> None:
    inputs = info.get("inputs") or ()
    _say(logging.INFO, "produce_guards")
    facts = []
    for source, value in inputs:
        facts += [(f"{source}.size()[{at}]", size) for at, size in enumerate(value.shape)]
        facts += [(f"{source}.stride()[{at}]", step) for at, step in enumerate(value.stride())]
        facts.append((f"{source}.storage_offset()", value.storage_offset()))
    for name, value in facts:
        _say(logging.DEBUG, f"track_symint {name} {value} None")
    for name, value in facts:
        _say(logging.DEBUG, f"Skipping guard {name} == {value}")
    _artifact("guards", "GUARDS:")
    for guard in info["guards"]:
        _artifact("guards", _guard_text(guard))


def _guard_text(guard) -> str:
    """A guard and, as a comment, the line of the program that brought it about."""
    if isinstance(guard, str):
        return guard
    text = guard["code"]
    if guard.get("file"):
        from linecache import getline

        source = guard.get("user_code") or getline(guard["file"], guard["line"]).strip()
        text += f"  # {source}  # {guard['file']}:{guard['line']} in {guard.get('function') or '<module>'}"
    return text


def _on_break(info: dict) -> None:
    where = f"{info.get('file')}:{info.get('line')} in {info.get('function')}"
    hint = f"\n  Hint: {info['hint']}" if info.get("hint") else ""
    _artifact("graph_breaks", f"Graph break in user code at {where}\n  Reason: {info['reason']}{hint}")


def _on_recompile(info: dict) -> None:
    reasons = "\n".join(f"    - {reason}" for reason in info.get("reasons") or ())
    where = f"{info['name']} in {info.get('file')}:{info.get('line')}"
    _artifact(
        "recompiles", f"Recompiling function {where}\n    triggered by the following guard failure(s):\n{reasons}"
    )


_HANDLERS = {name[4:]: function for name, function in list(globals().items()) if name.startswith("_on_")}


def event(name: str, info: dict) -> None:
    """Writes the lines of one event; see the module's head."""
    ident = info.get("id")
    _current[0] = None if ident is None else f"{ident[0]}/{ident[1]}" if isinstance(ident, tuple) else str(ident)
    _HANDLERS[name](info)
