"""_SplitterBase: a graph cut in turn into what an accelerator takes and what it leaves."""

from collections.abc import Iterable, Sequence
from copy import deepcopy as _deepcopy
from dataclasses import dataclass
from typing import Any, NamedTuple

from ... import inference_mode
from ...nn import Module
from ..graph_module import GraphModule
from ..node import Node
from .operator_support import OperatorSupportBase
from .shape_prop import ShapeProp
from .split_utils import move_non_tensor_nodes_on_boundary, split_by_tags
from .tools_common import CALLABLE_NODE_OPS as CALLS
from .tools_common import FxNetAccFusionsFinder, get_node_target, is_node_output_tensor

__all__ = [
    "FxNetAccNodesFinder", "FxNetSplitterInternalError", "SplitResult", "Subgraph", "generate_inputs_for_submodules",
]  # fmt: skip


class FxNetSplitterInternalError(Exception):
    """A graph that cannot be cut."""


class _SplitterSettingBase:
    """min_acc_module_size: smaller accelerated parts are given back; skip_fusion: parts need not keep together what
    passes numbers on; allow_non_tensor: the accelerator also takes and gives what is no tensor; max_acc_splits: more
    accelerated parts are an error (-1: any number); move_non_tensor_nodes_on_boundary: see there."""

    def __init__(
        self, min_acc_module_size: int = 1, skip_fusion: bool = False, allow_non_tensor: bool = False,
        max_acc_splits: int = -1, move_non_tensor_nodes_on_boundary: bool = False,
    ) -> None:  # fmt: skip
        self.min_acc_module_size, self.skip_fusion = min_acc_module_size, skip_fusion
        self.allow_non_tensor, self.max_acc_splits = allow_non_tensor, max_acc_splits
        self.move_non_tensor_nodes_on_boundary = move_non_tensor_nodes_on_boundary


class FxNetAccNodesFinder:
    """Called: the nodes that the accelerator takes. ShapeProp must have run: what gives no tensor to one of them, or
    takes none, is not among them unless allow_non_tensor."""

    def __init__(self, module: GraphModule, operator_support: OperatorSupportBase, allow_non_tensor: bool) -> None:
        self.module, self.operator_support, self.allow_non_tensor = module, operator_support, allow_non_tensor
        self.acc_nodes: set[Node] = set()

    def __call__(self) -> set[Node]:
        modules = dict(self.module.named_modules())
        support = self.operator_support
        calls = [node for node in self.module.graph.nodes if node.op in CALLS]
        self.acc_nodes = {node for node in calls if support.is_node_supported(modules, node)}
        if not self.allow_non_tensor:
            self.reduce_acc_nodes_non_tensor_input()
            self.reduce_acc_nodes_non_tensor_output()
        return self.acc_nodes

    def reduce_acc_nodes_non_tensor_input(self) -> None:
        """Gives back what reads something of the other side that is no tensor."""
        others = [node for node in self.module.graph.nodes if node.op in CALLS and node not in self.acc_nodes]
        self.reduce_acc_nodes_non_tensor_input_helper([node for node in others if not is_node_output_tensor(node)])

    def reduce_acc_nodes_non_tensor_input_helper(self, cpu_worklist: list[Node]) -> None:
        """Gives back what reads one of these, and so on."""
        while cpu_worklist:
            for user in cpu_worklist.pop(0).users:
                if user in self.acc_nodes:
                    self.acc_nodes.remove(user)
                    if not is_node_output_tensor(user):
                        cpu_worklist.append(user)

    def reduce_acc_nodes_non_tensor_output(self) -> None:
        """Gives back what gives something that is no tensor to the other side."""
        while given_back := [
            node
            for node in self.acc_nodes
            if not is_node_output_tensor(node) and any(user not in self.acc_nodes for user in node.users)
        ]:
            self.acc_nodes.difference_update(given_back)


@dataclass
class Subgraph:
    """Nodes that become one submodule."""

    is_acc: bool
    nodes: list[Node]
    device_ordinal: int | None = None


class SplitResult(NamedTuple):
    """The cut module, the inputs of each submodule, and what names of submodules that are left begin with."""

    split_module: GraphModule
    submodule_inputs: dict[str, Any]
    non_acc_submodule_prefix: str


def generate_inputs_for_submodules(
    model: Module, inputs: Sequence[Any], target_submodules: Iterable[str], deepcopy: bool = False
) -> dict[str, Any]:
    """What each of the submodules is given when the model runs on `inputs`; deepcopy: copies of it."""
    found, names = {}, {module: name for name, module in model.named_modules()}

    def note(module, given) -> None:
        found[names[module]] = _deepcopy(given) if deepcopy else given

    wanted = set(target_submodules)
    hooks = [module.register_forward_pre_hook(note) for name, module in model.named_modules() if name in wanted]
    try:
        with inference_mode():
            model(*inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return found


class _SplitterBase:
    """Called: the module cut into submodules _run_on_acc_N and _run_on_cpu_N, in turn. Subclasses say with `settings`
    and `operator_support` what the accelerator takes."""

    PCIe_BW = 100 * 2**30

    def __init__(
        self, module: GraphModule, sample_input: Sequence[Any], operator_support: OperatorSupportBase,
        settings: _SplitterSettingBase, non_acc_submodule_name: str = "_run_on_cpu_", return_tuple: bool = False,
        nodes_finder: FxNetAccNodesFinder | None = None,
    ) -> None:  # fmt: skip
        if not isinstance(module, GraphModule):
            raise AssertionError(f"Expected GraphModule, got {type(module)}")
        ShapeProp(module).propagate(*sample_input)
        self.module, self.sample_input, self.operator_support = module, sample_input, operator_support
        self.settings, self._return_tuple = settings, return_tuple
        self.non_acc_submodule_name, self.tags = non_acc_submodule_name, []
        self._node_submodule_map: dict[str, str] = {}
        self.nodes_finder = nodes_finder or FxNetAccNodesFinder(module, operator_support, settings.allow_non_tensor)
        self.acc_nodes = self.nodes_finder()
        self.fusions = {} if settings.skip_fusion else FxNetAccFusionsFinder(module, self.acc_nodes)()
        self.deps = self.find_deps()
        self.update_deps_for_fusions()

    # ---- who needs whom
    def _calls(self) -> list[Node]:
        return [node for node in self.module.graph.nodes if node.op in CALLS]

    def find_deps(self) -> dict[Node, set[Node]]:
        """For each call the calls that it reads."""
        return {node: {given for given in node.all_input_nodes if given.op in CALLS} for node in self._calls()}

    def update_deps_for_fusions(self) -> None:
        """Has what stands together need all that one of it needs."""
        for group in {id(group): group for group in self.fusions.values()}.values():
            needed = set().union(*(self.deps[node] for node in group)) - group
            for node in group:
                self.deps[node] |= needed

    def find_reverse_deps(self, tag_id: int | None = None) -> dict[Node, set[Node]]:
        """For each call the calls that read it; of tag_id's and later subgraphs alone where one is given."""
        wanted = self.tags if tag_id is None else self.tags[tag_id:]
        calls = [node for node in self._calls() if tag_id is None or getattr(node, "tag", None) in wanted]
        return {node: {user for user in node.users if user in calls} for node in calls}

    def find_parent_nodes_of_subgraph(self, tag: str) -> set[Node]:
        """What a subgraph reads of others."""
        own = [node for node in self._calls() if getattr(node, "tag", None) == tag]
        return {given for node in own for given in node.all_input_nodes if given.op in CALLS and given.tag != tag}

    def starter_nodes(self) -> tuple[set[Node], set[Node]]:
        """The calls that read inputs and attributes alone: those that are left, and those of the accelerator."""
        first = {node for node, needed in self.deps.items() if not needed}
        return first - self.acc_nodes, first & self.acc_nodes

    # ---- subgraphs
    def put_nodes_into_subgraphs(self) -> list[Subgraph]:
        """The calls in turn: as many as may run of one side, then as many of the other."""
        left, done, found = self._calls(), set(), []
        is_acc = not self.starter_nodes()[0]
        while left:
            part = Subgraph(is_acc, [])
            while ready := [n for n in left if (n in self.acc_nodes) is is_acc and self._may_run(n, done)]:
                part.nodes += ready
                done.update(ready)
                left = [node for node in left if node not in done]
            if part.nodes:
                found.append(part)
            elif found and not found[-1].nodes or not any(self._may_run(node, done) for node in left):
                raise FxNetSplitterInternalError(f"Couldn't create subgraphs: {left} need each other")
            is_acc = not is_acc
        place = self.module.graph._place
        for part in found:
            part.nodes.sort(key=place)
        return found

    def _may_run(self, node: Node, done: set) -> bool:
        group = self.fusions.get(node, ())
        return all(needed in done or needed in group for needed in self.deps[node])

    def remove_small_acc_subgraphs(self, subgraphs: list[Subgraph]) -> list[Subgraph]:
        """Gives accelerated subgraphs back that are smaller than the settings ask for, joined with those around."""
        kept: list[Subgraph] = []
        for part in subgraphs:
            is_acc = part.is_acc and len(part.nodes) >= self.settings.min_acc_module_size
            if kept and not is_acc and not kept[-1].is_acc:
                kept[-1].nodes.extend(part.nodes)
            else:
                kept.append(Subgraph(is_acc, list(part.nodes)))
        return kept

    def extend_acc_subgraph(self, tag: str) -> None:
        """Takes calls in that the accelerator could run, that only this subgraph reads, from those before it."""
        while more := [
            node
            for node in self.find_parent_nodes_of_subgraph(tag)
            if node in self.acc_nodes and all(getattr(user, "tag", None) == tag for user in node.users)
        ]:
            for node in more:
                node.tag = self._node_submodule_map[node.name] = tag

    def tag(self, subgraphs: list[Subgraph]) -> None:
        """Names the subgraphs, and sets each node's `tag`."""
        self.tags = []
        for number, part in enumerate(subgraphs):
            name = f"_run_on_acc_{number}" if part.is_acc else f"{self.non_acc_submodule_name}{number}"
            self.tags.append(name)
            for node in part.nodes:
                if hasattr(node, "tag"):
                    raise FxNetSplitterInternalError(f"Node {node} was already tagged")
                node.tag = self._node_submodule_map[node.name] = name

    def get_node_submodule_map(self) -> dict[str, str]:
        """Names of nodes to those of the submodules that they came to."""
        return self._node_submodule_map

    def split(self, remove_tag: bool = False) -> GraphModule:
        """The module cut along the tags; remove_tag: which are taken away."""
        made = split_by_tags(self.module, self.tags, return_tuple=self._return_tuple)
        for node in self.module.graph.nodes if remove_tag else ():
            if hasattr(node, "tag"):
                del node.tag
        return made

    def __call__(self) -> GraphModule:
        parts = self.remove_small_acc_subgraphs(self.put_nodes_into_subgraphs())
        accelerated = sum(part.is_acc for part in parts)
        print(f"Got {accelerated} acc subgraphs and {len(parts) - accelerated} non-acc subgraphs")
        if self.settings.move_non_tensor_nodes_on_boundary:
            move_non_tensor_nodes_on_boundary(parts)
        self.tag(parts)
        return self.split()

    def generate_split_results(self) -> SplitResult:
        """The cut module with the inputs of each part."""
        whole = self()
        names = [name for name, _ in whole.named_children()]
        accelerated = [name for name in names if not name.startswith(self.non_acc_submodule_name)]
        if 0 < self.settings.max_acc_splits < len(accelerated):
            raise ValueError(
                "Cannot fulfill max_acc_splits limit. "
                "This may cause split fragmentation and result in performance issues."
            )
        inputs = generate_inputs_for_submodules(whole, self.sample_input, names)
        return SplitResult(whole, inputs, self.non_acc_submodule_name)

    # ---- what a maker of a backend reads
    def _lower_model_to_backend(self, mod: GraphModule, inputs) -> Module:
        """What the accelerator makes of a part; a subclass says."""
        return mod

    def _find_culprit(self, mod: GraphModule, inputs) -> str:
        """Which call of a part fails; a subclass may look."""
        return "Unable to find a culprit because _find_culprit() function is not implemented."

    def node_support_preview(self, dump_graph: bool = False) -> str:
        """Prints and gives which kinds of calls are taken and which are left, with the dtypes of their arguments."""
        modules, kinds = dict(self.module.named_modules()), ({}, {})
        for node in self._calls():
            name, given = get_node_target(modules, node), (arg for arg in node.args if isinstance(arg, Node))
            places = tuple(dtype for dtype in map(_dtype_or_none, given) if dtype is not None)
            kinds[self.operator_support.is_node_supported(modules, node)][f"{name}: ({places}, {{}})"] = None
        text = "\nSupported node types in the model:\n" + "".join(f"{line}\n" for line in kinds[True])
        text += "\nUnsupported node types in the model:\n" + "".join(f"{line}\n" for line in kinds[False])
        print(text)
        return text

    def split_preview(self, dump_graph: bool = False) -> str:
        """Prints and gives how the module would be cut."""
        parts = self.remove_small_acc_subgraphs(self.put_nodes_into_subgraphs())
        accelerated = sum(part.is_acc for part in parts)
        text = f"Before removing small acc subgraphs, total {len(parts)} subgraphs are created: "
        text += f"{accelerated} acc subgraphs and {len(parts) - accelerated} cpu subgraphs.\n"
        for number, part in enumerate(parts):
            kind = "_run_on_acc_" if part.is_acc else self.non_acc_submodule_name
            text += f"{kind}{number}: {len(part.nodes)} node(s)\n"
        print(text)
        return text


def _dtype_or_none(node: Node):
    return getattr(node.meta.get("tensor_meta"), "dtype", None)
