"""What `import narthex` costs and which names are there."""

import subprocess
import sys
from pathlib import Path

import narthex as nt
import pytest

# Modules that take milliseconds to import and are not needed until something asks for them.
HEAVY = (
    "logging",
    "inspect",
    "dataclasses",
    "typing",
    "numpy",
    "argparse",
    "collections.abc.x",
    "json",
    "tempfile",
    "torch",
    "asyncio",
)
KNOWN = Path(__file__).resolve().parents[2].parent / "shared" / "reference" / "known-names.txt"


def fresh(code: str) -> str:
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_import_is_light():
    code = "import sys; before = set(sys.modules); import narthex; print(*sorted(set(sys.modules) - before))"
    added = fresh(code).split()
    assert not set(added) & set(HEAVY), added
    assert len([name for name in added if not name.startswith("narthex")]) < 10, added


def test_import_of_layers_is_light():
    code = "import sys; before = set(sys.modules); import narthex.nn; print(*sorted(set(sys.modules) - before))"
    added = fresh(code).split()
    assert not set(added) & set(HEAVY), added
    assert len([name for name in added if not name.startswith("narthex")]) < 30, added


def test_missing_names_say_so():
    with pytest.raises(
        AttributeError, match="module 'torch' has no attribute 'fft_of_tomorrow': Narthex .* does not have it"
    ):
        nt.fft_of_tomorrow  # noqa: B018
    assert not hasattr(nt, "fft_of_tomorrow")
    assert "nn" in dir(nt) and nt.float is nt.float32 and nt.ops.aten.add.Tensor.name() == "aten::add.Tensor"


@pytest.mark.parametrize("module", ["", ".nn", ".nn.functional", ".utils", ".linalg", ".jit"])
def test_missing_names_that_are_imported_say_so(module):
    said = rf"^cannot import name 'Quux' from 'torch{module}': Narthex .* does not have it"
    with pytest.raises(ImportError, match=said):
        exec(f"from narthex{module} import Quux")
    with pytest.raises(AttributeError, match=f"module 'torch{module}' has no attribute 'Quux'"):
        exec(f"import narthex{module}; narthex{module}.Quux")
    exec(f"import narthex{module}; assert not hasattr(narthex{module}, 'Quux')")


def test_operators_by_name():
    x = nt.tensor([1.0, 2.0])
    assert nt.ops.aten.add.Tensor(x, x, alpha=2).tolist() == [3.0, 6.0]
    assert nt.ops.aten.mul(x, x).tolist() == [1.0, 4.0]
    assert str(nt.ops.aten.sum.dim_IntList) == "aten.sum.dim_IntList" and "default" in nt.ops.aten.sum.overloads()
    with pytest.raises(AttributeError, match="no overload name 'Tenso'"):
        nt.ops.aten.add.Tenso  # noqa: B018


@pytest.mark.skipif(not KNOWN.exists(), reason="the list of known names is not beside the checkout")
def test_known_names():
    """Each name exists, or using it raises NotImplementedError that says that a later release brings it."""
    names = []
    for line in KNOWN.read_text().splitlines():
        if line.startswith(("torch.", "torchair.", "torch_npu.")):
            names.append(line.split()[0])
    assert len(names) > 40
    code = f"""
from importlib import import_module
from narthex.cli import use_as_torch
use_as_torch()
for name in {names!r}:
    parts = name.split(".")
    value, at = import_module(parts[0]), 1
    while at < len(parts):
        try:
            value = getattr(value, parts[at])
        except AttributeError:
            try:
                value = import_module(".".join(parts[:at + 1]))
            except ModuleNotFoundError:
                print(name)
                break
        at += 1
"""
    assert fresh(code) == ""
