"""torch.jit.annotations: the names of types that packages take from here; typing's own."""

from typing import Any as Any
from typing import Dict as Dict  # noqa: UP035
from typing import List as List  # noqa: UP035
from typing import Optional as Optional
from typing import Tuple as Tuple  # noqa: UP035
from typing import Union as Union

from .._absent import getter

__getattr__ = getter("torch.jit.annotations")
