"""The generator is imported from the tree; what it writes for the tests goes into a temporary folder."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
LEVELS = ["base:all", "v3:all", "v4:float"]
sys.path.insert(0, str(ROOT))

from gen.main import load  # noqa: E402
from gen.write_all import write_all  # noqa: E402


@pytest.fixture(scope="session")
def root():
    return ROOT


@pytest.fixture(scope="session")
def world():
    """The entries of ops/, read, checked and written."""
    world = load(ROOT / "ops")
    world.files_written = write_all(world, LEVELS) if not world.problems else None
    assert not world.problems, world.show_problems()
    return world
