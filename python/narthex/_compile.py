"""torch.compile: options to a `_C.CapturedFunction`, which does everything else."""

from . import _C

MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


def check_mode(mode) -> str:
    """`mode`, "default" for None; RuntimeError if there is no such mode."""
    if mode is not None and mode not in MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(MODES)}")
    return mode or "default"


class Backend:
    """What the capture engine calls with a graph: the user's backend behind it.

    A backend gets (GraphModule, example inputs) and returns a callable. A result that stands for an engine's graph says
    so by an attribute `_compiled`, which the capture engine looks for, so that later calls stay in C.
    """

    def __init__(self, backend, keywords: dict) -> None:
        self.backend, self.keywords = backend, keywords
        # A graph whose sizes vary: a backend of ours gets one graph of numbers for each shape, another one all at once.
        self.shares_graph = not getattr(backend, "fits_shapes", False)

    def __call__(self, graph, example_inputs):
        from .fx import GraphModule  # loaded by make_backend

        result = self.backend(GraphModule(graph), list(example_inputs), **self.keywords)
        if not callable(result):
            raise TypeError(f"compile: backend {self!r} returned {type(result).__name__}; it must return a callable")
        return result

    def __repr__(self) -> str:
        return getattr(self.backend, "__name__", None) or repr(self.backend)


def make_backend(backend, mode=None, options=None) -> Backend:
    """The Backend of a name or a callable with torch.compile's mode and options."""
    from . import _functorch, amp, autocast, fx  # noqa: F401  (loaded later otherwise, which capture does not follow)  # noqa: F401  (so that the first call does not have to load them)
    from ._dynamo import backends

    if isinstance(backend, str):
        name, backend = backend, backends.lookup(backend)
        if name in backends.WITH_MODE:
            return Backend(backend, {"mode": check_mode(mode), "options": options})
    if not callable(backend):
        raise TypeError(f"compile: backend is a {type(backend).__name__}; it must be a name or a callable")
    keywords = {}
    if mode is not None:
        keywords["mode"] = mode
    if options is not None:
        keywords["options"] = options
    return Backend(backend, keywords)


def compile(
    model=None,
    *,
    fullgraph: bool = False,
    dynamic=None,
    backend="narthex",
    mode=None,
    options=None,
    disable: bool = False,
    name=None,
):
    """Compiles a function or a module: captured at the first call, run as a graph afterwards.

    backend: "narthex" (default; "inductor" is the same), "eager", "aot_eager", "npu", or a callable that gets a
    GraphModule and example inputs. mode: "default" and "max-autotune" use the graph engine, "reduce-overhead" records
    and replays. options: none is known so far. dynamic: sizes of inputs are left open from the start (True), never
    (False), or as soon as they were seen to change (None).
    """
    if model is None:

        def decorate(function):
            return compile(
                function,
                fullgraph=fullgraph,
                dynamic=dynamic,
                backend=backend,
                mode=mode,
                options=options,
                disable=disable,
                name=name,
            )

        return decorate
    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    if disable:
        return model
    made = make_backend(backend, mode, options)
    from .nn import Module

    if isinstance(model, Module):
        from ._dynamo.eval_frame import OptimizedModule

        return OptimizedModule(model, made, fullgraph=fullgraph, dynamic=dynamic, name=name)
    if not callable(model):
        raise TypeError(f"compile: model must be a function or a module, not {type(model).__name__}")
    return _C.CapturedFunction(model, made, fullgraph, dynamic, name)
