"""Profiles of named ranges: what is counted, and when, beside PyTorch."""

import json
import warnings

import narthex as nt
import pytest
import torch

BOTH = (nt, torch)


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def work(m):
    @m.profiler.record_function("decorated")
    def decorated():
        return m.ones(2) + 1

    for _ in range(3):
        with m.profiler.record_function("outer"):
            decorated()
            with m.profiler.record_function("inner"):
                decorated()


def names(profiled):
    return {e.key: e.count for e in profiled.key_averages() if e.key in ("outer", "inner", "decorated")}


def test_ranges_are_counted():
    for m in BOTH:
        work(m)  # outside of any profile
        with m.profiler.profile(activities=[m.profiler.ProfilerActivity.CPU]) as profiled:
            work(m)
        work(m)
        assert names(profiled) == {"outer": 3, "inner": 3, "decorated": 6}


def test_times_add_up():
    with nt.profiler.profile() as profiled:
        work(nt)
    outer, inner = (next(e for e in profiled.key_averages() if e.key == key) for key in ("outer", "inner"))
    assert outer.cpu_time_total >= inner.cpu_time_total > 0 and outer.cpu_time == outer.cpu_time_total / 3
    assert outer.self_cpu_time_total < outer.cpu_time_total
    whole = sum(e.cpu_time_total for e in profiled.events() if e.cpu_parent is None)
    assert profiled.self_cpu_time_total == pytest.approx(whole)
    assert [e.cpu_parent.key if e.cpu_parent else None for e in profiled.events()][:4] == [
        None, "outer", "outer", "inner",
    ]  # fmt: skip


def test_table_and_trace(tmp_path):
    with nt.profiler.profile() as profiled:
        work(nt)
    rows = profiled.key_averages().table(sort_by="count", row_limit=2).splitlines()
    with torch.profiler.profile() as theirs:
        work(torch)
    assert rows[1].split() == theirs.key_averages().table().splitlines()[1].split()
    assert rows[3].split()[0] == "decorated" and rows[3].split()[-1] == "6" and len(rows) == 7
    with pytest.raises(AttributeError, match="sort_by='cuda_time_total' is not recorded"):
        profiled.key_averages().table(sort_by="cuda_time_total")
    profiled.export_chrome_trace(str(tmp_path / "trace.json"))
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert len(events) == 12 and {e["name"] for e in events} == {"outer", "inner", "decorated"}
    assert all(e["ph"] == "X" and e["dur"] > 0 for e in events)


PLANS = (
    {"wait": 1, "warmup": 1, "active": 2, "repeat": 1},
    {"wait": 0, "warmup": 0, "active": 1},
    {"wait": 2, "warmup": 1, "active": 3, "skip_first": 2, "repeat": 2},
    {"wait": 1, "warmup": 1, "active": 1, "skip_first": 1, "skip_first_wait": 1, "repeat": 2},
)


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_schedules(plan):
    mine, theirs = ([m.profiler.schedule(**plan)(step).name for step in range(20)] for m in BOTH)
    assert mine == theirs


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_steps(plan, tmp_path):
    seen = []
    for m in BOTH:
        found = []
        ready = lambda profiled, found=found: found.append((profiled.step_num, names(profiled)))  # noqa: E731
        with m.profiler.profile(schedule=m.profiler.schedule(**plan), on_trace_ready=ready) as profiled:
            for _ in range(9):
                work(m)
                profiled.step()
        seen.append(found)
    assert seen[0] == seen[1]


def test_traces_in_a_folder(tmp_path):
    ready = nt.profiler.tensorboard_trace_handler(str(tmp_path / "logs"), "w")
    with nt.profiler.profile(on_trace_ready=ready):
        work(nt)
    (path,) = (tmp_path / "logs").iterdir()
    assert path.name.startswith("w.") and path.name.endswith(".pt.trace.json")


def test_what_is_not_recorded_is_refused():
    with pytest.raises(NotImplementedError, match="profile_memory=True"):
        nt.profiler.profile(profile_memory=True)
    with pytest.raises(NotImplementedError, match="activities of CUDA"):
        nt.profiler.profile(activities=[nt.profiler.ProfilerActivity.CUDA])
    nt.autograd.profiler._warned = False
    with pytest.warns(UserWarning, match="operators are not recorded"), nt.autograd.profiler.profile() as profiled:
        work(nt)
    assert names(profiled) == {"outer": 3, "inner": 3, "decorated": 6}
    with nt.autograd.profiler.profile(enabled=False) as profiled:
        work(nt)
    assert profiled.events() == []
