"""GraphModule.to_folder: a module as a package of Python that others import."""

from pathlib import Path
from types import ModuleType

from .. import nn, save
from .node import _type_name

_AS_TEXT = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
_HEAD = """import torch
from math import inf, nan
from pathlib import Path
from torch import device
from torch.nn import *

NoneType = type(None)
FOLDER = Path(__file__).resolve().parent
"""


def write(module, folder: Path, name: str) -> None:
    """Writes __init__.py, module.py, state_dict.pt, and NAME.pt for submodules without a text."""
    folder.mkdir(parents=True, exist_ok=True)
    save(module.state_dict(), folder / "state_dict.pt")
    code = module.graph.python_code("self")
    lines = [_HEAD.rstrip(), *_imports(code.globals), "", f"class {name}(torch.nn.Module):", "    def __init__(self):"]
    lines.append("        super().__init__()")
    lines += [f"        {line}" for line in _members(module, folder)]
    lines.append('        self.load_state_dict(torch.load(FOLDER / "state_dict.pt"))\n')
    lines += [f"    {line}" if line.strip() else "" for line in code.src.strip("\n").rstrip().splitlines()]
    (folder / "module.py").write_text("\n".join(lines) + "\n")
    (folder / "__init__.py").write_text("from .module import *\n")


def _imports(names: dict) -> list[str]:
    """Lines for what the forward names beside torch."""
    known = {"torch", "inf", "nan", "device", "NoneType"}
    found = []
    for name, value in names.items():
        if isinstance(value, ModuleType) and name not in known:
            found.append(f"import {_torchs(value.__name__)} as {name}")
        elif name not in known:
            kind = value if isinstance(value, type) else type(value)
            home = getattr(value, "__module__", None) or kind.__module__
            own = getattr(value, "__qualname__", None) or _type_name(value)
            found.append(f"from {_torchs(home)} import {own} as {name}")
    return found


def _torchs(path: str) -> str:
    """What a program calls a module of the package."""
    return "torch" + path.removeprefix("narthex") if path.split(".")[0] == "narthex" else path


def _members(module, folder: Path) -> list[str]:
    """Lines that make what the module holds."""
    found = []
    for name, part in module.named_children():
        if type(part) in _AS_TEXT:
            found.append(f"setattr(self, {name!r}, {part!r})")
        else:
            save(part, folder / f"{name}.pt")
            found.append(f'setattr(self, {name!r}, torch.load(FOLDER / "{name}.pt", weights_only=False))')
    for name, value in module._buffers.items():
        if value is not None:
            keep = name not in module._non_persistent_buffers_set
            made = _empty(value) if keep else repr(value.tolist())
            made = made if keep else f"torch.tensor({made}, dtype={value.dtype})"
            found.append(f"self.register_buffer({name!r}, {made}, persistent={keep})")
    for name, value in module._parameters.items():
        if value is not None:
            found.append(f"setattr(self, {name!r}, torch.nn.Parameter({_empty(value)}, {value.requires_grad}))")
    return found


def _empty(value) -> str:
    return f"torch.empty({list(value.shape)}, dtype={value.dtype})"
