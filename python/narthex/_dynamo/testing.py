"""torch._dynamo.testing: backends that count and keep what they are given, and what tests of such things need."""

import re

from .._absent import getter
from .utils import same as same


class CompileCounter:
    """Runs graphs operator by operator; `frame_count` graphs came, `op_count` calls in them."""

    def __init__(self) -> None:
        self.frame_count = self.op_count = 0

    def __call__(self, gm, example_inputs):
        self.frame_count += 1
        self.op_count += sum(node.op.startswith("call") for node in gm.graph.nodes)
        return gm.forward

    def clear(self) -> None:
        """Counts from 0 again."""
        self.frame_count = self.op_count = 0


class CompileCounterWithBackend(CompileCounter):
    """Counts, and gives each graph to the backend of this name; `graphs` in order."""

    def __init__(self, backend: str) -> None:
        super().__init__()
        self.backend, self.graphs = backend, []

    def __call__(self, gm, example_inputs):
        from .backends import lookup

        super().__call__(gm, example_inputs)
        self.graphs.append(gm)
        return lookup(self.backend)(gm, example_inputs)

    def clear(self) -> None:
        """Counts from 0 again."""
        super().clear()
        self.graphs = []


class EagerAndRecordGraphs:
    """Runs graphs operator by operator and keeps them in `graphs`."""

    def __init__(self) -> None:
        self.graphs: list = []

    def __call__(self, gm, example_inputs):
        self.graphs.append(gm)
        return gm.forward


class AotEagerAndRecordGraphs:
    """Runs graphs of ATen operators one by one; `graphs` came, `fw_graphs` and `bw_graphs` were made of them."""

    def __init__(self) -> None:
        self.graphs, self.fw_graphs, self.bw_graphs = [], [], []

    def __call__(self, gm, example_inputs):
        from .backends.common import aot_autograd

        self.graphs.append(gm)
        return aot_autograd(fw_compiler=_kept_in(self.fw_graphs), bw_compiler=_kept_in(self.bw_graphs))(
            gm, example_inputs
        )


def _kept_in(graphs: list):
    def compiler(gm, example_inputs):
        graphs.append(gm)
        return gm.forward

    return compiler


def extract_graph(fn, *args, **kwargs) -> tuple:
    """(its result, graphs, fw_graphs, bw_graphs) of a call that AotEagerAndRecordGraphs compiles."""
    from .._compile import compile

    backend = AotEagerAndRecordGraphs()
    result = compile(fn, backend=backend)(*args, **kwargs)
    return result, backend.graphs, backend.fw_graphs, backend.bw_graphs


def dummy_fx_compile(gm, example_inputs):
    """A backend that runs graphs operator by operator."""
    return gm.forward


# ---- text of graphs
def strip_comment(code: str) -> str:
    """Without the lines that are comments alone."""
    return re.sub(r"(?m)^ *#.*\n?", "", code)


def remove_trailing_space(code: str) -> str:
    """Without blanks at the ends of lines."""
    return "\n".join(line.rstrip() for line in code.split("\n"))


def normalize_gm(gm_str: str) -> str:
    """What print_readable gives, to compare: without comments, blanks at the ends of lines and several empty lines."""
    lines = remove_trailing_space(strip_comment(gm_str)).split("\n")
    return "\n".join(line for k, line in enumerate(lines) if line or k == 0 or lines[k - 1])


def empty_line_normalizer(code: str) -> str:
    """Without empty lines."""
    return re.sub(r"[\r\n]+", "\n", code)


# ---- tensors and results
def rand_strided(size, stride, dtype=None, device="cpu", extra_size: int = 0):
    """A tensor of these sizes and strides: random floats, or zeros of another dtype."""
    from .. import float32, randn, zeros

    dtype = dtype or float32
    room = extra_size + (sum((n - 1) * step for n, step in zip(size, stride)) + 1 if all(n > 0 for n in size) else 0)
    made = randn(room, device=device).to(dtype) if dtype.itemsize == 1 and dtype.is_floating_point else None
    if made is None:
        made = (randn if dtype.is_floating_point else zeros)(room, dtype=dtype, device=device)
    return made.as_strided(size, stride)


def clone_me(x):
    """A copy that is a leaf and requires grad as x does; None of None."""
    return None if x is None else x.detach().clone().requires_grad_(x.requires_grad)


def remove_optimized_module_prefix(name: str) -> str:
    """A parameter's name in the module that torch.compile was given."""
    return re.sub(r"^_orig_mod[.]", "", name)


def collect_results(model, prediction, loss, example_inputs) -> list:
    """All that a step gave: prediction, loss, {name.grad: gradient}, parameters, buffers, gradients of the inputs."""
    from .. import _C, zeros_like

    def named(tensors) -> dict:
        return {remove_optimized_module_prefix(name): tensor for name, tensor in tensors}

    parameters = named(model.named_parameters())
    grads = {f"{name}.grad": zeros_like(p) if p.grad is None else p.grad for name, p in parameters.items()}
    results = [prediction, loss, grads, parameters, named(model.named_buffers())]
    for example in example_inputs:
        each = example if isinstance(example, (tuple, list)) else [example]
        results += [one.grad for one in each if isinstance(one, _C.TensorBase)]
    return results


def requires_bwd_pass(out) -> bool:
    """Whether a result, or one in it, has a gradient."""
    if isinstance(out, (list, tuple)):
        return any(map(requires_bwd_pass, out))
    if out is None or isinstance(out, int):
        return False
    if not hasattr(out, "requires_grad"):
        raise NotImplementedError("Don't know how to reduce", type(out))
    return out.requires_grad


def reduce_to_scalar_loss(out):
    """One number of all that a model gave: the mean of means."""
    from .. import _C

    if isinstance(out, _C.TensorBase):
        return out.sum() / out.numel()
    if hasattr(out, "logits"):
        return reduce_to_scalar_loss(out.logits)
    if isinstance(out, (list, tuple, dict)):
        values = out.values() if isinstance(out, dict) else out
        return sum(map(reduce_to_scalar_loss, values)) / len(out)
    raise NotImplementedError("Don't know how to reduce", type(out))


def reset_rng_state() -> None:
    """Random numbers of torch, random and numpy from a seed of their own."""
    import random

    from .. import manual_seed

    manual_seed(1337)
    random.seed(1337)
    try:
        import numpy
    except ImportError:
        return
    numpy.random.seed(1337)


def check_dynamic_shape_capture() -> bool:
    """Whether all sizes are left open from the start."""
    from . import config

    return not config.assume_static_by_default


__getattr__ = getter("torch._dynamo.testing")
