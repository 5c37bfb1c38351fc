"""Random programs in which elements decide, between writes into memory of their own, of others and through views: one
graph gives eager's numbers and leaves what eager leaves, or it is refused. A failure prints its program.

`python -m tests.capture.test_random_elements 0-100000` runs as many."""

import random
import sys

import narthex as torch
import pytest
from narthex import _C

F = torch.nn.functional
MAKE = (
    "{a} + {b}", "{a}.view(-1)[:4].view(2, 2)", "{a}.reshape(2, 2)", "{a}.T", "{a}.contiguous()", "F.linear({a}, {b})",
    "torch.zeros(2, 2)", "{a}.clone()", "{a}.to(torch.float32)", "{a}.expand(2, 2)", "torch.relu_({a})", "{a}.data",
    "torch.zeros(2, 2).scatter_add_(0, ({a} > 0).long(), {b})", "torch.where({a} > 0, {a}, {b})", "{a}.squeeze()",
    "{a}.flatten().unflatten(0, (2, 2))", "torch.stack([{a}[0], {b}[1]])", "F.dropout({a}, 0.5, False)", "{a}.detach()",
    "{a}.chunk(1)[0]", "torch.tril({a})", "torch.as_strided({a}, (2, 2), (2, 1))", "{a}[({a}[0, 0] > 0).long():]",
    "max({a}[0, 0], {b}[0, 0]) + {a}",
)  # fmt: skip
DO = (
    "{a}.add_({b})", "{a} *= 2", "{a}[0] = {b}[1]", "torch.mm({a}, {b}, out={c})", "x.data = {a}",
    "{a}[:1].copy_({b}[:1])", "if {a}.sum() > 0: t = t + 1", "t = t * {a}.sum().sign().item()",
    "t = t + {a}[{a} > 0].sum()",
)  # fmt: skip


def program(seed):
    chance, names, lines = random.Random(seed), ["x", "y", "t"], ["t = x * 1"]
    for k in range(chance.randint(3, 9)):
        text = chance.choice(MAKE + DO)
        a, b, c = (chance.choice(names) for _ in range(3))
        lines.append((f"t{k} = " if text in MAKE else "") + text.format(a=a, b=b, c=c))
        names += [f"t{k}"] if text in MAKE else []
    return "\n    ".join(["def function(x, y):", *lines, f"return {', '.join(names[2:])},"])


def run(function, seed):
    """Results and what lies in the arguments and in a view of one behind each of four calls; None: it fails."""
    found = []
    for call in range(4):
        generator = torch.Generator().manual_seed(7 * seed + call % 3)
        x, y = torch.randn(2, 2, generator=generator), torch.randn(2, 2, generator=generator)
        shown = x.view(4)
        try:
            found += [*function(x, y), x, y, shown]
        except (_C.Unsupported, NotImplementedError):
            raise
        except (RuntimeError, IndexError):
            return None
    return str([t.tolist() for t in found])


def differs(seed):
    """The program of that seed, if one graph does otherwise."""
    text, space = program(seed), {"torch": torch, "F": F}
    exec(compile(text, f"<program {seed}>", "exec"), space)
    expected = run(space["function"], seed)
    if expected is None:
        return None
    try:
        found = run(torch.compile(space["function"], fullgraph=True), seed)
    except (_C.Unsupported, NotImplementedError):  # a write through expand, whose elements share their memory
        return None
    return None if found == expected else f"{text}\n{expected}\n{found}"


@pytest.mark.parametrize("first", range(0, 1000, 100))
def test_random_elements(first):
    assert not [wrong for seed in range(first, first + 100) if (wrong := differs(seed))]


if __name__ == "__main__":
    begin, end = map(int, sys.argv[1].split("-"))
    wrong = [text for seed in range(begin, end) if (text := differs(seed))]
    print("\n\n".join(wrong), f"{end - begin} programs, {len(wrong)} do otherwise", sep="\n")
    sys.exit(bool(wrong))
