"""Bad calls over all families (bad_calls.txt): PyTorch's exception type and, but behind `~ `, its words."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import narthex as nt
import pytest
import torch

TABLE = Path(__file__).with_name("bad_calls.txt")
LINES = [line for line in TABLE.read_text().splitlines() if line and not line.startswith("# ")]


def ctc(t: Any, lp: Any = (5, 2, 4), tg: Any = None, il: Any = (5, 5), tl: Any = (2, 2), blank: int = 0) -> Any:
    targets = t.ones(2, 3, dtype=t.int64) if tg is None else tg
    return t.nn.functional.ctc_loss(t.zeros(*lp).log_softmax(-1), targets, t.tensor(il), t.tensor(tl), blank)


def told(text: str, t: Any) -> Exception:
    """What the call raises; `t` is torch, F, L, R modules of it."""
    names = {"t": t, "F": t.nn.functional, "L": t.linalg, "R": t.nn.utils.rnn, "x": t.ones(3, 4), "FARTHER": 1 << 62}
    names |= {"singular": t.stack([t.eye(3), t.zeros(3, 3), t.eye(3)]), "ctc": ctc}
    with pytest.raises(Exception) as caught:  # noqa: PT011
        eval(text, names)  # noqa: S307
    return caught.value


def plain(text: str) -> str:
    """The first line, without the operator in front, and of a kernel that is not there only the dtype."""
    text = text.split("\n")[0]
    kernel = re.search(r"not implemented for '\w+'", text)
    return kernel[0] if kernel else re.sub(r"^(aten::)?[\w.]+(\(\))?: ", "", text).rstrip(".")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("line", LINES)
def test_bad_call(line: str) -> None:
    call = line.removeprefix("~ ")
    mine, theirs = told(call, nt), told(call, torch)
    same_name = type(mine).__name__ == type(theirs).__name__  # torch.linalg.LinAlgError
    assert isinstance(mine, type(theirs)) or same_name, f"{type(mine)}: {mine}\n{type(theirs)}: {theirs}"
    says = plain(str(theirs)) in str(mine)
    if call == line:
        assert says, f"{mine}\n{theirs}"
    else:
        assert not says, "the words are PyTorch's now: take the mark away"
