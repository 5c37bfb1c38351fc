"""Graph: a program as a list of Nodes that can be edited, and as the Python source of a function."""

import builtins
import enum
import functools
import keyword
import math
import operator
import re
import types
import typing
from contextlib import contextmanager
from inspect import Signature
from typing import NamedTuple

from .. import _C
from .._ops_in_python import IN_PYTHON
from ._captured import Reader
from .immutable_collections import immutable_dict, immutable_list
from .node import Node, _get_qualified_name, _type_name, map_arg

_SIGNS = {
    "eq": "==", "ne": "!=", "lt": "<", "gt": ">", "le": "<=", "ge": ">=", "add": "+", "sub": "-", "mul": "*",
    "floordiv": "//", "truediv": "/", "mod": "%", "pow": "**", "lshift": "<<", "rshift": ">>", "and_": "&", "or_": "|",
    "xor": "^", "matmul": "@",
}  # fmt: skip
_IN_PLACE = {
    "i" + name.rstrip("_"): sign + "="
    for name, sign in _SIGNS.items()
    if name not in ("eq", "ne", "lt", "gt", "le", "ge")
}
_BRIEF = {
    **{f"torch.float{n}": f"f{n}" for n in (16, 32, 64)},
    **{f"torch.int{n}": f"i{n}" for n in (8, 16, 32, 64)},
    **{"torch.uint8": "u8", "torch.bool": "b8", "torch.bfloat16": "bf16"},
    **{"torch.complex32": "c32", "torch.complex64": "c64", "torch.complex128": "c128"},
}
_ONE_SIDED = {"pos": "+{}", "neg": "-{}", "invert": "~{}", "getitem": "{}[{}]", "getattr": "{}.{}"}


_ASKED = {
    "torch.ops.aten.sym_size.int": IN_PYTHON["sym_size"].int,
    "torch.ops.aten.sym_stride.int": IN_PYTHON["sym_stride"].int,
    "torch.ops.aten.sym_numel": IN_PYTHON["sym_numel"].default,
    "torch.ops.aten.sym_storage_offset": IN_PYTHON["sym_storage_offset"].default,
    "torch.ops.aten.is_contiguous": IN_PYTHON["sym_is_contiguous"].default,
}


@functools.cache
def _of_operator(text: str):
    """A function of the operator that "torch._C._nn.silu_" stands for, which has none; the text if there is no such."""
    import narthex

    path, _, name = text.rpartition(".")
    packet = getattr(narthex.ops.aten, name, None)
    if packet is None:
        return text

    def call(*args, **kwargs):
        return packet(*args, **kwargs)

    call.__name__, call.__module__ = name, path
    return call


def _object_of(text: str):
    """What "torch.add", "operator.mul" or "torch.ops.aten.add.Tensor" names; the text where it names nothing."""
    import narthex

    known = _C.functions.get(text) or _ASKED.get(text)
    if known is not None:
        return known
    head, *names = text.split(".")
    found = {"torch": narthex, "operator": operator, "math": math, "builtins": builtins}.get(head)
    try:
        for name in names:
            found = getattr(found, name)
    except AttributeError:
        return _of_operator(text)
    return text if found is None else found


class PythonCode(NamedTuple):
    """Source of `def forward(self, ...)` and the objects that it names."""

    src: str
    globals: dict


class CodeGen:
    """How a graph becomes Python. Subclasses may change gen_fn_def; what others there are in PyTorch is not there
    yet."""

    _body_transformer = None  # see Graph.on_generate_code

    def gen_fn_def(self, free_vars: list, maybe_return_annotation: str, *, expanded_def: bool = False) -> str:
        """The line of `def`; expanded_def: a line for each argument. Without a first one, `self` is put there."""
        if not free_vars or free_vars[0] != "self":
            free_vars.insert(0, "self")
        given = "".join(f"\n    {name}," for name in free_vars) + "\n" if expanded_def else ", ".join(free_vars)
        return f"def forward({given}){maybe_return_annotation}:"

    def generate_output(self, text: str) -> str:
        """What stands behind `return` for a result that is written so."""
        return text

    def additional_globals(self) -> dict:
        """What its lines name."""
        return {}

    def process_inputs(self, *args):
        """The inputs as the graph's placeholders take them."""
        return args

    def process_outputs(self, outputs):
        """The result as a caller takes it."""
        return outputs


class _Names:
    """Names that a graph has given, none twice, none of Python's own."""

    def __init__(self) -> None:
        self.used: dict[str, object] = {}
        self.counts: dict[str, int] = {}

    def create_name(self, candidate: str, of: object = None) -> str:
        for name, owner in self.used.items() if of is not None else ():
            if owner is of:
                return name
        name = re.sub(r"[^0-9a-zA-Z_]+", "_", candidate) or "_unnamed"
        name = "_" + name if name[0].isdigit() else name
        numbered = re.fullmatch(r"(.*)_(\d+)", name)
        base, number = (numbered[1], int(numbered[2])) if numbered else (name, None)
        if number is None or name in self.used:
            number = self.counts.get(name, 0)
            name = f"{base}_{number}" if number else base
        while name in self.used or self._is_pythons(name, of):
            number += 1
            name = f"{base}_{number}"
        self.counts[base], self.used[name] = number, of
        return name

    @staticmethod
    def _is_pythons(name: str, of: object) -> bool:
        if name in ("inf", "nan", "NoneType", "torch", "device"):
            return of is None
        return keyword.iskeyword(name) or (hasattr(builtins, name) and getattr(builtins, name) is not of)


def _snake_case(text: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])|(?<=[a-zA-Z0-9])([A-Z])(?=[a-z])", lambda m: "_" + m[0], text).lower()


class _node_list:
    """The nodes in order, also while the graph changes; backwards by reversed()."""

    def __init__(self, graph: "Graph", back: bool = False) -> None:
        self.graph, self.back = graph, back

    def __len__(self) -> int:
        return self.graph._len

    def __iter__(self):
        root = self.graph._root
        at = root._prev if self.back else root._next
        while at is not root:
            if not at._erased:
                yield at
            at = at._prev if self.back else at._next

    def __reversed__(self):
        return iter(_node_list(self.graph, not self.back))


class Graph:
    """A program as nodes. New ones stand at the insertion point, which is the end unless inserting_before or
    inserting_after say otherwise. `_c` is the captured `_C.Graph` behind a graph that came from one, as it was
    captured."""

    def __init__(self, owning_module=None, tracer_cls=None, tracer_extras: dict | None = None) -> None:
        captured = owning_module if isinstance(owning_module, _C.Graph) else None
        self._c, self.owning_module = None, None if captured is not None else owning_module
        self._tracer_cls, self._tracer_extras = tracer_cls, tracer_extras
        self._names, self._len, self._places, self._edits = _Names(), 0, None, 0
        self._root = Node(self, "", "root", "", (), {})
        self._insert = self._root.prepend
        self._codegen = CodeGen()
        if captured is not None:
            self._read(captured, as_spelled=False)

    def _read(self, captured: _C.Graph, as_spelled: bool) -> None:
        """Takes the nodes of a captured graph; as_spelled: calls as the program wrote them."""
        self._c = captured
        Reader(self, captured, _object_of, as_spelled).read()
        self._edits = 0

    def _edited(self) -> None:
        self._edits += 1
        self._places = None

    def _place(self, node: Node) -> int:
        if self._places is None:
            self._places = {each: at for at, each in enumerate(self.nodes)}
        return self._places[node]

    # ---- nodes
    @property
    def nodes(self) -> _node_list:
        """The nodes in order."""
        return _node_list(self)

    def find_nodes(self, *, op: str, target=None, sort: bool = True) -> list:
        """The nodes of that op, of call_function with that target."""
        return [node for node in self.nodes if node.op == op and (target is None or node.target == target)]

    def output_node(self) -> Node:
        """The node that returns."""
        return next(node for node in reversed(self.nodes) if node.op == "output")

    def create_node(self, op: str, target, args=None, kwargs=None, name: str | None = None, type_expr=None) -> Node:
        """A new node at the insertion point."""
        args, kwargs = () if args is None else args, {} if kwargs is None else kwargs
        if not isinstance(args, tuple):
            raise AssertionError("args must be a tuple")
        if not isinstance(kwargs, dict):
            raise AssertionError("kwargs must be a dict")
        node = Node(
            self,
            self._names.create_name(name if name is not None else self._target_to_str(target)),
            op,
            target,
            args,
            kwargs,
            type_expr,
        )
        self._insert(node)
        self._len += 1
        return node

    @staticmethod
    def _target_to_str(target) -> str:
        name = target if isinstance(target, str) else target.__name__
        if name.startswith("__") and name.endswith("__"):
            name = name[2:-2]
        return _snake_case(name)

    def placeholder(self, name: str, type_expr=None, default_value=Signature.empty) -> Node:
        """An input; `*name` and `**name` as in a signature."""
        args = () if default_value is Signature.empty else (default_value,)
        return self.create_node("placeholder", name, args, name=name.lstrip("*"), type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr=None) -> Node:
        """A parameter, buffer or other attribute of the module."""
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(self, module_name: str, args=None, kwargs=None, type_expr=None) -> Node:
        """A call of the module's submodule of that name."""
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(self, method_name: str, args=None, kwargs=None, type_expr=None) -> Node:
        """A call of the method of the first argument."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(self, the_function, args=None, kwargs=None, type_expr=None, name: str | None = None) -> Node:
        """A call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name=name, type_expr=type_expr)

    def output(self, result, type_expr=None) -> Node:
        """What is returned."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def erase_node(self, to_erase: Node) -> None:
        """Takes a node out that no other mentions."""
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in the graph: "
                f"{to_erase.users}!"
            )
        if to_erase.graph is not self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph!")
        if to_erase._erased:
            return
        to_erase._take((), {})
        to_erase._unlink()
        to_erase._erased = True
        self._len -= 1

    @contextmanager
    def _inserting(self, insert):
        before, self._insert = self._insert, insert
        try:
            yield
        finally:
            self._insert = before

    def inserting_before(self, n: Node | None = None):
        """with graph.inserting_before(n): new nodes stand before n, in order; None: at the graph's beginning."""
        if n is None:
            return self.inserting_after(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert before is not in graph.")
        return self._inserting(n.prepend)

    def inserting_after(self, n: Node | None = None):
        """with graph.inserting_after(n): new nodes stand behind n, in order; None: at the graph's end."""
        if n is None:
            return self.inserting_before(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert after is not in graph.")
        at = [n]

        def insert(node: Node) -> None:
            at[0].append(node)
            at[0] = node

        return self._inserting(insert)

    # ---- copies
    def node_copy(self, node: Node, arg_transform=lambda node: node) -> Node:
        """A node of another graph here, with arg_transform(node) in place of the nodes that it mentions."""
        args, kwargs = map_arg(node.args, arg_transform), map_arg(node.kwargs, arg_transform)
        if not isinstance(args, tuple) or not isinstance(kwargs, dict):
            raise AssertionError("Expected args to be a tuple and kwargs a dict")
        made = self.create_node(node.op, node.target, args, dict(kwargs), node.name, node.type)
        made.meta = dict(node.meta)
        return made

    def graph_copy(self, g: "Graph", val_map: dict, return_output_node: bool = False):
        """All nodes of `g` here; val_map maps those that are here already, and gets the others. What g returns, as
        nodes here."""
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], lambda n: val_map[n])
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None

    def __deepcopy__(self, memo=None) -> "Graph":
        made = Graph(tracer_cls=self._tracer_cls)
        done = made.graph_copy(self, {}, return_output_node=True)
        if done is not None:
            node = made.output(done[0], type_expr=done[1].type)
            node.meta = dict(done[1].meta)
        made.owning_module = self.owning_module
        return made

    # ---- checks and cleaning
    def lint(self) -> None:
        """Raises RuntimeError where a node mentions one that does not stand before it, two have one name, or the
        module lacks what is named."""
        seen, names = set(), set()
        for node in self.nodes:
            if node.graph is not self:
                raise RuntimeError(f"Node '{node}' does not belong to this Graph!")
            for given in node.all_input_nodes:
                if given.graph is not self:
                    raise RuntimeError(
                        f"Argument '{given}' of Node '{node}' does not belong to this Graph, "
                        "but was used as an argument! If you are copying nodes from another graph, make sure to use "
                        f"``arg_transform`` on node_copy() to remap values\n{self}"
                    )
                if given not in seen:
                    raise RuntimeError(
                        f"Argument '{given}' of Node '{node}' was used before it has been defined! Please check that "
                        f"Nodes in the graph are topologically ordered\n{self}"
                    )
            if node.name in names:
                raise RuntimeError(f"Node redefined name {node.name}!")
            seen.add(node)
            names.add(node.name)
            if node.op in ("get_attr", "call_module") and self.owning_module is not None:
                self._lint_attribute(node)

    def _lint_attribute(self, node: Node) -> None:
        at = self.owning_module
        for name in node.target.split("."):
            if not hasattr(at, name):
                raise RuntimeError(
                    f"Node {node} target {node.target} references nonexistent attribute {name} of {type(at).__name__}"
                )
            at = getattr(at, name)
        from ..nn import Module

        if node.op == "call_module" and not isinstance(at, Module):
            raise RuntimeError(f"Node {node} target {node.target} {at} of {at} does not reference an nn.Module")

    def eliminate_dead_code(self, is_impure_node=None) -> bool:
        """Takes out nodes without users that do nothing else; whether there were some."""
        self.lint()
        impure, before = is_impure_node or (lambda node: node.is_impure()), self._len
        for node in reversed(list(self.nodes)):
            if not node.users and node.op != "output" and not impure(node):
                self.erase_node(node)
        return self._len < before

    # ---- text
    def __str__(self) -> str:
        return "graph():" + "".join("\n    " + node.format_node() for node in self.nodes)

    def set_codegen(self, codegen: CodeGen) -> None:
        """Has `codegen` write the function."""
        self._codegen = codegen

    def process_inputs(self, *args):
        """The inputs as the graph's placeholders take them."""
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out):
        """The result as a caller takes it."""
        return self._codegen.process_outputs(out)

    def print_tabular(self) -> None:
        """Prints op, name, target, args and kwargs as a table."""
        rows = [("opcode", "name", "target", "args", "kwargs")]
        rows += [(n.op, n.name, str(n.target), str(n.args), str(n.kwargs)) for n in self.nodes]
        widths = [max(len(row[at]) for row in rows) for at in range(5)]
        for at, row in enumerate(rows):
            print("  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip())
            if at == 0:
                print("  ".join("-" * width for width in widths))

    def on_generate_code(self, make_transformer):
        """From here on, or inside of the context that this gives, make_transformer(the one before, or None) is called
        with the lines of each body that is written, and gives those that are taken."""
        codegen = self._codegen
        before = codegen._body_transformer
        codegen._body_transformer = make_transformer(before)

        @contextmanager
        def until_left():
            try:
                yield
            finally:
                codegen._body_transformer = before

        return until_left()

    def python_code(
        self,
        root_module: str,
        *,
        verbose: bool = False,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
        expanded_def: bool = False,
        record_func: bool = False,
        additional_meta: list | None = None,
    ) -> PythonCode:
        """The graph as the source of `def forward`, and the objects that it names. verbose: with the lines of the
        program; expanded_def: a line for each input. The other options change nothing."""
        return _Writer(self, root_module).code(verbose, expanded_def)


class _Writer:
    """Writes a graph as Python."""

    def __init__(self, graph: Graph, root: str) -> None:
        self.graph, self.root = graph, root
        self.globals: dict[str, object] = {}
        self.names = _Names()
        for node in graph.nodes:
            self.names.used[node.name] = node

    def code(self, verbose: bool, expanded: bool = False) -> PythonCode:
        last = self._last_uses()
        inputs, body, returns, before = [], [], "", None
        for node in self.graph.nodes:
            place = self._place(node)
            if verbose and place != before and node.op not in ("placeholder", "output"):
                body.append(f"{chr(10) if body else ''}    # {place}\n")
                before = place
            if node.op == "placeholder":
                inputs.append(self._input(node, verbose))
                raw = node.target.lstrip("*")
                if raw != node.name:
                    body.append(f"    {node.name} = {raw}\n")
                continue
            line = self._line(node, verbose)
            dead = [*last.get(node, ()), *([] if node.users else [node])]
            if node.op == "output":
                returns = f" -> {self._type(node.type)}" if node.type is not None else ""
                body.append(f"    {line}\n")
            else:
                body.append(f"    {line}{';  ' + ' = '.join(map(repr, dead)) + ' = None' if dead else ''}\n")
        if not any(node.op == "output" for node in self.graph.nodes):
            body.append("    pass\n")
        codegen = self.graph._codegen
        options = {"expanded_def": True} if expanded else {}  # a class of one's own need not know of it
        head = codegen.gen_fn_def([self.root, *inputs], returns, **options)
        if codegen._body_transformer is not None:
            lines = codegen._body_transformer([line.removeprefix("    ") for line in body])
            body = ["    " + line for line in "".join(lines).splitlines(keepends=True)]
        self.globals.update(codegen.additional_globals())
        return PythonCode(f"\n{self._wraps()}\n\n{head}\n{''.join(body)}    ", self.globals)

    def _wraps(self) -> str:
        """What says that functions are not to be looked into when the source is traced."""
        wrapped = [node.target for node in self.graph.nodes if node.meta.get("is_wrapped")]
        names = dict.fromkeys(self._global(_get_qualified_name(target), target) for target in wrapped)
        if not names:
            return ""
        from ._symbolic_trace import wrap as function

        wrap = self._global("torch.fx._symbolic_trace.wrap", function)
        return "\n".join(f'{wrap}("{name}")' for name in names)

    def _last_uses(self) -> dict:
        """Which values a node is the last to mention."""
        found, seen = {}, set()
        for node in reversed(self.graph.nodes):
            for given in node.all_input_nodes:
                if given not in seen:
                    seen.add(given)
                    found.setdefault(node, []).append(given)
        return found

    def _global(self, name: str, value) -> str:
        """The name that `value` goes by in the source."""
        if value is getattr(builtins, name, None) and value is not None:
            return name
        head, dot, rest = name.partition(".")
        if head == "torch":
            import narthex

            self.globals["torch"] = narthex
            if self._resolves(narthex, rest, value):
                return name
        name = name.replace(".", "_").replace("<", "_").replace(">", "_")
        if self.globals.get(name, value) is not value:
            name = self.names.create_name(name, value)
        self.globals[name] = value
        return name

    @staticmethod
    def _resolves(at, path: str, value) -> bool:
        for name in path.split("."):
            at = getattr(at, name, None)
        return at is value or (at is not None and type(at) is type(value) and at == value)

    @staticmethod
    def _place(node: Node) -> str:
        """Where the user's program makes this call."""
        if "source" in node.meta:
            file, line, function, code = node.meta["source"][:4]
            return f"File: {file}:{line} in {function}, code: {code}"
        trace = (node.stack_trace or "").strip()
        return trace.splitlines()[0].strip() if trace else "No stacktrace found for following nodes"

    def _kind(self, node: Node, verbose: bool) -> str:
        """The annotation of a value: for readers its dtype and shape where they are known."""
        value = node.meta.get("val", node.meta.get("tensor_meta")) if verbose else None
        if isinstance(value, _C.TensorBase) or hasattr(value, "memory_format"):  # what ShapeProp notes
            sizes = node.meta.get("sizes", value.shape)  # of an exported program, expressions among them
            return f': "{_BRIEF.get(str(value.dtype), str(value.dtype))}{list(sizes)}"'
        if verbose and "symbol" in node.meta:
            return f': "Sym({node.meta["symbol"]})"'
        return f" : {self._type(node.type)}" if node.type is not None else ""

    def _input(self, node: Node, verbose: bool) -> str:
        kind = self._kind(node, verbose)
        default = f" = {self._text(node.args[0])}" if node.args else ""
        return f"{node.target}{kind}{default}"

    def _type(self, kind) -> str:
        if kind is ...:
            return self._global("_", kind)
        origin, arguments = typing.get_origin(kind), typing.get_args(kind)
        if origin is types.UnionType:
            return "|".join(map(self._type, arguments))
        if origin is not None:
            base = self._generic(kind, origin)
            plain = not any(isinstance(argument, list) for argument in arguments)  # those of a Callable
            if base is not None and plain:
                return f"{base}[{','.join(map(self._type, arguments))}]" if arguments else base
        elif isinstance(kind, type):
            if getattr(builtins, kind.__name__, None) is kind:
                return kind.__name__
            return self._global("NoneType" if kind is type(None) else _type_name(kind), kind)
        return self._global(re.sub(r"\W", "_", kind if isinstance(kind, str) else repr(kind)), kind)

    def _generic(self, kind, origin) -> str | None:
        """What stands before the brackets; None: it has no name."""
        if isinstance(kind, types.GenericAlias):
            return self._type(origin)
        name = "Union" if origin is typing.Union else getattr(kind, "_name", None)
        found = getattr(typing, name or "", None)
        return None if found is None else self._global(f"typing.{name}", found)

    def _line(self, node: Node, verbose: bool) -> str:
        if node.op == "output":
            return f"return {self.graph._codegen.generate_output(self._text(node.args[0]))}"
        made = f"{node.name}{self._kind(node, verbose)} = "
        if node.op == "get_attr":
            return made + self._attribute(self.root, node.target)
        if node.op == "call_module":
            return made + f"{self._attribute(self.root, node.target)}({self._arguments(node.args, node.kwargs)})"
        if node.op == "call_method":
            of = self._text(node.args[0])
            return made + f"{self._attribute(of, node.target)}({self._arguments(node.args[1:], node.kwargs)})"
        return self._call(node, made)

    def _call(self, node: Node, made: str) -> str:
        name, args = getattr(node.target, "__name__", ""), node.args
        is_operator = getattr(operator, name, None) is node.target and not node.kwargs
        if is_operator and name in _SIGNS and len(args) == 2:
            return made + f"{self._text(args[0])} {_SIGNS[name]} {self._text(args[1])}"
        if is_operator and name in _ONE_SIDED:
            return made + _ONE_SIDED[name].format(*map(self._text, args))
        if is_operator and name in _IN_PLACE and isinstance(args[0], Node):
            return f"{args[0]} {_IN_PLACE[name]} {self._text(args[1])};  {made}{args[0]}"
        if node.target is getattr and len(args) == 2 and isinstance(args[0], Node) and str(args[1]).isidentifier():
            return made + f"{args[0]}.{args[1]}"
        path = _get_qualified_name(node.target)
        path = "_" + path if is_operator and path.startswith("operator.") else path
        return made + f"{self._global(path, node.target)}({self._arguments(args, node.kwargs)})"

    @staticmethod
    def _attribute(of: str, path: str) -> str:
        for name in path.split("."):
            of = f"{of}.{name}" if name.isidentifier() else f'getattr({of}, "{name}")'
        return of

    def _arguments(self, args, kwargs) -> str:
        return ", ".join([*map(self._text, args), *(f"{key} = {self._text(item)}" for key, item in kwargs.items())])

    def _text(self, value) -> str:
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            kind = type(value)
            return f"{self._global(_type_name(kind), kind)}({', '.join(map(self._text, value))})"
        if type(value) is tuple:
            return "(" + ", ".join(map(self._text, value)) + ("," if len(value) == 1 else "") + ")"
        if type(value) in (list, immutable_list):
            return "[" + ", ".join(map(self._text, value)) + "]"
        if type(value) in (dict, immutable_dict):
            return "{" + ", ".join(f"{self._text(key)}: {self._text(item)}" for key, item in value.items()) + "}"
        if isinstance(value, slice):
            return f"slice({self._text(value.start)}, {self._text(value.stop)}, {self._text(value.step)})"
        if isinstance(value, float) and not math.isfinite(value):
            self.globals.update(inf=math.inf, nan=math.nan)
        elif isinstance(value, enum.Enum):
            return f"{self._global(_type_name(type(value)), type(value))}.{value.name}"
        elif isinstance(value, type) or (
            callable(value) and not isinstance(value, Node) and hasattr(value, "__name__")
        ):
            return self._global(_get_qualified_name(value), value)
        elif isinstance(value, _C.Graph):  # of a backward, of a branch
            return self._global(f"graph_{len(self.globals)}", value)
        elif isinstance(value, _C.device):
            self.globals["device"] = _C.device
        elif type(value).__module__.split(".")[0] in ("narthex", "torch") and repr(value).startswith("torch."):
            return self._global(repr(value), value)
        return repr(value)
