"""FxGraphDrawer: a graph as Graphviz's text, and as SVG where its `dot` is installed."""

import shutil
import subprocess

from ..node import _target_text

_COLORS = {"placeholder": "AliceBlue", "output": "AliceBlue", "get_attr": "LightGrey", "call_module": "PowDerBlue",
           "call_function": "CadetBlue1", "call_method": "LemonChiffon1"}  # fmt: skip


class FxGraphDrawer:
    """Draws the graph of a GraphModule: one box a node with its op, target and, where ShapeProp noted them,
    shapes."""

    def __init__(
        self,
        graph_module,
        name: str,
        ignore_getattr: bool = False,
        ignore_parameters_and_buffers: bool = False,
        **options,
    ) -> None:
        self.graph_module, self.name = graph_module, name
        self.ignored = {"get_attr"} if ignore_getattr or ignore_parameters_and_buffers else set()

    def get_dot_graph(self, submod_name: str | None = None) -> "Dot":
        """The drawing."""
        lines = [f'digraph "{self.name}" {{', "  rankdir=TB; node [shape=record, style=filled];"]
        for node in self.graph_module.graph.nodes:
            if node.op in self.ignored:
                continue
            parts = [f"name=%{node.name}", f"op_code={node.op}", f"target={_target_text(node.target)}"]
            meta = node.meta.get("tensor_meta")
            if hasattr(meta, "shape"):
                parts += [f"dtype={meta.dtype}", f"shape={tuple(meta.shape)}"]
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
