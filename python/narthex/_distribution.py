"""What `importlib.metadata` tells of torch where Narthex stands in its place: the version whose programs run."""

from importlib.metadata import Distribution
from pathlib import Path

from . import __version__

_TEXTS = {
    "METADATA": f"Metadata-Version: 2.1\nName: torch\nVersion: {__version__}\nSummary: Narthex in the place of torch\n",
    "top_level.txt": "functorch\ntorch\n",
    "INSTALLER": "narthex run\n",
}


class InPlaceOfTorch(Distribution):
    """A distribution without files, requirements or entry points."""

    def read_text(self, filename) -> str | None:
        return _TEXTS.get(str(filename))

    def locate_file(self, path) -> Path:
        return Path(__file__).resolve().parent.parent / path
