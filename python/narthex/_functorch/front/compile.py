"""functorch.compile: AOT with compilers of one's own."""

from ..._absent import getter
from ..aot_autograd import aot_function, aot_module, aot_module_simplified, compiled_function, compiled_module
from ..compilers import (
    debug_compile,
    make_boxed_compiler,
    make_boxed_func,
    memory_efficient_fusion,
    nop,
    print_compile,
    ts_compile,
)
from ..partitioners import default_partition, draw_graph, min_cut_rematerialization_partition

__all__ = [
    "aot_function", "aot_module", "aot_module_simplified", "compiled_function", "compiled_module", "debug_compile",
    "default_partition", "draw_graph", "make_boxed_compiler", "make_boxed_func", "memory_efficient_fusion",
    "min_cut_rematerialization_partition", "nop", "print_compile", "ts_compile",
]  # fmt: skip

__getattr__ = getter("functorch.compile")
