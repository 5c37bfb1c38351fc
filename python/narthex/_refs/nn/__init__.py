"""torch._refs.nn: has `functional`."""

from . import functional as functional
