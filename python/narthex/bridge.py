"""torch.compile(model, backend="narthex") inside PyTorch itself.

PyTorch captures and differentiates (AOTAutograd); each of its ATen graphs, forward and backward, becomes text of a
Narthex graph and is compiled by the engine. Tensors go over by DLPack: the memory is PyTorch's on the way in and
Narthex's on the way out, and nothing is copied. A graph with something that Narthex lacks is run by PyTorch operator by
operator, and `report()` says which and why.
"""

from . import _C

_SYMBOLIC = "symbolic size; torch.compile(..., dynamic=False) compiles each shape"
_outside: list = []
_inside = [0]


class Unsupported(Exception):
    """A graph holds something that Narthex lacks: `operators` by name, or another `reason`."""

    def __init__(self, reason: str, operators=()) -> None:
        super().__init__(reason)
        self.reason, self.operators = reason, sorted(set(operators))


def report() -> list:
    """What ran outside the engine since the start: a dict for each such graph with its reason and operators."""
    return list(_outside)


def compiled_graphs() -> int:
    """How many graphs the engine compiled for PyTorch."""
    return _inside[0]


def _type_text(value) -> str:
    """`f32[2, 3]{1, 2} cpu`: a torch tensor's type in graph text."""
    name = str(value.dtype).rpartition(".")[2]
    dtype = getattr(_C, name, None)
    if not isinstance(dtype, _C.dtype):
        raise Unsupported(f"dtype {value.dtype}")
    if value.device.type != "cpu":
        raise Unsupported(f"device {value.device}")
    sizes = list(value.shape)
    if any(type(size) is not int for size in sizes):
        raise Unsupported(f"a tensor of {_SYMBOLIC}")
    text = f"{dtype.brief}{sizes}"
    if not value.is_contiguous():
        text += "{" + ", ".join(map(str, value.stride())) + "}"
    return text + " cpu"


def _value_text(value) -> str:
    import torch

    if isinstance(value, torch.fx.Node):
        return "%" + value.name
    if value is None or isinstance(value, (bool, int)):
        return str(value)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, (list, tuple)):
        if all(type(item) is int for item in value):
            return str(list(value))
        return "(" + ", ".join(map(_value_text, value)) + ")"
    if isinstance(value, (torch.dtype, torch.memory_format, torch.layout)):
        return str(value).rpartition(".")[2]
    if isinstance(value, torch.device) and value.type == "cpu":
        return "device(cpu)"
    raise Unsupported(f"an argument of type {type(value).__name__}: {value}")


def graph_text(gm) -> str:
    """An ATen graph of torch.fx as text of a Narthex graph. Raises Unsupported."""
    known = set(_C.op_names())
    missing = [
        node.target.name() if hasattr(node.target, "name") else str(node.target)
        for node in gm.graph.nodes
        if node.op not in ("placeholder", "output") and getattr(node.target, "name", str)() not in known
    ]
    if missing:
        raise Unsupported("operators that Narthex lacks", missing)
    lines = ["graph functional {"]
    for node in gm.graph.nodes:
        if node.op == "placeholder":
            value = node.meta.get("val")
            if not hasattr(value, "stride"):
                raise Unsupported(
                    f"input {node.name} is {_SYMBOLIC if hasattr(value, 'node') else type(value).__name__}"
                )
            lines.append(f'  %{node.name} = placeholder "{node.name}" : {_type_text(value)}')
        elif node.op == "output":
            lines.append("  return (" + ", ".join(_value_text(item) for item in node.args[0]) + ")")
        else:
            words = [_value_text(item) for item in node.args]
            words += [f"{name}={_value_text(item)}" for name, item in node.kwargs.items()]
            lines.append(f"  %{node.name} = call {node.target.name()}({', '.join(words)})")
    return "\n".join(lines) + "\n}\n"


def _is_tensor(node) -> bool:
    return hasattr(node, "meta") and hasattr(node.meta.get("val"), "stride")


def _compile(gm, example_inputs, mode="max-autotune"):
    """One ATen graph as a callable on a list of torch tensors."""
    import torch
    from functorch.compile import make_boxed_func

    placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
    results = next(node for node in gm.graph.nodes if node.op == "output").args[0]
    try:
        # Results that are no tensors (a gradient that is None) and inputs handed through never enter the engine.
        through = [placeholders.index(item) if item in placeholders else None for item in results]
        computed = [at for at, item in enumerate(results) if through[at] is None and _is_tensor(item)]
        if not computed:
            raise Unsupported("nothing is computed")
        text = graph_text(gm)
        head, _, tail = text.rpartition("  return ")
        text = head + "  return (" + ", ".join(_value_text(results[at]) for at in computed) + ")\n}\n"
        compiled = _C.Graph.parse(text).aot(False).compile(mode, _C.device("cpu"))
    except (Unsupported, NotImplementedError) as problem:
        operators = getattr(problem, "operators", [])
        _outside.append(
            {"reason": str(problem), "operators": operators, "graph": gm.print_readable(print_output=False)}
        )
        return make_boxed_func(gm.forward)
    _inside[0] += 1
    from_dlpack, to_torch = _C.from_dlpack, torch.from_dlpack

    def run(inputs):
        out = compiled(*[from_dlpack(value.detach()) for value in inputs])
        made = iter(out if isinstance(out, (tuple, list)) else (out,))
        values = []
        for at, item in enumerate(results):
            if through[at] is not None:
                values.append(inputs[through[at]])
            else:
                values.append(to_torch(next(made)) if _is_tensor(item) else item)
        inputs.clear()
        return values

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
