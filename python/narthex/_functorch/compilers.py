"""Compilers for AOT: what functorch.compile offers to be given as fw_compiler and bw_compiler."""

from functools import wraps

__all__ = [
    "debug_compile", "make_boxed_compiler", "make_boxed_func", "memory_efficient_fusion", "nop", "print_compile",
    "ts_compile",
]  # fmt: skip


def make_boxed_func(f):
    """f(*args) as a function of one list."""

    def g(args):
        return f(*args)

    g._boxed_call = True
    return g


def make_boxed_compiler(compiler):
    """A compiler whose results take one list."""

    @wraps(compiler)
    def f(fx_g, inps):
        return make_boxed_func(compiler(fx_g, inps))

    return f


def nop(fx_g, _):
    """Runs the graph as it is."""
    return make_boxed_func(fx_g.forward)


def print_compile(fx_g, _):
    """Prints the graph's code and runs it as it is."""
    print(fx_g.code)
    return make_boxed_func(fx_g.forward)


def debug_compile(fx_g, inps):
    """Prints the graph and its inputs' shapes and runs it as it is."""
    fx_g.print_readable()
    print([tuple(value.shape) if hasattr(value, "shape") else value for value in inps])
    return make_boxed_func(fx_g.forward)


def ts_compile(fx_g, inps):
    """Raises NotImplementedError: there is no TorchScript here."""
    raise NotImplementedError("ts_compile: graphs are not compiled by TorchScript; use nop, or torch.compile's engine")


def memory_efficient_fusion(fn, **kwargs):
    """aot_function or aot_module with the engine's cut, whose graphs the engine compiles."""
    from ..nn import Module
    from .aot_autograd import aot_function, aot_module
    from .partitioners import min_cut_rematerialization_partition

    def engine(gm, example_inputs):
        from .._compile import compile

        return make_boxed_func(compile(gm, fullgraph=True))

    config = {"fw_compiler": engine, "bw_compiler": engine, "partition_fn": min_cut_rematerialization_partition}
    config.update(kwargs)
    return (aot_module if isinstance(fn, Module) else aot_function)(fn, **config)
