"""Packages take transforms of pictures, datasets and one layer from torchvision while they are imported. None of them
is needed to build a model: where torchvision does not load, its names stand for nothing here; using one raises."""

import sys
import types


class Nothing(type):
    """A class that can be named, asked for by isinstance and derived from, never made."""

    def __getattr__(cls, name: str):
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing(name, (), {})

    def __call__(cls, *args, **kwargs):
        raise NotImplementedError(f"torchvision is not there: {cls.__name__}")


class Names(types.ModuleType):
    __path__: list = []  # noqa: RUF012

    def __getattr__(self, name: str):
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing(name, (), {})


def stand_for_torchvision() -> None:
    try:
        import torchvision  # noqa: F401
    except Exception:
        inside = ("datasets", "models", "models.feature_extraction", "ops", "ops.misc", "transforms", "utils")
        for name in ("", *inside, "transforms.functional"):
            full = f"torchvision.{name}".rstrip(".")
            sys.modules[full] = Names(full)
