"""torchair's logger. Levels as Python's; EVENT lies between WARNING and ERROR, as in torchair."""

import logging

from ...._logging import handler

EVENT = 45
logging.addLevelName(EVENT, "EVENT")

logger = logging.getLogger("torchair")
logger.setLevel(logging.ERROR)
logger.propagate = False
if handler() not in logger.handlers:
    logger.addHandler(handler())


def say(level: int, text: str, *arguments) -> None:
    """Writes a line with the id of the frame that is being compiled, if one is."""
    from ...._dynamo.log import compile_id

    logger.log(level, text, *arguments, extra={"compile_id": compile_id()}, stacklevel=2)
