"""torch._dynamo.types: what callbacks get."""

from typing import NamedTuple


class GuardFail(NamedTuple):
    """Which guard did not hold, and the code that is compiled again."""

    reason: str
    orig_code: object
