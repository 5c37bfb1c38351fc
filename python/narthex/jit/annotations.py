"""torch.jit.annotations: the names of types that packages take from here; typing's own."""

from typing import Any as Any
from typing import Dict as Dict  # noqa: UP035
from typing import List as List  # noqa: UP035
from typing import Optional as Optional
from typing import Tuple as Tuple  # noqa: UP035
from typing import Union as Union

from .._absent import getter


class _BroadcastingList:
    """Marks an argument that is a number or several, `BroadcastingList2[int]`: None to Python."""

    def __getitem__(self, types) -> None:
        return None


BroadcastingList1, BroadcastingList2, BroadcastingList3, BroadcastingList4, BroadcastingList5, BroadcastingList6 = (
    _BroadcastingList() for _ in range(6)
)

__getattr__ = getter("torch.jit.annotations")
