"""Profiles: what is counted, and when, beside PyTorch."""

import gzip
import inspect
import json
import threading
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
    ranges = [e for e in profiled.events() if e.is_user_annotation]
    assert [e.cpu_parent.key if e.cpu_parent else None for e in ranges][:4] == [None, "outer", "outer", "inner"]
    starts = [e.time_range.start for e in profiled.events()]
    assert starts == sorted(starts) and all(e.time_range.elapsed_us() > 0 for e in profiled.events())


def train(m):
    """Starts from the same numbers under both; every operator in it is one that both call."""
    w, x = (m.arange(12.0).reshape(3, 4).requires_grad_(), m.ones(2, 4))
    loss = (m.nn.functional.linear(x, w) * 2.0).relu().sum()
    loss.backward()
    m.optim.SGD([w], lr=0.1).step()


def shown(profiled, same):
    return [(e.name, e.input_shapes, e.cpu_parent.name if e.cpu_parent and e.cpu_parent.name in same else None)
            for e in profiled.events() if e.name in same]  # fmt: skip


def test_operators_and_nodes_are_pytorchs():
    same = {"aten::linear", "aten::t", "aten::mul", "aten::relu", "aten::sum", "aten::threshold_backward",
            "aten::ones_like", "aten::expand", "Optimizer.step#SGD.step"}  # fmt: skip
    nodes = ("SumBackward0", "ReluBackward0", "MulBackward0", "torch::autograd::AccumulateGrad")
    same |= {"autograd::engine::evaluate_function: " + name for name in nodes}
    found = []
    for m in BOTH:
        with m.profiler.profile(record_shapes=True) as profiled:
            train(m)
        found.append(shown(profiled, same))
        scopes = [e.scope for e in profiled.events() if e.name in nodes]
        assert scopes == [1] * len(nodes)
    assert found[0] == found[1] and len(found[0]) > 14


def test_arguments():
    for m in BOTH:
        with m.profiler.profile(record_shapes=True) as profiled:
            m.ones(2, 3).sum(1, True)
            m.cat([m.ones(2), m.ones(3)])
            m.ones(2, 3) * 2.5
        (summed,) = (e for e in profiled.events() if e.name == "aten::sum")
        assert summed.input_shapes == [[2, 3], [], [], []] and summed.concrete_inputs == [None, [1], True, None]
        (joined,) = (e for e in profiled.events() if e.name == "aten::cat")
        assert joined.input_shapes == [[], []] and joined.concrete_inputs == [None, 0]
        apart = profiled.key_averages(group_by_input_shape=True)
        counts = {str(e.input_shapes): e.count for e in apart if e.key == "aten::ones"}
        assert sum(counts.values()) == 4
        assert all(e.input_shapes == "" for e in profiled.key_averages())
    with nt.profiler.profile() as profiled:
        nt.ones(2) + 1
    assert [e.input_shapes for e in profiled.events()] == [[], []]


def test_memory():
    for m in BOTH:
        x = m.ones(100, 100)
        with m.profiler.profile(profile_memory=True) as profiled:
            with m.profiler.record_function("kept"):
                y = x * x
            with m.profiler.record_function("dropped"):
                x + x
            with m.profiler.record_function("freed"):
                del y
        bytes_ = {e.key: (e.cpu_memory_usage, e.self_cpu_memory_usage) for e in profiled.key_averages()}
        assert bytes_["aten::mul"] == bytes_["aten::add"] == (40000, 40000), bytes_
        assert bytes_["kept"] == (40000, 0) and bytes_["dropped"] == (0, -40000) and bytes_["freed"] == (-40000, -40000)
        assert "CPU Mem" in profiled.key_averages().table()


@pytest.mark.parametrize("size", [1, 10, 60, 300, 3000])
def test_memory_of_small_tensors(size):
    kept = [nt.ones(size) for _ in range(5)]
    with nt.profiler.profile(profile_memory=True) as profiled:
        x = nt.ones(size)
        with nt.profiler.record_function("freed"):
            del x, kept
    sums = {e.key: e.cpu_memory_usage for e in profiled.key_averages()}
    assert sums == {"aten::ones": 4 * size, "freed": -4 * 6 * size}
    kept = [nt.ones(size) for _ in range(3)]  # the lists of free tensors are in use again
    assert float(sum(each.sum() for each in kept)) == 3 * size


def test_flops():
    found, heads = [], []
    for m in BOTH:
        x = m.ones(6, 5)
        with m.profiler.profile(with_flops=True) as profiled:
            x @ x.t()
            m.addmm(m.ones(6, 6), x, x.t())
            m.bmm(x[None], x.t()[None])
            m.nn.functional.conv2d(x[None, None], m.ones(2, 1, 2, 3), stride=2, padding=1)
            x * x
        found.append({e.key: e.flops for e in profiled.key_averages() if e.flops})
        heads.append(profiled.key_averages().table().splitlines()[1].split()[-2:])
    assert found[0] == found[1] and len(found[0]) == 5 and heads[0] == heads[1] == ["Total", "FLOPs"]


def test_stacks(tmp_path):
    with nt.profiler.profile(with_stack=True) as profiled:
        train(nt)
    (event,) = (e for e in profiled.events() if e.name == "aten::relu")
    assert event.stack[0].endswith(": train") and ": test_stacks" in event.stack[1]
    (node,) = (e for e in profiled.events() if e.name == "ReluBackward0")
    assert any(place.endswith(": train") for place in node.stack)
    text = profiled.key_averages(group_by_stack_n=2).table()
    assert "Source Location" in text and ": train" in text
    profiled.export_stacks(str(tmp_path / "stacks"))
    lines = (tmp_path / "stacks").read_text().splitlines()
    assert any(line.rpartition(" ")[0].endswith(":_train") and line.rpartition(" ")[2].isdigit() for line in lines)
    with nt.profiler.profile() as profiled:
        train(nt)
    with pytest.raises(AssertionError, match="requires with_stack=True"):
        profiled.export_stacks("stacks")


def test_table():
    texts = []
    for m in BOTH:
        with m.profiler.profile(record_shapes=True, profile_memory=True) as profiled:
            work(m)
        table = profiled.key_averages().table
        texts.append(table(sort_by="count", row_limit=2).splitlines())
        assert table(sort_by="cuda_time_total").count("\n") > 4 and table(row_limit=0).count("\n") == 5
        with pytest.raises(AttributeError, match="'FunctionEventAvg' object has no attribute 'nope'"):
            table(sort_by="nope")
        assert "Input Shapes" in profiled.key_averages(True).table()
        assert table(header="hello").splitlines()[1] == "hello"
        (top,) = (line for line in table(top_level_events_only=True, time_unit="ms").splitlines() if "outer" in line)
        assert top.split()[2].endswith("ms") and "inner" not in table(top_level_events_only=True)
    mine, theirs = texts
    assert mine[1].split() == theirs[1].split() and len(mine) == len(theirs)
    assert nt.profiler.profile().table() == ""


def test_traces(tmp_path):
    for m in BOTH:
        for name, opened in (("trace.json", open), ("trace.json.gz", gzip.open)):
            with m.profiler.profile(record_shapes=True) as profiled, m.profiler.record_function("all"):
                train(m)
            profiled.export_chrome_trace(str(tmp_path / name))
            with opened(tmp_path / name, "rt") as file:
                events = json.load(file)["traceEvents"]
        spans = [e for e in events if e["ph"] == "X" and e["cat"] in ("cpu_op", "user_annotation")]
        (whole,) = (e for e in spans if e["name"] == "all")
        assert whole["cat"] == "user_annotation" and len(spans) > 20
        inside = [e for e in spans if e["name"] == "aten::relu"]
        assert inside[0]["cat"] == "cpu_op" and inside[0]["args"]["Input Dims"] == [[2, 3]]
        assert whole["ts"] <= inside[0]["ts"] and inside[0]["ts"] + inside[0]["dur"] <= whole["ts"] + whole["dur"]
        starts, ends = ([e["id"] for e in events if e["ph"] == phase] for phase in "sf")
        assert sorted(starts) == sorted(ends) and len(starts) >= 4


def test_compiled_graphs_and_their_steps():
    for mode in ("default", "max-autotune", "reduce-overhead"):
        compiled = nt.compile(lambda x: (x @ x).softmax(-1).sum(), mode=mode)
        x = nt.ones(4, 4, requires_grad=True)
        with nt.profiler.profile() as first:
            compiled(x).backward()
        with nt.profiler.profile() as profiled:
            compiled(x).backward()
        for each in (first, profiled):
            events = [(e.name, e.cpu_parent.name if e.cpu_parent else None) for e in each.events()]
            assert ("CompiledFunction", None) in events
            assert ("aten::mm", "CompiledFunction") in events and ("aten::mm", "CompiledFunctionBackward") in events
            assert not [name for name, _ in events if name == "MmBackward0"]  # the trace is no run


def test_what_is_recorded_where():
    with nt.profiler.profile() as outer:
        nt.ones(1)
        with nt.autograd.profiler.profile() as inner:
            nt.zeros(1)
        thread = threading.Thread(target=lambda: work(nt))
        thread.start()
        thread.join()
        nt.full((1,), 2.0)
    assert [e.name for e in outer.events()] == ["aten::ones", "aten::full"]
    assert [e.name for e in inner.function_events] == ["aten::zeros"]
    a, b = nt.profiler.profile(), nt.profiler.profile()
    a.start()
    b.start()
    with pytest.raises(RuntimeError, match="not the one that is on in this thread"):
        a.stop()
    b.stop()
    a.stop()
    profiled = nt.profiler.profile()
    with pytest.raises(RuntimeError, match="an error"), profiled, nt.profiler.record_function("range"):
        nt.ones(2) + 1
        raise RuntimeError("an error")
    assert [e.name for e in profiled.events()] == ["range", "aten::ones", "aten::add"]
    with profiled, pytest.raises(RuntimeError):
        nt.ones(2) @ nt.ones(3)
    assert [e.name for e in profiled.events()] == ["aten::ones", "aten::ones", "aten::matmul", "aten::dot"]


def test_loaders_and_steps_are_ranges():
    found = []
    for m in BOTH:
        data = m.utils.data.TensorDataset(m.ones(4, 2))
        with m.profiler.profile(schedule=m.profiler.schedule(wait=1, warmup=0, active=2)) as profiled:
            for _ in m.utils.data.DataLoader(data, batch_size=2):
                profiled.step()
        found.append({e.key for e in profiled.key_averages() if e.is_user_annotation})
    assert found[0] == found[1] and "ProfilerStep*" in found[0]


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
    for use_gzip, end in ((False, ".pt.trace.json"), (True, ".pt.trace.json.gz")):
        folder = tmp_path / end
        with nt.profiler.profile(on_trace_ready=nt.profiler.tensorboard_trace_handler(str(folder), "w", use_gzip)):
            work(nt)
        (path,) = folder.iterdir()
        assert path.name.startswith("w.") and path.name.endswith(end)


def test_what_is_not_recorded_is_refused():
    for m in BOTH:
        with pytest.warns(UserWarning, match="CUDA is not available, disabling CUDA profiling"):
            with m.profiler.profile(activities=[m.profiler.ProfilerActivity.CPU, m.profiler.ProfilerActivity.CUDA]):
                pass
        with pytest.raises(AssertionError, match="No activities specified for the profiler"):
            m.profiler.profile(activities=[m.profiler.ProfilerActivity.CUDA]).start()
        early = {"events": "accessing events", "key_averages": "getting key averages", "stop": "stopping trace"}
        for name, what in early.items():
            with pytest.raises(AssertionError, match=f"Profiler must be initialized before {what}"):
                getattr(m.profiler.profile(), name)()
        with pytest.raises(AssertionError, match="No valid profiler activities found"):
            m.profiler.profile(activities=[])
    with pytest.raises(NotImplementedError, match="activities of XPU"):
        nt.profiler.profile(activities=[nt.profiler.ProfilerActivity.XPU])
    with pytest.raises(NotImplementedError, match="with_modules is not there"):
        nt.profiler.profile(with_modules=True)
    with nt.autograd.profiler.profile(enabled=False) as profiled:
        work(nt)
    assert profiled.function_events == []


@pytest.mark.parametrize("m", [nt, torch], ids=["narthex", "torch"])
def test_traces_have_names(m) -> None:
    with m.profiler.profile(custom_trace_id_callback=lambda: "mine") as profile:
        m.ones(2) + 1
    assert profile.get_trace_id() == "mine"
    profile = m.profiler.profile()
    assert profile.get_trace_id() is None
    profile.set_custom_trace_id_callback(lambda: "later")
    with profile:
        m.ones(2) + 1
    assert profile.get_trace_id() == "later" and len(m.autograd.profiler.profile().default_trace_id()) == 32


def test_what_profiles_take() -> None:
    for path in ("profiler.profile", "autograd.profiler.profile"):
        ours, theirs = nt, torch
        for name in path.split("."):
            ours, theirs = getattr(ours, name), getattr(theirs, name)
        assert [*inspect.signature(ours).parameters] == [*inspect.signature(theirs).parameters]
