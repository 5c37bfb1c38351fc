"""The backends of torch.compile by name, and the registry for more."""

from functools import partial

from ... import _C

ENGINE_MODES = {
    "default": "max-autotune",
    "lite": "max-autotune",
    "max-autotune": "max-autotune",
    "max-autotune-no-cudagraphs": "max-autotune",
    "reduce-overhead": "reduce-overhead",
}
MEASURED = ("max-autotune", "max-autotune-no-cudagraphs")  # the engine's choices are timed


MODE_OPTIONS = {
    "reduce-overhead": {"triton.cudagraphs": True},
    "max-autotune-no-cudagraphs": {"max_autotune": True, "coordinate_descent_tuning": True},
    "max-autotune": {"max_autotune": True, "triton.cudagraphs": True, "coordinate_descent_tuning": True},
}


def mode_of(options: dict) -> str:
    """The mode that stands for PyTorch's options, names of torch._inductor.config; one that no mode stands for changes
    nothing. RuntimeError for a name that is none, or a value of another type than its default's."""
    from ..._inductor import config
    from ...utils._config_module import without_effect

    known = config.shallow_copy_dict()
    given = {}
    for key, value in options.items():
        name = key.replace("-", "_")
        if name not in known:
            raise RuntimeError(f"Unexpected optimization option {key}, known options are {list(known)}")
        if known[name] is not None and not isinstance(value, type(known[name])):
            kinds = type(value).__name__, type(known[name]).__name__
            raise RuntimeError(f"Unexpected type of attr {key}, got {kinds[0]} should be {kinds[1]}")
        given[name] = value
        if name not in MODE_OPTIONS["max-autotune"] and value != known[name]:
            without_effect[f"torch._inductor.config.{name}"] = None
    if given.get("max_autotune"):
        return "max-autotune"
    return "reduce-overhead" if given.get("triton.cudagraphs") else "default"


def graph_device(example_inputs, graph=None):
    """The device that a graph computes on: the one accelerator among its inputs, else the CPU."""
    devices = {str(value.device): value.device for value in example_inputs if isinstance(value, _C.TensorBase)}
    others = [device for device in devices.values() if device.type != "cpu"]
    if len(others) > 1:
        raise NotImplementedError(
            f"compile: inputs lie on {', '.join(sorted(devices))}; a graph computes on one accelerator"
        )
    return others[0] if others else _C.device("cpu")


def captured_anew(gm, **options):
    """`gm` compiled when it is called, where that has to be: it was built or edited in Python, or a backend of one's
    own hands it on while its sizes are open. None: its graph can be compiled as it is."""
    from ..._compile import compile

    if gm._has_open_sizes:
        gm.recompile()
    return compile(gm, **options) if gm.captured_graph is None else None


def narthex(gm, example_inputs, *, mode="default"):
    """The engine: AOT, then a plan (max-autotune) or a recording (reduce-overhead)."""
    from ..._functorch.aot_autograd import aot_graphs

    if (call := captured_anew(gm, mode=mode)) is not None:
        return call
    compiled = aot_graphs(gm).compile(ENGINE_MODES[mode], graph_device(example_inputs), mode in MEASURED)
    log_output_code(compiled)
    return compiled


def log_output_code(compiled) -> None:
    """Shows what the engine will run, where `output_code` is on."""
    import sys

    logging = sys.modules.get("narthex._logging")
    if logging is not None and logging.enabled("output_code"):
        from ..log import compile_id

        logging.artifact("inductor", "output_code", "Output code:\n" + compiled.plan(), compile_id())


narthex.fits_shapes = True


def eager(gm, example_inputs):
    """Runs the captured graph operator by operator."""
    return gm.forward


def aot_eager(gm, example_inputs):
    """AOT as the engine's, then operator by operator."""
    from ..._functorch.aot_autograd import aot_graphs

    if (call := captured_anew(gm, backend="aot_eager")) is not None:
        return call
    return aot_graphs(gm).compile("eager", graph_device(example_inputs))


aot_eager.fits_shapes = True


def npu(gm, example_inputs, **options):
    """torchair's backend with its default configuration."""
    from ...compat.torchair import get_npu_backend

    return get_npu_backend()(gm, example_inputs, **options)


npu.fits_shapes = True


_registry = {"narthex": narthex, "inductor": narthex, "npu": npu}
_tags: dict = {}  # of a name that has some


def register_backend(compiler_fn=None, name=None, tags=()):
    """Adds a backend under `name` (default: its own), which list_backends leaves out by one of its tags; also a
    decorator. AssertionError for what cannot be called, and for a name that there is."""
    if compiler_fn is None:
        return partial(register_backend, name=name, tags=tags)
    if not callable(compiler_fn):
        raise AssertionError(f"compiler_fn must be callable, got {type(compiler_fn)}")
    name = name or compiler_fn.__name__
    if name in _registry:
        raise AssertionError(f"duplicate name: {name}")
    _registry[name], _tags[name] = compiler_fn, frozenset(tags)
    return compiler_fn


def list_backends(exclude_tags=("debug", "experimental")) -> list:
    """The names that torch.compile(backend=) takes, sorted, but for those of backends with one of the tags."""
    return sorted(name for name in _registry if not _tags.get(name, frozenset()) & set(exclude_tags or ()))


def lookup_backend(compiler_fn):
    """The backend called `compiler_fn`, or itself where it is no name. InvalidBackend where there is none."""
    if not isinstance(compiler_fn, str):
        return compiler_fn
    if compiler_fn not in _registry:
        from ..exc import InvalidBackend

        raise InvalidBackend(compiler_fn)
    return _registry[compiler_fn]


register_debug_backend = partial(register_backend, tags=("debug",))
register_experimental_backend = partial(register_backend, tags=("experimental",))
register_debug_backend(eager)
register_debug_backend(aot_eager)
lookup = lookup_backend

from . import common as common  # noqa: E402
from . import registry as registry  # noqa: E402  (it takes the names above)
