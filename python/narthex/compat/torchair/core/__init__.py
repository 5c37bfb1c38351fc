"""torchair.core: logs and the engine behind the backend."""

from . import _backend as _backend
from . import utils as utils
