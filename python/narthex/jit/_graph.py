"""torch.jit._get_trace_graph: what a module calls with example inputs as a graph to read, for who counts its operators.

Nodes and values answer what such readers ask: kinds, scopes, inputs and outputs, types with sizes, constants. Nothing
runs a graph; torch.jit.trace makes what runs. Every parameter and buffer is an input.
"""

from typing import NamedTuple

from .. import _C
from ._trace import LAYERS, RENAMED, REVERSED, SIGNS, Recorder, _overloads, _tracing, bind

_CONVOLUTIONS = {f"conv{transposed}{n}d": bool(transposed) for n in (1, 2, 3) for transposed in ("", "_transpose")}
_KINDS = {bool: "bool", int: "int", float: "float", complex: "complex", str: "str", type(None): "NoneType"}


class Type:
    """The type of a value: of a tensor with its sizes."""

    def __init__(self, value) -> None:
        self._value = value

    def kind(self) -> str:
        """Its class of types."""
        if isinstance(self._value, list):
            return "ListType"
        return "TensorType" if isinstance(self._value, Shape) else f"{_KINDS.get(type(self._value), 'Any')}Type".title()

    def sizes(self):
        """The sizes of a tensor, else None."""
        return list(self._value.sizes) if isinstance(self._value, Shape) else None

    def dim(self):
        """How many they are."""
        return len(self._value.sizes) if isinstance(self._value, Shape) else None

    def scalarType(self):  # noqa: N802  (PyTorch's name)
        """The element type, "Float", else None."""
        return self._value.dtype.kind if isinstance(self._value, Shape) else None

    def __str__(self) -> str:
        if isinstance(self._value, list):
            return f"List[{Type(self._value[0]) if self._value else 'Tensor'}]"
        return "Tensor" if isinstance(self._value, Shape) else _KINDS.get(type(self._value), "Any")


class Shape(NamedTuple):
    """What a graph keeps of a tensor."""

    sizes: tuple
    dtype: object


class Value:
    """What a node makes and others take."""

    def __init__(self, node: "Node", held, name: str) -> None:
        self._node, self._held, self._name, self._uses = node, held, name, []

    def node(self) -> "Node":
        """The node that makes it."""
        return self._node

    def type(self) -> Type:
        """Its type."""
        return Type(self._held)

    def debugName(self) -> str:  # noqa: N802  (PyTorch's name)
        """Its name in the printed graph."""
        return self._name

    def isCompleteTensor(self) -> bool:  # noqa: N802  (PyTorch's name)
        """Whether it is a tensor, whose sizes are known then."""
        return isinstance(self._held, Shape)

    def toIValue(self):  # noqa: N802  (PyTorch's name)
        """The number, text or None of a constant; None of anything else."""
        return self._held if self._node.kind() == "prim::Constant" else None

    def uses(self) -> list:
        """The nodes that take it."""
        return list(self._uses)

    def __repr__(self) -> str:
        return f"%{self._name}"


class Node:
    """A call of an operator, a constant, or a list that is made or taken apart."""

    def __init__(self, kind: str, scope: str, inputs: list) -> None:
        self._kind, self._scope, self._inputs, self._outputs = kind, scope, inputs, []
        for value in inputs:
            value._uses.append(self)

    def kind(self) -> str:
        """The operator, "aten::linear"."""
        return self._kind

    def scopeName(self) -> str:  # noqa: N802  (PyTorch's name)
        """The names that were pushed where it was called, parted by "/"."""
        return self._scope

    def inputs(self):
        """The values that it takes."""
        return iter(self._inputs)

    def outputs(self):
        """The values that it makes."""
        return iter(self._outputs)

    def input(self) -> Value:
        """The one value that it takes."""
        return self._one(self._inputs, "inputs")

    def output(self) -> Value:
        """The one value that it makes."""
        return self._one(self._outputs, "outputs")

    def _one(self, values: list, what: str) -> Value:
        if len(values) != 1:
            raise RuntimeError(f"{self._kind} has {len(values)} {what}")
        return values[0]

    def inputsSize(self) -> int:  # noqa: N802  (PyTorch's name)
        """How many values it takes."""
        return len(self._inputs)

    def outputsSize(self) -> int:  # noqa: N802  (PyTorch's name)
        """How many values it makes."""
        return len(self._outputs)

    def __repr__(self) -> str:
        made = ", ".join(f"{value} : {value.type()}" for value in self._outputs)
        constant = f"[value={self._outputs[0]._held}]" if self._kind == "prim::Constant" else ""
        return f"{made} = {self._kind}{constant}({', '.join(map(repr, self._inputs))})"


class Graph:
    """The nodes in their order."""

    def __init__(self) -> None:
        self._nodes, self._inputs, self._outputs, self._param = [], [], [], Node("prim::Param", "", [])

    def nodes(self):
        """The nodes, inputs and the return aside."""
        return iter(self._nodes)

    def inputs(self):
        """The inputs of the module, then its parameters and buffers."""
        return iter(self._inputs)

    def outputs(self):
        """What is returned."""
        return iter(self._outputs)

    def findAllNodes(self, kind: str, recurse: bool = True) -> list:  # noqa: N802  (PyTorch's name)
        """The nodes of a kind."""
        return [node for node in self._nodes if node.kind() == kind]

    def __str__(self) -> str:
        given = ",\n      ".join(f"{value} : {value.type()}" for value in self._inputs)
        lines = "".join(f"  {node}\n" for node in self._nodes)
        return f"graph({given}):\n{lines}  return ({', '.join(map(repr, self._outputs))})\n"


class GraphRecorder(Recorder):
    """Makes a node of each call; sizes are plain numbers."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(None, {})
        self.graph, self.scopes = graph, []

    # ---- what hooks of a reader ask of torch._C._get_tracing_state() -------------------------------------------------
    def push_scope(self, name: str) -> None:
        """Nodes are in this scope from now on."""
        self.scopes.append(name)

    def pop_scope(self) -> None:
        """In the one around it."""
        self.scopes.pop()

    def current_scope(self) -> str:
        """Names of the scopes from outside in."""
        return "/".join(self.scopes)

    # ---- values ----------------------------------------------------------------------------------------------------
    def node(self, kind: str, inputs: list, made: list) -> list:
        """A node, and the values of what it makes."""
        node = Node(kind, self.current_scope(), inputs)
        self.graph._nodes.append(node)
        node._outputs = [Value(node, self.held(one), self.fresh()) for one in made]
        return node._outputs

    def fresh(self) -> str:
        """A new name."""
        self.count += 1
        return str(self.count - 1)

    def held(self, x):
        """What a graph keeps of a value."""
        if isinstance(x, _C.TensorBase):
            return Shape(tuple(x.shape), x.dtype)
        return [self.held(one) for one in x] if isinstance(x, (list, tuple)) else x

    def input(self, x, name: str = "") -> None:
        """A tensor that comes from outside."""
        if isinstance(x, dict):
            x = list(x.values())
        if isinstance(x, (list, tuple)):
            for one in x:
                self.input(one)
        elif isinstance(x, _C.TensorBase) and id(x) not in self.names:
            made = Value(self.graph._param, self.held(x), name or self.fresh())
            self.graph._inputs.append(made)
            self.know(x, made)

    def value(self, x, kind: str = "") -> Value:
        """The value of an argument."""
        if isinstance(x, _C.TensorBase):
            if id(x) not in self.names:
                self.know(x, self.node("prim::Constant", [], [x])[0])
            return self.names[id(x)]
        if isinstance(x, (list, tuple)):
            return self.node("prim::ListConstruct", [self.value(one) for one in x], [list(x)])[0]
        return self.node("prim::Constant", [], [int(x) if type(x) is not bool and isinstance(x, int) else x])[0]

    # ---- calls -----------------------------------------------------------------------------------------------------
    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func.__name__ != "einsum":
            return super().__torch_function__(func, types, args, kwargs)
        equation, operands = args[0], args[1] if len(args) == 2 and isinstance(args[1], (list, tuple)) else args[1:]
        made = func(*args)
        taken = [self.value(equation), self.value(list(operands)), self.value(None)]
        self.know(made, self.node("aten::einsum", taken, [made])[0])
        return made

    def property(self, descriptor, func, args: tuple, kwargs: dict):
        """x.T and the like; x.shape is a list of numbers."""
        made = func(*args, **kwargs)
        if isinstance(made, _C.TensorBase) and id(made) not in self.names and descriptor.__name__ != "grad":
            self.know(made, self.node(f"aten::{descriptor.__name__}", [self.value(args[0])], [made])[0])
        return made

    def size(self, name: str, made, args: tuple, kwargs: dict):
        """Numbers."""
        return made

    def part(self, x, index) -> Value:
        """x[index], a node for each step that is no tensor, one for the tensors together."""
        index, d = list(index) if isinstance(index, tuple) else [index], 0
        index = [_C.tensor(one) if isinstance(one, (list, bool)) else one for one in index]
        used = sum(one.dim() if isinstance(one, _C.TensorBase) and one.dtype is _C.bool else one is not None
                   and one is not Ellipsis for one in index)  # fmt: skip
        value, skipped, tensors = self.value(x), x.dim() - used, []
        with _C.DisableTorchFunction():
            for one in index:
                if isinstance(one, _C.TensorBase):
                    tensors.append(self.value(one))
                    d += one.dim() if one.dtype is _C.bool else 1
                elif one is Ellipsis:
                    d += skipped
                elif one is None:
                    x = x.unsqueeze(d)
                    value, d = self.node("aten::unsqueeze", [value, self.value(d)], [x])[0], d + 1
                elif isinstance(one, slice):
                    step = 1 if one.step is None else one.step
                    x = x[(*[slice(None)] * d, one)]
                    numbers = [self.value(k) for k in (d, one.start, one.stop, step)]
                    value, d = self.node("aten::slice", [value, *numbers], [x])[0], d + 1
                else:
                    x = x.select(d, int(one))
                    value = self.node("aten::select", [value, self.value(d), self.value(int(one))], [x])[0]
        return value, tensors, x

    def know(self, tensor, name) -> None:
        """What `part` made is known by the whole's value."""
        if isinstance(name, tuple):
            value, tensors, _ = name
            if tensors:
                listed = self.node("prim::ListConstruct", tensors, [[]])
                value = self.node("aten::index", [value, *listed], [tensor])[0]
            name = value
        super().know(tensor, name)

    def write(self, x, index, value) -> None:
        """x[index] = value."""
        place, tensors, view = self.part(x, index)
        number = not isinstance(value, _C.TensorBase)
        value = self.value(_C.tensor(value, dtype=x.dtype) if number else value)
        if tensors:
            listed = self.node("prim::ListConstruct", tensors, [[]])
            self.node("aten::index_put_", [place, *listed, value], [x])
        else:
            self.node("aten::fill_" if number else "aten::copy_", [place, value], [view])

    def call(self, name: str, args: tuple, kwargs: dict, made) -> None:
        """The node of an operator; one that makes several tensors makes a list that is taken apart."""
        several = isinstance(made, (list, tuple))
        tensors = [one for one in (made if several else [made]) if isinstance(one, _C.TensorBase)]
        if not tensors:
            return
        name = SIGNS.get(name, name)
        if name in REVERSED:
            name, args = REVERSED[name], args[::-1]
        taken = self.arguments(name, args, kwargs)
        kind = "_convolution" if name in _CONVOLUTIONS else name
        if several and isinstance(made, list) or name in ("split", "chunk", "unbind", "tensor_split"):
            (whole,) = self.node(f"aten::{kind}", taken, [list(made)])
            values = self.node("prim::ListUnpack", [whole], list(made))
        else:
            values = self.node(f"aten::{kind}", taken, list(made) if several else [made])
        for one, value in zip(made if several else [made], values):
            if isinstance(one, _C.TensorBase):
                self.know(one, value)

    def arguments(self, name: str, args: tuple, kwargs: dict) -> list:
        """All arguments by the schema, defaults among them; a convolution's are those of aten::_convolution."""
        if name in LAYERS:
            return [self.value(one) for one in args]
        kwargs = {RENAMED.get(key, key): value for key, value in kwargs.items()}
        try:
            overloads = _overloads(name)
        except RuntimeError:  # a function of Python that is no operator: what it was given
            return [self.value(one) for one in (*args, *kwargs.values())]
        for parameters in overloads:
            given = bind(parameters, args, kwargs)
            if given is not None:
                break
        else:
            return [self.value(one) for one in (*args, *kwargs.values())]
        whole = {one.name: given[one.name] if one.name in given else one.default_value for one in parameters}
        if name in _CONVOLUTIONS:
            whole = self.convolution(name, whole)
        return [self.value(one) for key, one in whole.items() if key != "out"]

    def convolution(self, name: str, given: dict) -> dict:
        """The arguments of aten::_convolution."""
        rank = given["weight"].dim() - 2
        spread = lambda x: [x] * rank if isinstance(x, int) else list(x) * (rank if len(x) == 1 else 1)  # noqa: E731
        padding = given.get("padding", 0)
        if isinstance(padding, str):
            padding = 0
        lists = {key: spread(given.get(key, other)) for key, other in (("stride", 1), ("dilation", 1))}
        return {
            "input": given.get("input", given.get("self")), "weight": given["weight"], "bias": given.get("bias"),
            "stride": lists["stride"], "padding": spread(padding), "dilation": lists["dilation"],
            "transposed": _CONVOLUTIONS[name], "output_padding": spread(given.get("output_padding", 0)),
            "groups": given.get("groups", 1), "benchmark": False, "deterministic": False, "cudnn_enabled": True,
            "allow_tf32": True,
        }  # fmt: skip


def trace_graph(module, args, kwargs) -> tuple:
    """The graph of module(*args, **kwargs), and what it returns."""
    args = args if isinstance(args, tuple) else (args,)
    graph = Graph()
    recorder = GraphRecorder(graph)
    recorder.input(list(args))
    recorder.input(list((kwargs or {}).values()))
    if hasattr(module, "state_dict"):
        recorder.input([*module.parameters(), *module.buffers()])
    _tracing.append(recorder)
    try:
        with recorder:
            made = module(*args, **(kwargs or {}))
    finally:
        _tracing.pop()
    graph._outputs = [recorder.value(made)] if not isinstance(made, dict) else [recorder.value(list(made.values()))]
    return graph, made
