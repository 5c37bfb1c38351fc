"""torch.ao.nn.intrinsic: layers in a row that a model for integers computes as one; here they are the row."""

from ... import nn
from ..._absent import getter


class _FusedModule(nn.Sequential):
    """Layers of given kinds, one after the other."""


def _row(name: str, kinds: str):
    wanted = [getattr(nn, kind) for kind in kinds.split()]

    class Row(_FusedModule):
        def __init__(self, *layers) -> None:
            if len(layers) != len(wanted):
                raise TypeError(f"{name}.__init__() takes {len(wanted)} layers: {', '.join(kinds.split())}")
            if any(type(layer) is not kind for layer, kind in zip(layers, wanted)):
                given = [type(layer).__name__ for layer in layers]
                words = " and ".join(given) if len(given) == 2 else f"{', '.join(given[:-1])}, and {given[-1]}"
                raise AssertionError(f"Incorrect types for input modules: {words}")
            super().__init__(*layers)

    Row.__name__ = Row.__qualname__ = name
    Row.__doc__ = f"{', '.join(kinds.split())}, one after the other."
    return Row


_ROWS = {
    "ConvReLU1d": "Conv1d ReLU",
    "ConvReLU2d": "Conv2d ReLU",
    "ConvReLU3d": "Conv3d ReLU",
    "LinearReLU": "Linear ReLU",
    "ConvBn1d": "Conv1d BatchNorm1d",
    "ConvBn2d": "Conv2d BatchNorm2d",
    "ConvBn3d": "Conv3d BatchNorm3d",
    "ConvBnReLU1d": "Conv1d BatchNorm1d ReLU",
    "ConvBnReLU2d": "Conv2d BatchNorm2d ReLU",
    "ConvBnReLU3d": "Conv3d BatchNorm3d ReLU",
    "BNReLU2d": "BatchNorm2d ReLU",
    "BNReLU3d": "BatchNorm3d ReLU",
    "LinearBn1d": "Linear BatchNorm1d",
    "LinearLeakyReLU": "Linear LeakyReLU",
    "LinearTanh": "Linear Tanh",
}
__all__ = list(_ROWS)
globals().update({name: _row(name, kinds) for name, kinds in _ROWS.items()})

__getattr__ = getter("torch.ao.nn.intrinsic")
