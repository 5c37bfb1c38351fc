"""Distributions of an exponential family."""

from .distribution import Distribution


class ExponentialFamily(Distribution):
    """A density exp(t(x)·θ - F(θ) + k(x))."""
