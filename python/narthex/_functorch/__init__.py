"""torch._functorch: what is left of it here is aot_autograd."""

from . import aot_autograd as aot_autograd
