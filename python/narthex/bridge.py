"""torch.compile(model, backend="narthex") inside PyTorch itself.

PyTorch captures and differentiates (AOTAutograd); each of its ATen graphs, forward and backward, becomes text of a
Narthex graph and is compiled by the engine. Tensors go over by DLPack: the memory is PyTorch's on the way in and
Narthex's on the way out, and nothing is copied. Random numbers are drawn where PyTorch's generator stands. What
Narthex lacks is run by PyTorch between graphs of the engine, and `report()` lists it. A size that PyTorch leaves open
is filled in at each call: the graph is compiled once for each set of sizes.
"""

import operator
import sys

from . import _C
from ._bridge_graph import (
    Sizes,
    Unsupported,
    Writer,
    is_random,
    is_split,
    is_symbolic,
    is_tensor,
    is_view,
    operator_name,
    stages,
    user_line,
)

MOST_SIZES = 256  # programs that one graph keeps, each for other sizes

_outside: list = []
_inside = [0]


def report() -> list:
    """What ran outside the engine: a dict for each such node with node, operator, reason and the user's line."""
    return list(_outside)


def compiled_graphs() -> int:
    """How many graphs the engine compiled for PyTorch."""
    return _inside[0]


# ---- one stage -------------------------------------------------------------------------------------------------------
def _inputs_of(node) -> list:
    """The nodes whose values the statement of `node` reads."""
    if node.target is operator.getitem and is_split(node.args[0]):
        return [node.args[0].args[0]]
    if is_split(node) or is_symbolic(node.meta.get("val")):
        return []
    return node.all_input_nodes


def _boundary(nodes, used_after) -> tuple:
    """(inputs, outputs) of a stage: tensor nodes from before, and those of its own that others need."""
    own = set(nodes)
    inputs = {item: None for node in nodes for item in _inputs_of(node) if item not in own and is_tensor(item)}
    return list(inputs), [node for node in nodes if node in used_after and is_tensor(node)]


def _stage_text(nodes, inputs, outputs, sizes) -> str:
    writer, lines = Writer(sizes, inputs), ["graph functional {"]
    for node in inputs:
        lines.append(f'  %{node.name} = placeholder "{node.name}" : {writer.type(node.meta["val"])}')
    for node in nodes:
        text = writer.statement(node)
        if text:
            line = user_line(node)
            lines.append(f"  %{node.name} = call {text}" + (f"  # {line}" if line else ""))
    lines.append("  return (" + ", ".join(map(writer.value, outputs)) + ")")
    return "\n".join(lines) + "\n}\n"


def _compile_text(text, mode):
    return _C.Graph.parse(text).aot(False).compile(mode, _C.device("cpu"))


def _torch_stage(nodes, inputs, outputs, sizes):
    """The stage as a GraphModule of PyTorch that takes the inputs and gives a tuple."""
    import torch
    from torch.fx.node import map_aggregate

    graph, made = torch.fx.Graph(), {}
    for node in inputs:
        made[node] = graph.placeholder(node.name)

    def there(item):
        if isinstance(item, torch.fx.Node):
            return made[item] if item in made else sizes.number(item.meta["val"])
        return sizes.number(item)

    for node in nodes:
        if not is_symbolic(node.meta.get("val")):
            arguments, keywords = map_aggregate(node.args, there), map_aggregate(node.kwargs, there)
            made[node] = graph.create_node(node.op, node.target, arguments, keywords, node.name)
            made[node].meta = node.meta
    graph.output(tuple(made[node] for node in outputs))
    return torch.fx.GraphModule({}, graph)


def _raise_for_node(error, gm, values) -> None:
    """A RuntimeError that names the node at which PyTorch fails as well, or the operator that ours names."""
    import torch

    class Finder(torch.fx.Interpreter):
        at = None

        def run_node(self, n):
            self.at = n
            return super().run_node(n)

    finder = Finder(gm)
    finder.extra_traceback = False
    state = torch.get_rng_state()
    try:
        with torch.no_grad():
            finder.run(*values)
    except Exception as theirs:
        node = finder.at
        line = user_line(node)
        text = f"narthex: {node.name} = {operator_name(node)}: {theirs}" + (f"\n  at {line}" if line else "")
        raise RuntimeError(text) from error
    finally:
        torch.set_rng_state(state)
    raise RuntimeError(f"narthex: a graph of {len(gm.graph.nodes)} nodes: {error}") from error


class _Inside:
    """A stage that the engine runs: PyTorch's tensors in, PyTorch's tensors out."""

    def __init__(self, compiled, gm, draws: bool) -> None:
        self.compiled, self.gm, self.draws = compiled, gm, draws

    def __call__(self, values) -> list:
        try:
            given = [_from_torch(value) for value in values]
            made = self._draw(given) if self.draws else self.compiled(*given)
        except MemoryError:
            raise
        except Exception as error:
            _raise_for_node(error, self.gm, values)
        return [_to_torch(value) for value in made]

    def _draw(self, given):
        """Runs with the state of PyTorch's generator, which then stands where ours does."""
        import torch

        ours = _C.default_generator
        ours.set_state(_from_torch(torch.get_rng_state()))
        made = self.compiled(*given)
        torch.set_rng_state(_to_torch(ours.get_state()))
        return made


class _Outside:
    """A stage that PyTorch runs."""

    def __init__(self, gm) -> None:
        self.run = gm.forward

    def __call__(self, values) -> tuple:
        return self.run(*values)


def _from_torch(value):
    return _C.from_dlpack(sys.modules["torch"]._C._to_dlpack(value))


def _to_torch(value):
    return sys.modules["torch"]._C._from_dlpack(value.__dlpack__())


# ---- a graph for one set of sizes ------------------------------------------------------------------------------------
def _input_viewed(node):
    """The placeholder that `node` is a view of with the same element type, or None."""
    root = node
    while is_view(root):
        root = root.args[0].args[0] if root.target is operator.getitem else root.args[0]
    same = root is not node and root.op == "placeholder" and root.meta["val"].dtype == node.meta["val"].dtype
    return root if same else None


class _Program:
    """Stages in order over a list of slots, one a value.

    A result that is an input is handed through and one that is a view of an input is taken by PyTorch, which then
    knows that they share memory; a result that is no tensor (a gradient that is None, a size) is a constant.
    """

    def __init__(self, gm, sizes: Sizes, mode: str) -> None:
        self.gm, self.sizes, self.mode = gm, sizes, mode
        nodes = list(gm.graph.nodes)
        self.reasons: dict = {}
        self.sources = [node for node in nodes if node.op in ("placeholder", "get_attr")]
        self.sources.sort(key=lambda node: node.op == "get_attr")
        self.constants = [getattr(gm, node.target) for node in self.sources if node.op == "get_attr"]
        self.calls = [node for node in nodes if node.op not in ("placeholder", "output", "get_attr")]
        self.results = [item if hasattr(item, "op") else None for item in nodes[-1].args[0]]
        self.views = {item: _input_viewed(item) for item in self.results if item is not None and is_tensor(item)}
        writer = Writer(sizes)
        for node in self.calls:
            self._classify(node, writer)
        while not self._plan():
            pass
        self._count()

    def _classify(self, node, writer) -> None:
        source = node.args[0] if node.target is operator.getitem else node
        try:
            writer.statement(node)
            for item in filter(is_tensor, _inputs_of(node)):
                writer.type(item.meta["val"])
        except Unsupported as problem:
            self.reasons.setdefault(source, str(problem))

    def _plan(self) -> bool:
        """Fills slots and steps. False: the engine refused a node, which is outside from now on."""
        self.slot = {node: at for at, node in enumerate(self.sources)}
        self.steps, order = [], stages(self.calls, self.reasons)
        wanted = {item for item in self.results if item is not None and not self.views.get(item)}
        for at, (nodes, inside) in enumerate(order):
            after = {item for later, _ in order[at + 1 :] for node in later for item in _inputs_of(node)}
            inputs, outputs = _boundary(nodes, after | wanted)
            writes = any(getattr(getattr(node.target, "_schema", None), "is_mutable", False) for node in nodes)
            if not outputs and not writes:
                continue
            gm = _torch_stage(nodes, inputs, outputs, self.sizes)
            step = self._inside(nodes, inputs, outputs, gm) if inside else _Outside(gm)
            if step is None:
                return False
            for node in outputs:
                self.slot[node] = len(self.slot)
            self.steps.append((step, [self.slot[node] for node in inputs], [self.slot[node] for node in outputs]))
        self.returned = [self._returned(item) for item in self.results]
        self._find_last_uses()
        return True

    def _inside(self, nodes, inputs, outputs, gm):
        """The stage compiled; None after the nodes that cannot be are put outside."""
        try:
            compiled = _compile_text(_stage_text(nodes, inputs, outputs, self.sizes), self.mode)
            return _Inside(compiled, gm, any(map(is_random, nodes)))
        except (NotImplementedError, RuntimeError, TypeError, ValueError) as problem:
            refused = {node: text for node in nodes if (text := self._refusal(node))}
            for node in nodes if not refused else refused:
                source = node.args[0] if node.target is operator.getitem else node
                self.reasons.setdefault(source, refused.get(node, str(problem)))
            return None

    def _refusal(self, node) -> str:
        """Why the engine cannot take a graph of this node alone; "" if it can."""
        if not Writer(self.sizes).statement(node):
            return ""
        inputs = [item for item in _inputs_of(node) if is_tensor(item)]
        outputs = [node] if is_tensor(node) else [item for item in node.users if item.target is operator.getitem]
        try:
            _compile_text(_stage_text([node], inputs, outputs, self.sizes), self.mode)
        except (NotImplementedError, RuntimeError, TypeError, ValueError) as problem:
            return str(problem)
        return ""

    def _returned(self, item):
        """How a result is had from the slots: (slot, None), (slot, geometry of a view) or (None, constant)."""
        if item is None:
            return None, None
        base = self.views.get(item)
        if base is None:
            return (self.slot[item], None) if item in self.slot else (None, self.sizes.number(item.meta["val"]))
        value, whole = item.meta["val"], base.meta["val"]
        number = self.sizes.number
        size, stride = tuple(map(number, value.shape)), tuple(map(number, value.stride()))
        return self.slot[base], (size, stride, number(value.storage_offset()) - number(whole.storage_offset()))

    def _find_last_uses(self) -> None:
        """Slots that no step and no result reads any more are emptied, so that their memory is free."""
        kept, last = {slot for slot, _ in self.returned}, {}
        for at, (_, inputs, outputs) in enumerate(self.steps):
            last.update(dict.fromkeys([*inputs, *outputs], at))
        self.dead = [[slot for slot in last if last[slot] == at and slot not in kept] for at in range(len(self.steps))]

    def _count(self) -> None:
        """Adds to the report, once a node: a graph has a program for each set of sizes."""
        told = self.gm.meta.setdefault("narthex_reported", set())
        for node, reason in self.reasons.items():
            name = operator_name(node)
            if node.name not in told:
                _outside.append({"node": node.name, "operator": name, "reason": reason, "line": user_line(node)})
            told.add(node.name)
        _inside[0] += sum(type(step) is _Inside for step, _, _ in self.steps)

    def __call__(self, inputs) -> list:
        slots = [*inputs, *self.constants] + [None] * (len(self.slot) - len(self.sources))
        inputs.clear()
        for (step, from_slots, to_slots), dead in zip(self.steps, self.dead):
            for slot, value in zip(to_slots, step([slots[at] for at in from_slots])):
                slots[slot] = value
            for slot in dead:
                slots[slot] = None
        return [self._result(slots, slot, other) for slot, other in self.returned]

    @staticmethod
    def _result(slots, slot, other):
        if slot is None:
            return other
        value = slots[slot]
        if other is None:
            return value
        size, stride, offset = other
        return value.as_strided(size, stride, value.storage_offset() + offset)


# ---- what PyTorch calls ----------------------------------------------------------------------------------------------
def _compile(gm, example_inputs, mode="max-autotune"):
    """One ATen graph as a callable on a list of torch tensors and sizes."""
    placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
    numbers = [at for at, node in enumerate(placeholders) if is_symbolic(node.meta.get("val"))]
    shaped = [
        at for at, node in enumerate(placeholders) if is_tensor(node) and any(map(is_symbolic, node.meta["val"].shape))
    ]
    programs = {}

    def make(key, inputs):
        if len(programs) >= MOST_SIZES:
            programs.pop(next(iter(programs)))
        program = programs[key] = _Program(gm, Sizes(placeholders, inputs), mode)
        return program

    def run(inputs):
        key = (*[inputs[at] for at in numbers], *[tuple(inputs[at].shape) for at in shaped])
        return (programs.get(key) or make(key, inputs))(inputs)

    if not numbers and not shaped:
        make((), [])  # at once, so that compiling is part of the first call's compiling
    run._boxed_call = True
    return run


def backend(gm, example_inputs, *, mode=None, options=None):
    """The function that PyTorch's registry knows as "narthex". mode is torch.compile's."""
    from functools import partial

    from torch._dynamo.backends.common import aot_autograd

    from ._compile import check_mode
    from ._dynamo.backends import ENGINE_MODES

    if options:
        raise RuntimeError(f"backend 'narthex': unknown option '{next(iter(options))}'; there are none")
    compiler = partial(_compile, mode=ENGINE_MODES[check_mode(mode)])
    return aot_autograd(fw_compiler=compiler, bw_compiler=compiler, inference_compiler=compiler)(gm, example_inputs)
