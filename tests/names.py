"""PyTorch's public names, module by module, and which of them Narthex has.

`python -m tests.names` writes those that are not there into docs/names.md, with the reason of each;
tests/front/test_names.py holds the two together. A module is added by a row of SPACES.
"""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from typing import Any

import narthex as nt
import torch

PAGE = Path(__file__).resolve().parent.parent / "docs" / "names.md"
# What is compared: PyTorch's object, ours.
SPACES: dict[str, tuple[Any, str]] = {
    "torch": (torch, ""),
    "torch.Tensor": (torch.Tensor, "Tensor"),
    "torch.special": (torch.special, "special"),
}
# Why a name is not there: the first pattern that matches it whole.
REASONS = (
    (
        r"(to_)?sparse.*|.*_sparse(_.*)?|.*sparse_.*|spmm|smm|hspmm|hsmm|dsmm|saddmm|sspaddmm|crow_.*|ccol_.*"
        r"|(row|col|crow|ccol)_indices_copy|indices_copy|values_copy",
        "sparse tensors",
    ),
    (
        r".*quant.*|q_.*|qint.*|quint.*|qscheme|per_.*affine.*|per_(tensor|channel).*|fbgemm.*|int_repr|choose_.*",
        "quantised",
    ),
    (
        r"cudnn.*|miopen.*|mkldnn.*|to_mkldnn|xpu|ipu|mtia|mps|vulkan|is_vulkan.*|cuda.*|hip.*|.*CUDA.*",
        "another device",
    ),
    (r"u?int[1-7]|bits.*|bit|float4.*|float8_e8.*", "a dtype that PyTorch only stores"),
    (r".*Storage.*|storage.*|untyped_storage|.*_storage", "storages as objects"),
    (
        r"[A-Z]\w*(Type|Stmt|Value|Module|Graph|Method|Function|Error|Base|Iter|Unit|Observer|Logger|Range|Pool|Ser)"
        r"|parse_.*|import_ir.*|merge_type.*|unify_.*|fork|wait|.*jit.*|script.*",
        "TorchScript",
    ),
    (r".*_copy(_)?", "forms that copy what a view gives"),
    (r"(eig|symeig|lstsq|solve|reinforce)", "removed from PyTorch, where it raises"),
    (r"sym_.*|Sym.*", "sizes that are not known yet"),
)
OTHER = "not there yet"


def public(theirs: Any) -> list[str]:
    """The names without an underscore in front; of a module with `__all__` those that it lists."""
    names = getattr(theirs, "__all__", None) if isinstance(theirs, type(torch)) else None
    return sorted(name for name in (names or dir(theirs)) if not name.startswith("_"))


def has(ours: Any, name: str) -> bool:
    try:
        getattr(ours, name)
    except (AttributeError, NotImplementedError):
        return False
    return True


def of(space: str) -> Any:
    """Narthex's object of the space; None where there is none."""
    where: Any = nt
    for part in filter(None, SPACES[space][1].split(".")):
        if not has(where, part):
            return None
        where = getattr(where, part)
    return where


def absent(space: str) -> list[str]:
    """PyTorch's public names of the space that Narthex does not have."""
    ours = of(space)
    return [name for name in public(SPACES[space][0]) if ours is None or not has(ours, name)]


def reason(name: str) -> str:
    return next((text for pattern, text in REASONS if re.fullmatch(pattern, name)), OTHER)


def page() -> str:
    """The document: counts, and for each space the names by reason."""
    lines = ["# PyTorch's public names that Narthex does not have", "",
             "`python -m tests.names` writes this page from a count on both sides.", "",
             "| of | PyTorch has | Narthex has |", "|---|---|---|"]  # fmt: skip
    gone = {space: absent(space) for space in SPACES}
    for space, names in gone.items():
        total = len(public(SPACES[space][0]))
        lines.append(f"| `{space}` | {total} | {total - len(names)} |")
    for space, names in gone.items():
        if not names:
            continue
        lines += ["", f"## `{space}`"]
        for why in dict.fromkeys(map(reason, names)):
            listed = [f"`{name}`" for name in names if reason(name) == why]
            lines += ["", f"**{why}**: "]
            row = ""
            for word in listed:
                if len(row) + len(word) > 118:
                    lines.append(row.rstrip())
                    row = ""
                row += word + " "
            lines.append(row.rstrip())
    return "\n".join(line.rstrip() for line in lines) + "\n"


if __name__ == "__main__":
    importlib.import_module("narthex")
    PAGE.write_text(page())
    sys.stdout.write("\n".join(page().splitlines()[4:12]) + "\n")
