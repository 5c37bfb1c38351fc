"""torch._functorch: what is left of it here is aot_autograd, and the names of its settings."""

from . import aot_autograd as aot_autograd
from . import config as config
