"""torchair's logger. Levels as Python's; EVENT lies between WARNING and ERROR, as in torchair."""

import logging
import os
import sys
import threading
import time

from ...._logging import following_stderr

EVENT = 45
logging.addLevelName(EVENT, "EVENT")

logger = logging.getLogger("torchair")
logger.setLevel(logging.ERROR)
logger.propagate = False


class _Formatter(logging.Formatter):
    """[INFO] TORCHAIR(process,program):date [file:line]thread text"""

    def format(self, record: logging.LogRecord) -> str:
        when = time.strftime("%Y-%m-%d-%H:%M:%S", time.localtime(record.created)) + f".{int(record.msecs):03d}.000"
        program = os.path.basename(sys.executable) or "python"
        where = f"[{record.filename}:{record.lineno}]{threading.get_native_id()}"
        return f"[{record.levelname}] TORCHAIR({os.getpid()},{program}):{when} {where} {record.getMessage()}"


if not logger.handlers:
    logger.addHandler(logging.StreamHandler(following_stderr()))
    logger.handlers[0].setFormatter(_Formatter())


def say(level: int, text: str, *arguments) -> None:
    """Writes a line in the name of who calls."""
    logger.log(level, text, *arguments, stacklevel=2)
