"""An exported program as the files of a .pt2 archive, as PyTorch 2.13 lays them out: models/model.json is graph,
signature and ranges, data/weights and data/constants are the bytes of storages with a table beside them."""

import inspect
import io
import json
import math

from .. import _C
from .._function_schema import FunctionSchema
from ..fx import Node
from ..serialization import _storage_data
from ..utils import _pytree as pytree
from . import _archive, _branches
from ._sizes import Expr
from .graph_signature import NEW_VALUE_OF, ConstantArgument, InputKind, OutputKind, SymIntArgument

SCHEMA = (8, 20)
DTYPES = {
    "uint8": 1, "int8": 2, "int16": 3, "int32": 4, "int64": 5, "float16": 6, "float32": 7, "float64": 8,
    "complex32": 9, "complex64": 10, "complex128": 11, "bool": 12, "bfloat16": 13, "uint16": 28, "float8_e4m3fn": 29,
    "float8_e5m2": 30, "float8_e4m3fnuz": 31, "float8_e5m2fnuz": 32, "uint32": 34, "uint64": 35,
}  # fmt: skip
FORMATS = {"contiguous_format": 1, "channels_last": 2, "channels_last_3d": 3, "preserve_format": 4}
STRIDED = 7
OPERATORS = ("add", "sub", "mul", "floordiv", "mod", "truediv", "neg", "pow", "eq", "ne", "lt", "le", "gt", "ge")


def _name_of(value) -> str:
    return str(value).removeprefix("torch.")


def _number(value: float):
    """A float as JSON has it."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


class _Graph:
    """Writes the nodes of a program."""

    def __init__(self, program) -> None:
        self.program, self.hints = program, program._hints
        self.tensors: dict = {}
        self.ints: dict = {}
        self.floats: dict = {}

    # ---- sizes and tensors
    def size(self, value) -> dict:
        if not isinstance(value, Expr):
            return {"as_int": int(value)}
        hint = None
        try:
            hint = {"as_int": value.value(self.hints)}
        except KeyError:
            pass
        return {"as_expr": {"expr_str": value.serial(), "hint": hint}}

    def tensor_meta(self, tensor, sizes=None, requires_grad: bool | None = None) -> dict:
        sizes = list(tensor.shape) if sizes is None else list(sizes)
        return {
            "dtype": DTYPES[_name_of(tensor.dtype)],
            "sizes": [self.size(size) for size in sizes],
            "requires_grad": tensor.requires_grad if requires_grad is None else requires_grad,
            "device": device(tensor.device),
            "strides": [self.size(stride) for stride in _strides(tensor, sizes)],
            "storage_offset": {"as_int": tensor.storage_offset()},
            "layout": STRIDED,
        }

    def declare(self, name: str, val, sizes=None, requires_grad: bool | None = None) -> dict:
        self.tensors[name] = self.tensor_meta(val, sizes, requires_grad)
        return {"name": name}

    # ---- arguments
    def argument(self, value, kind: str) -> dict:
        """One argument; kind: its type in the operator's schema."""
        if value is None:
            return {"as_none": True}
        if isinstance(value, Node):
            return self.value(value)
        if isinstance(value, (list, tuple)):
            return self.several(list(value), kind)
        if isinstance(value, bool):
            return {"as_bool": value}
        if isinstance(value, int):
            return {"as_float": float(value)} if kind.startswith("float") else {"as_int": value}
        if isinstance(value, float):
            return {"as_float": _number(value)}
        if isinstance(value, complex):
            return {"as_complex": {"real": _number(value.real), "imag": _number(value.imag)}}
        if isinstance(value, str):
            return {"as_string": value}
        return self.word(value)

    @staticmethod
    def word(value) -> dict:
        if isinstance(value, _C.dtype):
            return {"as_scalar_type": DTYPES[_name_of(value)]}
        if isinstance(value, _C.device):
            return {"as_device": device(value)}
        if _name_of(value) in FORMATS:
            return {"as_memory_format": FORMATS[_name_of(value)]}
        if _name_of(value) == "strided":
            return {"as_layout": STRIDED}
        if isinstance(value, _C.Graph):
            raise NotImplementedError("torch.export.save: the graphs of a while_loop go into no archive")
        raise NotImplementedError(f"torch.export.save: an argument {value!r} of type {type(value).__name__}")

    def several(self, values: list, kind: str) -> dict:
        if kind.startswith("Tensor?["):
            return {
                "as_optional_tensors": [
                    {"as_none": True} if v is None else {"as_tensor": {"name": v.name}} for v in values
                ]
            }
        if kind.startswith("Tensor["):
            return {"as_tensors": [{"name": value.name} for value in values]}
        if any(isinstance(value, Node) for value in values):
            return {"as_sym_ints": [{"as_name": v.name} if isinstance(v, Node) else {"as_int": v} for v in values]}
        if kind.startswith("bool") or (values and all(isinstance(value, bool) for value in values)):
            return {"as_bools": values}
        if kind.startswith("float") or any(isinstance(value, float) for value in values):
            return {"as_floats": [_number(float(value)) for value in values]}
        if all(isinstance(value, int) for value in values):
            return {"as_ints": values}
        if all(isinstance(value, str) for value in values):
            return {"as_strings": values}
        raise NotImplementedError(f"torch.export.save: a list {values!r}")

    # ---- nodes
    def node(self, node: Node) -> dict:
        if node.target is _branches.COND:
            return self.called(node, _branches.CALL, self.branches(node), False)
        target, schema = _target_of(node.target)
        inputs = []
        for value, parameter in zip(node.args, schema):
            inputs.append({"name": parameter[0], "arg": self.argument(value, parameter[1]), "kind": 1})
        kinds = {name: kind for name, kind, _ in schema}
        for name, value in node.kwargs.items():
            if value is None:
                continue
            inputs.append({"name": name, "arg": self.argument(value, kinds.get(name, "")), "kind": 2})
        return self.called(node, target, inputs, None)

    def called(self, node: Node, target: str, inputs: list, is_single) -> dict:
        """A call; is_single: of one that holds graphs, whether it gives a tensor that stands alone."""
        metadata = {}
        if node.meta.get("stack_trace"):
            metadata["stack_trace"] = node.meta["stack_trace"].strip()
        if node.meta.get("nn_module_stack"):
            rows = node.meta["nn_module_stack"].items()
            metadata["nn_module_stack"] = ";".join(f"{key},{path},{kind}" for key, (path, kind) in rows)
        return {
            "target": target, "inputs": inputs, "outputs": self.outputs(node), "metadata": metadata,
            "is_hop_single_tensor_return": is_single, "name": node.name,
        }  # fmt: skip

    def branches(self, node: Node) -> list:
        """What a cond is given: both graphs take all that one of them reads."""
        pred, inputs, others, then, otherwise = node.args
        operands = list(dict.fromkeys((*inputs, *others)))
        given = [self.argument(pred, "Tensor")]
        for name, graph, own in (("true_graph_0", then, inputs), ("false_graph_0", otherwise, others)):
            plain = _Graph(self.program).branch(_branches.of_operators(graph), list(own), operands)
            given.append({"as_graph": {"name": name, "graph": plain}})
        given.append(self.argument(operands, "Tensor[]"))
        return [{"name": "", "arg": each, "kind": 1} for each in given]

    def branch(self, graph, own: list, operands: list) -> dict:
        """A graph inside of a call; own: which operand each of its inputs is."""
        places = dict(zip(own, graph.find_nodes(op="placeholder")))
        used, inputs = {node.name for node in graph.nodes}, []
        for number, operand in enumerate(operands):
            name = places[operand].name if operand in places else f"unread_{number}"
            while operand not in places and name in used:
                name += "_"
            self.declare(name, operand.meta["val"])
            inputs.append({"as_tensor": {"name": name}})
        nodes = [self.node(node) for node in graph.nodes if node.op == "call_function" and not _is_part(node)]
        return self.plain(inputs, [self.value(value) for value in graph.output_node().args[0]], nodes)

    def outputs(self, node: Node) -> list:
        if isinstance(node.meta.get("val"), float):
            parts = ", ".join(
                Expr.of(part.meta["symbol"] if isinstance(part, Node) else part).serial() for part in node.args
            )
            expr = {"expr_str": f"IntTrueDiv({parts})", "hint": {"as_float": node.meta["val"]}}
            self.floats[node.name] = {"as_expr": expr}
            return [{"as_sym_float": {"as_name": node.name}}]
        if "symbol" in node.meta:
            self.ints[node.name] = self.size(node.meta["symbol"])
            return [{"as_sym_int": {"as_name": node.name}}]
        val = node.meta.get("val")
        if isinstance(val, _C.TensorBase):
            return [{"as_tensor": self.declare(node.name, val, node.meta.get("sizes"))}]
        if not isinstance(val, tuple):
            return []
        sizes = node.meta.get("sizes") or [None] * len(val)
        parts = {user.args[1]: user.name for user in node.users if getattr(user.target, "__name__", "") == "getitem"}
        names = [parts.get(k, f"{node.name}_unused_{k}") for k in range(len(val))]
        found = [self.declare(name, each, size) for name, each, size in zip(names, val, sizes)]
        is_list = node.target is not _branches.COND and len(_returns_of(node.target)) == 1
        if node.meta.get("is_list", is_list):
            return [{"as_tensors": found}]
        return [{"as_tensor": each} for each in found]

    def value(self, value) -> dict:
        """A result or an input as what it is."""
        if isinstance(value, Node) and "symbol" in value.meta:
            return {"as_sym_int": {"as_name": value.name}}
        if isinstance(value, Node) and isinstance(value.meta.get("val"), float):
            return {"as_sym_float": {"as_name": value.name}}
        if isinstance(value, Node):
            return {"as_tensor": {"name": value.name}}
        return self.argument(value, "")

    def graph(self) -> dict:
        inputs, nodes = [], []
        for node, spec in zip(
            self.program.graph.find_nodes(op="placeholder"), self.program.graph_signature.input_specs
        ):
            if isinstance(spec.arg, ConstantArgument):
                inputs.append(self.argument(spec.arg.value, ""))
                continue
            if isinstance(spec.arg, SymIntArgument):
                self.ints[node.name] = self.size(node.meta["symbol"])
            else:
                of_state = self.program._value_of(spec) if spec.kind is not InputKind.USER_INPUT else node.meta["val"]
                self.declare(node.name, node.meta["val"], node.meta.get("sizes"), of_state.requires_grad)
            inputs.append(self.value(node))
        for node in self.program.graph.nodes:
            if node.op == "call_function" and not _is_part(node):
                nodes.append(self.node(node))
        return self.plain(inputs, [self.value(value) for value in self.program.graph.output_node().args[0]], nodes)

    def plain(self, inputs: list, outputs: list, nodes: list) -> dict:
        """The graph, once all of it has been declared."""
        return {
            "inputs": inputs, "outputs": outputs, "nodes": nodes,
            "tensor_values": self.tensors, "sym_int_values": self.ints, "sym_bool_values": {},
            "is_single_tensor_return": False, "custom_obj_values": {}, "sym_float_values": self.floats,
        }  # fmt: skip


def _is_part(node: Node) -> bool:
    return getattr(node.target, "__name__", "") == "getitem" and isinstance(node.args[0].meta.get("val"), tuple)


def _strides(tensor, sizes: list) -> list:
    """The strides, as expressions where sizes are: of a tensor whose rows lie one after the other."""
    if not any(isinstance(size, Expr) for size in sizes):
        return list(tensor.stride())
    order = sorted(range(tensor.ndim), key=lambda k: (tensor.stride(k), -k))
    found, step = [0] * tensor.ndim, 1
    for k in order:
        found[k] = step
        step = sizes[k] * step
    return found


def device(value) -> dict:
    return {"type": value.type, "index": value.index}


def _target_of(target) -> tuple:
    """(its name in the file, [(parameter, type, by keyword alone)])."""
    if getattr(target, "__module__", "") == "_operator" and target.__name__ in OPERATORS:
        return f"_operator.{target.__name__}", (("a", "", False), ("b", "", False))
    if hasattr(target, "_schema"):
        schema: FunctionSchema = target._schema
        rows = [(one.name, one.type, one.kwarg_only) for one in schema.arguments]
        return f"torch.ops.{target.namespace}.{target.__name__}", rows
    if getattr(target, "__module__", "") == "torch._ops.aten":
        rows = [(p.name, "", p.kind is p.KEYWORD_ONLY) for p in inspect.signature(target).parameters.values()]
        return f"torch.ops.aten.{target.__name__}", rows
    raise NotImplementedError(f"torch.export.save: a call of {target!r}, which is no operator")


def _returns_of(target) -> list:
    return target._schema.returns if hasattr(target, "_schema") else [None]


# ---- signature
# {what the file calls a new value: (its kind, the field that names what it is the new value of)}
MUTATIONS = {kind.name.lower(): (kind, f"{of.name.lower()}_name") for of, kind in NEW_VALUE_OF.items()}


def _constant(value) -> dict:
    if value is None:
        return {"as_none": True}
    kind = {bool: "as_bool", int: "as_int", float: "as_float", str: "as_string"}[type(value)]
    return {kind: _number(value) if kind == "as_float" else value}


def _input_spec(spec) -> dict:
    arg = {"name": spec.arg.name}
    if spec.kind is InputKind.PARAMETER:
        return {"parameter": {"arg": arg, "parameter_name": spec.target}}
    if spec.kind is InputKind.BUFFER:
        return {"buffer": {"arg": arg, "buffer_name": spec.target, "persistent": bool(spec.persistent)}}
    if spec.kind is InputKind.CONSTANT_TENSOR:
        return {"tensor_constant": {"arg": arg, "tensor_constant_name": spec.target}}
    if isinstance(spec.arg, ConstantArgument):
        return {"constant_input": {"name": spec.arg.name, "value": _constant(spec.arg.value)}}
    if isinstance(spec.arg, SymIntArgument):
        return {"user_input": {"arg": {"as_sym_int": {"as_name": spec.arg.name}}}}
    return {"user_input": {"arg": {"as_tensor": arg}}}


def _call_argument(argument) -> dict:
    if isinstance(argument, ConstantArgument):
        return _constant(argument.value)
    if isinstance(argument, SymIntArgument):
        return {"as_sym_int": {"as_name": argument.name}}
    return {"as_tensor": {"name": argument.name}}


def _output_spec(spec) -> dict:
    if spec.kind is OutputKind.USER_OUTPUT:
        return {"user_output": {"arg": _call_argument(spec.arg)}}
    arg = {"name": spec.arg.name}
    for tag, (kind, name) in MUTATIONS.items():
        if spec.kind is kind:
            return {tag: {"arg": arg, name: spec.target}}
    raise NotImplementedError(f"torch.export.save: results of the kind {spec.kind.name}")


def _entry(entry) -> dict:
    signature = None
    if entry.signature is not None:
        signature = {
            "inputs": list(map(_call_argument, entry.signature.inputs)),
            "outputs": list(map(_call_argument, entry.signature.outputs)),
            "in_spec": pytree.treespec_dumps(entry.signature.in_spec, 1),
            "out_spec": pytree.treespec_dumps(entry.signature.out_spec, 1),
            "forward_arg_names": entry.signature.forward_arg_names,
        }  # fmt: skip
    return {"fqn": entry.fqn, "signature": signature}


def _ranges(program) -> dict:
    found = {}
    for symbol, bounds in program.range_constraints.items():
        upper = None if bounds.upper >= 2**63 - 1 else int(bounds.upper)
        found[str(symbol)] = {"min_val": int(bounds.lower), "max_val": upper}
    return found


def model(program) -> dict:
    """models/model.json."""
    import narthex

    signature = program.graph_signature
    return {
        "graph_module": {
            "graph": _Graph(program).graph(),
            "signature": {
                "input_specs": list(map(_input_spec, signature.input_specs)),
                "output_specs": list(map(_output_spec, signature.output_specs)),
            },
            "module_call_graph": list(map(_entry, program.module_call_graph)),
            "metadata": {},
            "treespec_namedtuple_fields": {},
        },
        "opset_version": {"aten": 10},
        "range_constraints": _ranges(program),
        "schema_version": {"major": SCHEMA[0], "minor": SCHEMA[1]},
        "verifiers": [program.dialect],
        "torch_version": str(narthex.__version__),
        "guards_code": [],
    }


def _tensors(program, values: dict, folder: str, prefix: str, config: str) -> dict:
    """The files of some tensors: each storage once, and the table."""
    files, table, places = {}, {}, {}
    writer = _Graph(program)
    for path, value in values.items():
        key = _C.storage_key(value)
        if key not in places:
            places[key] = f"{prefix}{len(places)}"
            files[f"{folder}{places[key]}"] = _storage_data(value.detach())
        table[path] = {
            "path_name": places[key],
            "is_param": type(value).__name__ == "Parameter",
            "use_pickle": False,
            "tensor_meta": writer.tensor_meta(value),
        }
    files[f"{folder}{config}"] = json.dumps({"config": table}).encode()
    return files


def save(program, f, extra_files: dict | None, opset_version: dict | None) -> None:
    """torch.export.save."""
    from ..serialization import save as save_checkpoint

    files = _tensors(program, program.state_dict, "data/weights/", "weight_", "model_weights_config.json")
    files.update(_tensors(program, program.constants, "data/constants/", "tensor_", "model_constants_config.json"))
    described = model(program)
    described["opset_version"].update(opset_version or {})
    files["models/model.json"] = json.dumps(described, allow_nan=False).encode()
    if program.example_inputs is not None:
        room = io.BytesIO()
        save_checkpoint(program.example_inputs, room)
        files["data/sample_inputs/model.pt"] = room.getvalue()
    for name, content in (extra_files or {}).items():
        files[f"extra/{name}"] = content if isinstance(content, bytes) else str(content).encode()
    files.update({"archive_format": b"pt2", "archive_version": b"0", ".data/version": b"6\n", "byteorder": b"little"})
    _archive.write(f, files)
