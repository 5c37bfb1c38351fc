"""Data pipes, which PyTorch no longer develops, are not there. Their classes are, so that a program may ask whether
a dataset is one (none is); deriving a class from them or using what belongs to them raises."""

from ..._later import names
from .dataset import Dataset, IterableDataset

_INSTEAD = "derive from IterableDataset or Dataset"


def _refuse(name: str):
    raise NotImplementedError(f"torch.utils.data.{name}: data pipes are not there: {_INSTEAD}")


class IterDataPipe(IterableDataset):
    """Raises NotImplementedError when it is made or derived from."""

    def __init_subclass__(cls, **options) -> None:
        if cls.__module__ != __name__:
            _refuse(cls.__mro__[1].__name__)

    def __new__(cls, *args, **kwargs):
        _refuse(cls.__name__)


class DFIterDataPipe(IterDataPipe):
    """Raises NotImplementedError when it is made or derived from."""


class MapDataPipe(Dataset):
    """Raises NotImplementedError when it is made or derived from."""

    def __init_subclass__(cls, **options) -> None:
        _refuse("MapDataPipe")

    def __new__(cls, *args, **kwargs):
        _refuse("MapDataPipe")


class DataChunk(list):
    """A list of samples that prints as one."""

    def __init__(self, items) -> None:
        items = list(items)
        super().__init__(items)
        self.items = items

    def as_str(self, indent: str = "") -> str:
        """The items in brackets."""
        return f"{indent}[{', '.join(map(str, self))}]"

    def __iter__(self):
        yield from super().__iter__()

    def raw_iterator(self):
        """The items as they are."""
        yield from self.items


globals().update(
    names(
        "torch.utils.data",
        _INSTEAD,
        (
            "argument_validation",
            "functional_datapipe",
            "guaranteed_datapipes_determinism",
            "non_deterministic",
            "runtime_validation",
            "runtime_validation_disabled",
        ),
    )  # fmt: skip
)
