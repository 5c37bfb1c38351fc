"""FxGraphDrawer: a graph as Graphviz's text, and as SVG where its `dot` is installed."""

import shutil
import subprocess

from ..graph_module import GraphModule
from ..node import _target_text

_COLORS = {"placeholder": "AliceBlue", "output": "AliceBlue", "get_attr": "LightGrey", "call_module": "PowDerBlue",
           "call_function": "CadetBlue1", "call_method": "LemonChiffon1"}  # fmt: skip


class FxGraphDrawer:
    """Draws the graph of a GraphModule and those inside of it: one box a node with its op, target and, where ShapeProp
    noted them, shapes. parse_stack_trace: with the line of the program; dot_graph_shape: the boxes' shape (record); the
    other options change nothing."""

    def __init__(
        self,
        graph_module,
        name: str,
        ignore_getattr: bool = False,
        ignore_parameters_and_buffers: bool = False,
        skip_node_names_in_args: bool = True,
        parse_stack_trace: bool = False,
        dot_graph_shape: str | None = None,
        normalize_args: bool = False,
    ) -> None:
        self.graph_module, self.name = graph_module, name
        self.ignored = {"get_attr"} if ignore_getattr or ignore_parameters_and_buffers else set()
        self.parse_stack_trace, self.shape = parse_stack_trace, dot_graph_shape or "record"

    def get_all_dot_graphs(self) -> dict[str, "Dot"]:
        """The drawings of the module and of all graphs inside, by their names."""
        found = {self.name: self.get_main_dot_graph()}
        for path, module in self.graph_module.named_modules():
            if path and isinstance(module, GraphModule):
                name = f"{self.name}_{path.replace('.', '_')}"
                found[name] = self._drawn(module, name)
        return found

    def get_main_dot_graph(self) -> "Dot":
        """The drawing of the module's own graph."""
        return self._drawn(self.graph_module, self.name)

    def get_submod_dot_graph(self, submod_name: str) -> "Dot":
        """The drawing of a graph inside, by a name of get_all_dot_graphs()."""
        return self.get_all_dot_graphs()[submod_name]

    def get_dot_graph(self, submod_name: str | None = None) -> "Dot":
        """The module's drawing, or that of a graph inside."""
        return self.get_main_dot_graph() if submod_name is None else self.get_submod_dot_graph(submod_name)

    def _drawn(self, module: GraphModule, name: str) -> "Dot":
        lines = [f'digraph "{name}" {{', f"  rankdir=TB; node [shape={self.shape}, style=filled];"]
        for node in module.graph.nodes:
            if node.op in self.ignored:
                continue
            parts = [f"name=%{node.name}", f"op_code={node.op}", f"target={_target_text(node.target)}"]
            meta = node.meta.get("tensor_meta")
            if hasattr(meta, "shape"):
                parts += [f"dtype={meta.dtype}", f"shape={tuple(meta.shape)}"]
            if self.parse_stack_trace and node.stack_trace:
                parts.append(f"file={node.stack_trace.strip().splitlines()[0].strip()}")
            label = "\\n".join(_escaped(part) for part in parts)
            lines.append(f'  "{node.name}" [label="{{{label}}}", fillcolor="{_COLORS.get(node.op, "white")}"];')
            lines += [
                f'  "{given.name}" -> "{node.name}";' for given in node.all_input_nodes if given.op not in self.ignored
            ]
        return Dot("\n".join([*lines, "}"]) + "\n")


class Dot:
    """Text in Graphviz's language."""

    def __init__(self, text: str) -> None:
        self.text = text

    def to_string(self) -> str:
        """The text."""
        return self.text

    def write_dot(self, path: str) -> None:
        """Writes the text."""
        with open(path, "w") as file:
            file.write(self.text)

    def create_svg(self) -> bytes:
        """The drawing by the program `dot`."""
        if shutil.which("dot") is None:
            raise RuntimeError(
                "drawing needs the program `dot` (Debian: apt install graphviz); write_dot() writes its input"
            )
        return subprocess.run(["dot", "-Tsvg"], input=self.text.encode(), capture_output=True, check=True).stdout

    def write_svg(self, path: str) -> None:
        """Writes the drawing."""
        with open(path, "wb") as file:
            file.write(self.create_svg())


def _escaped(text: str) -> str:
    return "".join("\\" + c if c in '{}<>|"\\' else c for c in text)
