"""A graph of torch.fx taken apart for backend="narthex": which nodes enter the engine, as which text.

`Sizes` gives SymInts their numbers, `Writer` writes nodes as statements of a Narthex graph or says why it cannot,
`stages` sorts the nodes into alternating runs inside and outside the engine.
"""

import operator

from . import _C

# What a functional graph cannot tell from the operator on the right.
_SAME = {"aten::_unsafe_view": "aten::view", "aten::lift_fresh_copy": "aten::clone", "aten::alias": "aten::detach"}


class Unsupported(Exception):
    """A node that Narthex lacks; the message says why."""


class Sizes:
    """The numbers of a graph's symbols at one call."""

    def __init__(self, placeholders, inputs) -> None:
        self.known = {}
        for node, value in zip(placeholders, inputs):
            expected = node.meta.get("val")
            if is_symbolic(expected):
                self._learn(expected, value)
            elif is_tensor(node):
                for size, given in zip(expected.shape, value.shape):
                    self._learn(size, given)

    def _learn(self, size, value) -> None:
        if is_symbolic(size):
            self.known.setdefault(size.node.expr, value)

    def number(self, value):
        """`value` without symbols."""
        if not is_symbolic(value):
            return value
        result = self.known.get(value.node.expr)
        if result is None:
            expression = value.node.expr.xreplace(self.known)
            if expression.free_symbols:
                raise Unsupported(f"the size {value} follows from data")
            result = float(expression) if hasattr(value, "is_integer") else int(expression)
        return result


def is_symbolic(value) -> bool:
    """Whether `value` is a SymInt, SymFloat or SymBool of torch."""
    return hasattr(value, "node") and type(value).__name__ in ("SymInt", "SymFloat", "SymBool")


def is_tensor(node) -> bool:
    """Whether the fx node's value is one tensor."""
    return hasattr(node, "meta") and hasattr(node.meta.get("val"), "stride")


def operator_name(node) -> str:
    """`aten::add.Tensor` of a call."""
    target = node.target
    return target.name() if hasattr(target, "name") else f"{getattr(target, '__module__', '')}.{target.__name__}"


def user_line(node) -> str:
    """`model.py:7 in forward: y = self.norm(x)`: the line that the node came from, "" if PyTorch does not know."""
    lines = [line.strip() for line in (node.meta.get("stack_trace") or "").splitlines() if line.strip()]
    at = max((i for i, line in enumerate(lines) if line.startswith('File "')), default=-1)
    if at < 0:
        return ""
    file, line, function = lines[at].split(", ", 2)
    code = ": " + lines[at + 1] if at + 1 < len(lines) else ""
    return f"{file[6:-1]}:{line.removeprefix('line ')} {function}{code}"


def is_view(node) -> bool:
    """Whether the node's value is a view of its first argument."""
    if node.op != "call_function" or not is_tensor(node):
        return False
    if node.target is operator.getitem:
        return is_split(node.args[0])
    returns = getattr(node.target, "_schema", None) and node.target._schema.returns
    return bool(returns) and returns[0].alias_info is not None and not returns[0].alias_info.is_write


_SPLITS = ("aten::split.Tensor", "aten::split_with_sizes", "aten::unbind.int", "aten::chunk")


def is_split(node) -> bool:
    """Whether the node gives a list of views of its first argument."""
    return node.op == "call_function" and operator_name(node) in _SPLITS


def _dense(shape) -> list:
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return strides[::-1]


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


class Writer:
    """Writes statements of one graph, whose inputs are `given`."""

    def __init__(self, sizes: Sizes, given=()) -> None:
        self.number, self.given, self.known = sizes.number, set(given), set(_C.op_names())

    def type(self, value) -> str:
        """`f32[2, 3]{1, 2} cpu`: a torch tensor's type."""
        dtype = getattr(_C, str(value.dtype).rpartition(".")[2], None)
        if not isinstance(dtype, _C.dtype):
            raise Unsupported(f"dtype {value.dtype}")
        if value.device.type != "cpu":
            raise Unsupported(f"device {value.device}")
        if str(value.layout) != "torch.strided":
            raise Unsupported(f"layout {value.layout}")
        shape, strides = list(map(self.number, value.shape)), list(map(self.number, value.stride()))
        shown = "" if strides == _dense(shape) else "{" + ", ".join(map(str, strides)) + "}"
        return f"{dtype.abbr}{shape}{shown} cpu"

    def value(self, value) -> str:
        """An argument of a call."""
        import torch

        if isinstance(value, torch.fx.Node):
            return self._reference(value)
        value = self.number(value)
        if value is None or isinstance(value, (bool, int)):
            return str(value)
        if isinstance(value, float):
            return repr(value)
        if isinstance(value, str):
            return _quoted(value)
        if isinstance(value, (list, tuple)):
            items = [self.value(item) for item in value]
            ints = all(item.removeprefix("-").isdigit() for item in items)
            return ("[{}]" if ints else "({})").format(", ".join(items))
        if isinstance(value, (torch.dtype, torch.memory_format, torch.layout)):
            return str(value).rpartition(".")[2]
        if isinstance(value, torch.device) and value.type == "cpu":
            return "device(cpu)"
        raise Unsupported(f"an argument of type {type(value).__name__}: {value}")

    def _reference(self, node) -> str:
        if is_symbolic(node.meta.get("val")):
            return str(self.number(node.meta["val"]))
        if node.target is operator.getitem and node not in self.given and not is_split(node.args[0]):
            return f"%{node.args[0].name}.{node.args[1]}"
        return "%" + node.name

    def _part(self, node) -> str:
        """One piece of a split: a slice, or a selection of what was bound."""
        source, at = node.args
        base, *rest = source.args
        dim = rest[-1] if len(rest) == (1 if operator_name(source) == "aten::unbind.int" else 2) else 0
        dim = source.kwargs.get("dim", dim)
        if operator_name(source) == "aten::unbind.int":
            return f"aten::select.int({self.value(base)}, {dim}, {at})"
        lengths = [self.number(part.shape[dim]) for part in source.meta["val"]]
        start = sum(lengths[:at])
        return f"aten::slice.Tensor({self.value(base)}, {dim}, {start}, {start + lengths[at]})"

    def statement(self, node) -> str:
        """A call without its name: "aten::add.Tensor(%x, %y)". "" where the value needs none."""
        if is_symbolic(node.meta.get("val")):
            self.number(node.meta["val"])
            return ""
        if is_split(node):
            return ""
        if node.op != "call_function":
            raise Unsupported(f"{node.op} {node.target}")
        if node.target is operator.getitem:
            return self._part(node) if is_split(node.args[0]) else ""
        name = operator_name(node)
        for value in _tensors(node.meta.get("val")):
            self.type(value)
        words = [self.value(item) for item in node.args]
        words += [f"{word}={self.value(item)}" for word, item in node.kwargs.items()]
        if name == "aten::scalar_tensor":
            name, words = "aten::full", ["[]", *words]
        name = name if name in self.known else _SAME.get(name, name)
        if name not in self.known:
            raise Unsupported("Narthex lacks this operator")
        return f"{name}({', '.join(words)})"


def _tensors(value) -> list:
    values = value if isinstance(value, (list, tuple)) else [value]
    return [item for item in values if hasattr(item, "stride")]


def is_random(node) -> bool:
    """Whether the call draws random numbers."""
    return any(str(tag).endswith("nondeterministic_seeded") for tag in getattr(node.target, "tags", ()))


def _writes(node) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is not None and schema.is_mutable


def stages(calls, outside) -> list:
    """[(nodes, whether they run inside)] in an order that respects inputs, random numbers and writes.

    A stage is everything of its kind that the stages before it make possible, so there are as few as there can be.
    """
    level, last_random, floor, highest = {}, 0, 0, 0
    for node in calls:
        own = node.args[0] if node.target is operator.getitem else node
        parity = own in outside
        at = max([floor, *(level.get(item, 0) for item in node.all_input_nodes)])
        if is_random(node):
            at = max(at, last_random)
        if _writes(node):
            at = max(at, highest)
        at += at % 2 != parity
        if is_random(node):
            last_random = at
        if _writes(node):
            floor = at
        level[node] = at
        highest = max(highest, at)
    made = [[] for _ in range(highest + 1)]
    for node in calls:
        made[level[node]].append(node)
    return [(nodes, at % 2 == 0) for at, nodes in enumerate(made) if nodes]
