"""Module and the containers."""

from .container import Identity, ModuleList, Sequential
from .module import Module

__all__ = ["Identity", "Module", "ModuleList", "Sequential"]
