"""torch.utils.benchmark: what measurements tell and how tables show them is PyTorch's, to the letter; timers run."""

from __future__ import annotations

import itertools
import random
from typing import Any

import narthex.utils.benchmark
import pytest
import torch.utils.benchmark
from both import both

MINE, THEIRS = narthex.utils.benchmark, torch.utils.benchmark
TOLD = ("median", "iqr", "times", "significant_figures", "has_warnings", "title", "as_row_name")
NAMES = ("a", "longer name", None)


def measured(lib: Any, seed: int, envs: tuple) -> list:
    """Random results; of some ways there are none, of some several."""
    draw, made = random.Random(seed), []
    for label, threads, env, name, about in itertools.product(("one", None), (1, 4), envs, NAMES, ("n=1", "n=1000")):
        base = 10 ** (draw.uniform(-7, -1) if label else draw.uniform(-4, -3))
        spread, setup = draw.choice([0.01, 0.2, 0.8]), draw.choice(["pass", "y = 1", "y = 1\nz = 2"])
        spec = lib.TaskSpec("x + 1", setup, label=label, sub_label=name, description=about, env=env,
                            num_threads=threads)  # fmt: skip
        for _ in range(draw.choice([0, 1, 1, 1, 2])):
            times = [base * (1 + spread * draw.random()) for _ in range(draw.choice([1, 2, 5, 9, 40]))]
            made.append(lib.Measurement(draw.choice([1, 100]), times, spec))
    return made


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("envs", [(None,), ("old", "new env")], ids=["", "envs"])
def test_measurements_and_tables(seed: int, envs: tuple) -> None:
    mine, wanted = (measured(lib, seed, envs) for lib in (MINE, THEIRS))
    for one, other in zip(mine, wanted):
        assert [getattr(one, name) for name in TOLD] == [getattr(other, name) for name in TOLD]
        assert one.mean == pytest.approx(other.mean, rel=1e-12)
        assert repr(one).split("\n")[1:] == repr(other).split("\n")[1:]
    for trims, warns, colors in itertools.product((False, True), (False, True), (None, False, True)):
        texts = []
        for lib, results in ((MINE, mine), (THEIRS, wanted)):
            table = lib.Compare(results)
            if trims:
                table.trim_significant_figures()
            if warns:
                table.highlight_warnings()
            if colors is not None:
                table.colorize(rowwise=colors)
            texts.append(str(table))
        assert texts[0] == texts[1]


@pytest.mark.parametrize("x", [3.14159, 0.00123456, 99999.0, 1.0, 2.5e-8])
def test_figures_and_units(x: float) -> None:
    for n in (1, 2, 3):
        assert MINE.trim_sigfig(x, n) == THEIRS.trim_sigfig(x, n)
    assert MINE.select_unit(x) == THEIRS.select_unit(x)
    assert MINE.unit_to_english(MINE.select_unit(x)[0]) == THEIRS.unit_to_english(THEIRS.select_unit(x)[0])


def test_timers() -> None:
    for lib in (MINE, THEIRS):
        timer = lib.Timer("\n    y = x + 1\n    seen.append(1)", "x = torch.ones(1)", globals={"seen": []}, label="add")
        once = timer.timeit(200)
        assert once.number_per_run == 200 and len(once.raw_times) == 1 and once.median > 0 and once.title == "add"
        assert once.stmt == "y = x + 1\nseen.append(1)" and len(timer._globals["seen"]) == 202
        heard: list = []
        blocks = timer.blocked_autorange(lambda n, seconds, heard=heard: heard.append((n, seconds)), min_run_time=0.01)
        assert heard == [(blocks.number_per_run, seconds) for seconds in blocks.raw_times]
        assert sum(blocks.raw_times) >= 0.01 and blocks.number_per_run in [10**k for k in range(8)]
        assert len(timer.adaptive_autorange(threshold=10.0, min_run_time=0.001).raw_times) >= 4
        assert lib.Measurement.merge([once, once])[0].number_per_run == 1


WRONG = {
    "no_text": lambda lib: lib.utils.benchmark.Timer(3),
    "language": lambda lib: lib.utils.benchmark.Timer(language="cobol"),
    "global_setup": lambda lib: lib.utils.benchmark.Timer(global_setup="int x;"),
    "repeat": lambda lib: lib.utils.benchmark.Timer().repeat(),
    "autorange": lambda lib: lib.utils.benchmark.Timer().autorange(),
    "no_measurement": lambda lib: lib.utils.benchmark.Compare([3]),
    "figures": lambda lib: lib.utils.benchmark.trim_sigfig(1.0, 1.5),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_calls(what: str) -> None:
    mine, wanted = both(WRONG[what])
    assert type(mine) is type(wanted) and str(mine) == str(wanted)
