"""Random graphs: compiled in each mode they give eager mode's results, layouts, sharing, written inputs and gradients;
with open sizes, called with others too, and with several threads that share even the smallest work.

A failure prints the smallest program that still fails; `python -m tests.compile.test_random_graphs SEED` prints one and
runs it, `... 0-1000` runs those.
"""

import linecache
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import narthex as nt
import numpy as np
import pytest
from narthex import _C

from .random_graphs import Other, Program, program, shrink

MODES = ("max-autotune", "reduce-overhead")
PROGRAMS, BLOCK = 1000, 125
STRICT = {"NARTHEX_POISON": "1", "NARTHEX_VERIFY_GRAPHS": "1"}
NOT_THERE = (
    "whose elements share their memory, in a compiled function is not there yet",
    "elements of the tensor that it writes share their memory",
)
REFUSED_EAGERLY = "a function that returns multiple views"  # of a view whose base is written: docs/differences.md


@dataclass(frozen=True)
class Way:
    """How a program is compiled, and with how many threads it runs."""

    mode: str
    device: str = "cpu"
    dynamic: bool | None = None
    threads: int = 1

    def compiled(self, function):
        return nt.compile(function, mode=self.mode, dynamic=self.dynamic, fullgraph=True)

    def sizes(self, made: Program) -> list[Other]:
        """Of the inputs, a call each."""
        return [None, *made.other_sizes(), None] if self.dynamic else [None, None]


def ways(seed: int, device: str = "cpu") -> list[Way]:
    threads = 2 + seed % 2 * 5 if device == "cpu" else 1
    several = Way(MODES[seed // 2 % 2], device, threads=threads)
    return [*(Way(mode, device) for mode in MODES), Way(MODES[seed % 2], device, dynamic=True), several]


@contextmanager
def threads_of(n: int) -> Iterator[None]:
    """n threads, which share even a byte's work where there are several."""
    before = nt.get_num_threads()
    nt.set_num_threads(n)
    _C.set_piece(int(n > 1))
    try:
        yield
    finally:
        nt.set_num_threads(before)
        _C.set_piece(0)


def function_of(made: Program):
    """f as a module's function, with its source where tracebacks find it."""
    text, file = made.text(), f"<graph {made.seed}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    scope = {}
    exec(compile(text, file, "exec"), scope)
    return scope["f"]


def elements(x):
    return x.detach().to(nt.float32 if x.dtype is nt.bfloat16 else x.dtype).cpu().numpy()


def described(x):
    strides = [stride for size, stride in zip(x.shape, x.stride()) if size > 1] if x.numel() else None
    return x.dtype, tuple(x.shape), strides, x.requires_grad


def same(a, b) -> bool:
    nan = a.dtype.is_floating_point
    return described(a) == described(b) and np.array_equal(elements(a), elements(b), equal_nan=nan)


def close(a, b) -> bool:
    """Of gradients: what meets at a tensor outside of the compiled function is added in another order."""
    if a is None or b is None:
        return a is b
    x, y = elements(a), elements(b)
    digits = 3e-2 if a.dtype is nt.bfloat16 else 1e-5
    scale = np.abs(x[np.isfinite(x)]).max(initial=0.0)
    return a.dtype is b.dtype and a.shape == b.shape and np.allclose(x, y, digits, digits * scale, equal_nan=True)


def outcome(made: Program, function, device: str, sizes: list[Other]) -> list:
    """For each call: what was refused, or results, inputs afterwards, who shares memory, gradients."""
    seen = []
    for other in sizes:
        inputs = made.arguments(device, other)
        nt.manual_seed(made.seed + 1)
        try:
            results = function(nt, *inputs)
            written = [i for i in inputs if not i.is_leaf]
            roots = [r for r in [*results, *written] if r.requires_grad]
            if roots:
                sum((r.to(nt.float32) * (k + 1)).sum() for k, r in enumerate(roots)).backward()
        except (RuntimeError, IndexError, ValueError) as error:
            seen.append(f"{type(error).__name__}: {error}")
            continue
        tensors = [*results, *inputs]
        there = [x for x in tensors if x.numel()]  # where an empty one lies is nobody's business
        shared = [a.data_ptr() == b.data_ptr() for a in there for b in there]
        seen.append([shared, tensors, [i.grad for i in inputs]])
    return seen


def differs(made: Program, way: Way) -> str | None:
    """What is wrong with the program compiled, None: nothing."""
    sizes = way.sizes(made)
    distinct = list(dict.fromkeys(sizes))
    eager = dict(zip(distinct, outcome(made, function_of(made), way.device, distinct), strict=True))
    try:
        with threads_of(way.threads):
            results = outcome(made, way.compiled(function_of(made)), way.device, sizes)
    except Exception as error:  # noqa: BLE001  (whatever it is, eager mode ran)
        return f"{type(error).__name__}: {error}"
    for other, got in zip(sizes, results, strict=True):
        expected = eager[other]
        if isinstance(expected, str) or isinstance(got, str):
            texts = [text for text in (expected, got) if isinstance(text, str)]
            if texts[0] is expected and REFUSED_EAGERLY in expected:
                continue
            if len(texts) < 2 and not any(known in texts[0] for known in NOT_THERE):
                eagerly, compiled = (part if isinstance(part, str) else "runs" for part in (expected, got))
                return f"sizes {other}: eager: {eagerly}\ncompiled: {compiled}"
            continue
        if expected[0] != got[0]:
            return f"sizes {other}: other tensors share memory"
        for part, agree, name in ((1, same, "results and inputs"), (2, close, "gradients")):
            for k, (a, b) in enumerate(zip(expected[part], got[part], strict=True)):
                if not agree(a, b):
                    return f"sizes {other}: tensor {k} of {name} differs:\n{a}\n{b}"
    return None


def fails(made: Program, way: Way) -> bool:
    try:
        return differs(made, way) is not None
    except Exception:  # noqa: BLE001  (it does not run eagerly any more)
        return False


def check(seed: int, device: str = "cpu") -> None:
    made = program(seed)
    for way in ways(seed, device):
        wrong = differs(made, way)
        if wrong is not None:
            least = shrink(made, lambda p: fails(p, way))  # noqa: B023  (used at once)
            text = f"{way}, inputs {least.inputs}\n{least.text()}{differs(least, way)}"
            pytest.fail(f"python -m tests.compile.test_random_graphs {seed}: {text}", pytrace=False)


@pytest.mark.parametrize("first", range(0, PROGRAMS, BLOCK))
def test_random_graphs(first):
    command = [sys.executable, "-m", __name__, f"{first}-{first + BLOCK}"]
    done = subprocess.run(command, env={**os.environ, **STRICT}, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith(f"{BLOCK} programs\n")


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_random_graphs_on_npu(first):
    import narthex.compat.torch_npu  # noqa: F401  (loads the plugin)

    for seed in range(first, first + 20):
        check(seed, "npu:0")


def main(arguments: list[str]) -> int:
    """The number of seeds that failed."""
    failed = n = 0
    warnings.simplefilter("error")
    for argument in arguments:
        first, dash, end = argument.partition("-")
        if not dash:
            print(program(int(first)).text())
        for seed in range(int(first), int(end) if dash else int(first) + 1):
            n += 1
            try:
                check(seed)
            except pytest.fail.Exception as failure:
                failed += 1
                print(failure)
    print(f"{failed} of {n} programs failed" if failed else f"{n} programs")
    return failed


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1:]), 1))
