"""aot_autograd: a backend of torch.compile made of compilers of ATen graphs."""


class AotAutograd:
    """Calls aot_module_simplified with what it was made of."""

    def __init__(self, **kwargs) -> None:
        self.__name__ = "compiler_fn"
        self.kwargs = kwargs
        self.fits_shapes = True
        self.is_of_program = True  # its compilers are, and their errors

    def __call__(self, gm, example_inputs, **kwargs):
        from ..._functorch.aot_autograd import aot_module_simplified

        if kwargs:
            raise RuntimeError(f"aot_autograd-based backend ignoring extra kwargs {kwargs}")
        return aot_module_simplified(gm, example_inputs, **self.kwargs)


def aot_autograd(**kwargs) -> AotAutograd:
    """A backend: torch.compile(backend=aot_autograd(fw_compiler=..., bw_compiler=..., decompositions=...))."""
    if "fw_compiler" not in kwargs:
        raise TypeError("aot_autograd: fw_compiler= is needed, a callable that gets (GraphModule, example inputs)")
    return AotAutograd(**kwargs)
