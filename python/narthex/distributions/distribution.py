"""Base class of distributions: shapes, and what every one of them has."""

from __future__ import annotations

from .. import _C, _compile
from ..autograd.grad_mode import no_grad
from . import constraints
from .utils import lazy_property

__all__ = ["Distribution"]


class Distribution:
    """A batch of distributions of `batch_shape`, whose single values have `event_shape`.

    A subclass names its parameters and where they lie in `arg_constraints`. With `validate_args` they, and the values
    given to log_prob, are looked at and refused with ValueError.
    """

    has_rsample = False
    has_enumerate_support = False
    _validate_args = _compile.looks_at_arguments[0]

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether arguments are looked at where nothing else is said."""
        if value not in (True, False):
            raise ValueError
        Distribution._validate_args = value

    def __init__(self, batch_shape=(), event_shape=(), validate_args: bool | None = None) -> None:
        self._batch_shape, self._event_shape = _C.Size(batch_shape), _C.Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()
        super().__init__()

    def _check_parameters(self) -> None:
        try:
            wanted = self.arg_constraints
        except NotImplementedError:
            return
        for name, constraint in wanted.items():
            if constraints.is_dependent(constraint):
                continue
            if name not in self.__dict__ and isinstance(getattr(type(self), name), lazy_property):
                continue  # made of others
            value = getattr(self, name)
            if not constraint.check(value).all():
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of distribution "
                    f"{self!r} to satisfy the constraint {constraint!r}, but found invalid values:\n{value}"
                )

    batch_shape = property(lambda self: self._batch_shape, doc="The shape of the batch.")
    event_shape = property(lambda self: self._event_shape, doc="The shape of one value.")

    def expand(self, batch_shape, _instance=None):
        """The same distributions for a larger batch."""
        raise NotImplementedError

    @property
    def arg_constraints(self) -> dict:
        """{parameter: where it lies}"""
        raise NotImplementedError

    @property
    def support(self):
        """Where values lie."""
        raise NotImplementedError

    @property
    def mean(self):
        raise NotImplementedError

    @property
    def mode(self):
        raise NotImplementedError(f"{self.__class__} does not implement mode")

    @property
    def variance(self):
        raise NotImplementedError

    @property
    def stddev(self):
        return self.variance.sqrt()

    def sample(self, sample_shape=()):
        """Draws `sample_shape` values of each of the batch, without gradients."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape=()):
        """As sample, with gradients in the parameters."""
        raise NotImplementedError

    def sample_n(self, n: int):
        """sample((n,))"""
        return self.sample(_C.Size((n,)))

    def log_prob(self, value):
        """The logarithm of the density, or the probability, at `value`."""
        raise NotImplementedError

    def cdf(self, value):
        """The probability of at most `value`."""
        raise NotImplementedError

    def icdf(self, value):
        """The inverse of cdf."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True):
        """All values of a discrete distribution, along the first dimension."""
        raise NotImplementedError

    def entropy(self):
        """The entropy of each of the batch."""
        raise NotImplementedError

    def perplexity(self):
        """exp(entropy())"""
        return self.entropy().exp()

    def _extended_shape(self, sample_shape=()):
        return _C.Size((*sample_shape, *self._batch_shape, *self._event_shape))

    def _validate_sample(self, value) -> None:
        if not isinstance(value, _C.TensorBase):
            raise ValueError("The value argument to log_prob must be a Tensor")
        events = value.dim() - len(self._event_shape)
        if value.shape[events:] != self._event_shape:
            raise ValueError(
                f"The right-most size of value must match event_shape: {_C.Size(value.shape)} vs {self._event_shape}."
            )
        actual, expected = value.shape, (*self._batch_shape, *self._event_shape)
        for i, j in zip(reversed(actual), reversed(expected)):
            if i != 1 and j != 1 and i != j:
                raise ValueError(
                    f"Value is not broadcastable with batch_shape+event_shape: {actual} vs {_C.Size(expected)}."
                )
        try:
            support = self.support
        except NotImplementedError:
            return
        if not support.check(value).all():
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be within the "
                f"support ({support!r}) of the distribution {self!r}, but found invalid values:\n{value}"
            )

    def _get_checked_instance(self, cls, _instance=None):
        if _instance is None and type(self).__init__ != cls.__init__:
            raise NotImplementedError(f"Subclass {self.__class__.__name__} of {cls.__name__} that defines a custom "
                                      "__init__ method must also define a custom .expand() method.")  # fmt: skip
        return self.__new__(type(self)) if _instance is None else _instance

    def _expanded(self, cls, batch_shape, _instance, names, event_shape=(), per=None):
        """What expand() of most classes does: `names` of tensors, each over the batch and its own part of `per`."""
        new = self._get_checked_instance(cls, _instance)
        for name in names:
            if name in self.__dict__:
                tail = (per or {}).get(name, ())
                setattr(new, name, self.__dict__[name].expand((*batch_shape, *tail)))
        super(cls, new).__init__(batch_shape, event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def __repr__(self) -> str:
        names = [k for k in self.arg_constraints if k in self.__dict__]
        shown = ", ".join(
            f"{p}: {self.__dict__[p] if self.__dict__[p].numel() == 1 else self.__dict__[p].size()}" for p in names
        )
        return f"{self.__class__.__name__}({shown})"
