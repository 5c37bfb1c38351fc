"""ExpandedWeight by the place where PyTorch defines it."""

from . import ExpandedWeight as ExpandedWeight
