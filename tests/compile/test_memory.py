"""What compiled programs leave in memory: arenas are leased for a call, saved values go after their last reader.

Programs run in several threads."""

import os
import random
import signal
import threading

import narthex as nt
import pytest
from narthex import _C, _memory


def resident() -> int:
    """Bytes of this process that are in memory."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS")) * 1024


def step(x, w):
    h = (x @ w).tanh()
    return ((h * h + h).softmax(-1) * h).sum()


def test_random_shapes_leave_resident_memory_flat():
    """A thousand calls, rows drawn each time: after fifty neither the allocator nor the process grows."""
    before = _memory.memory_allocated()  # what tests before this one keep
    draw = random.Random(5)
    w = nt.randn(96, 512, requires_grad=True)
    f = nt.compile(step)
    reserved = used = 0
    for call in range(1000):
        x = nt.randn(draw.randint(1, 2000), 96)
        f(x, w).backward()
        w.grad = None
        del x
        if call == 50:
            _memory.reset_peak_memory_stats()
            reserved, used = _memory.memory_reserved(), resident()
    stats = _memory.memory_stats()
    assert stats["allocated_bytes.all.current"] - before < 4 << 20
    assert stats["reserved_bytes.all.peak"] <= max(reserved, stats["allocated_bytes.all.peak"]) * 5 // 4 + (96 << 20)
    assert resident() < used + (64 << 20)


def test_a_program_at_rest_has_no_arena():
    x, w = nt.randn(2000, 96), nt.randn(96, 512, requires_grad=True)
    before = _memory.memory_allocated()
    f = nt.compile(step)
    f(x, w).backward()
    w.grad = None
    assert _memory.memory_allocated() - before < 1 << 20


def test_a_recording_takes_no_memory_for_its_inputs():
    """reduce-overhead records a run on tensors that stand for the inputs: addresses alone."""
    weights = [nt.randn(768, 2048) for _ in range(12)]
    x = nt.randn(1, 768)
    f = nt.compile(lambda x, weights: sum(x @ w for w in weights), mode="reduce-overhead")
    _memory.reset_peak_memory_stats()
    before = _memory.memory_allocated()
    with nt.no_grad():
        f(x, weights)
    assert _memory.memory_stats()["allocated_bytes.all.peak"] - before < 1 << 20


def chain(x):
    for _ in range(8):
        x = x.tanh().cumsum(0)
    return x.sum()


@pytest.mark.parametrize("retain", [False, True])
def test_saved_values_go_after_their_last_reader(retain):
    """A backward that is the last one needs no more than what is saved and a few values beside."""
    x = nt.randn(1000, 1000, requires_grad=True)
    f = nt.compile(chain)
    f(x).backward()
    expected, x.grad = x.grad, None
    loss = f(x)
    saved = _memory.memory_allocated()
    _memory.reset_peak_memory_stats()
    loss.backward(retain_graph=retain)
    assert x.grad.tolist()[5] == expected.tolist()[5]
    held = saved - _memory.memory_allocated()
    if retain:
        assert held <= 0
        loss.backward()
    else:
        assert _memory.max_memory_allocated() - saved < 14 << 20  # of 32 MB that are saved, and 4 MB each
        assert held > 16 << 20
        with pytest.raises(RuntimeError, match="backward through the graph a second time"):
            loss.backward()


def test_a_result_is_made_when_it_is_written():
    """Gradients of 4 MB each, made one after the other while as much of what is saved goes."""
    x, weights = nt.randn(1000, 1000), [nt.randn(1000, 1000, requires_grad=True) for _ in range(8)]

    def layers(x, *weights):
        for w in weights:
            x = (x * w).cumsum(0)
        return x.sum()

    f = nt.compile(layers)
    f(x, *weights).backward()
    expected = [w.grad for w in weights]
    for w in weights:
        w.grad = None
    loss = f(x, *weights)
    saved = _memory.memory_allocated()
    _memory.reset_peak_memory_stats()
    loss.backward()
    assert _memory.max_memory_allocated() - saved < 18 << 20  # of 32 MB that the gradients take
    assert all(nt.equal(w.grad, g) for w, g in zip(weights, expected, strict=True))


def test_a_sum_that_is_a_result_lies_where_its_operand_lay():
    """Of two gradients of one tensor the first is made in the result, and the second one is added to it there."""
    made = []

    def backend(gm, inputs):
        made.append(gm.graph._c.aot(False).compile("max-autotune"))
        return made[0]

    def f(x, y):
        first = x @ y
        return first.cumsum(0).cumsum(1) + first, (x * y)

    x, y = nt.randn(300, 300), nt.randn(300, 300)
    out = nt.compile(f, backend=backend)(x, y)
    assert nt.equal(out[0], f(x, y)[0])
    plan = made[0].plan()
    assert "2: result0:f32[300, 300] = aten::cumsum" in plan, plan
    assert "3: result0:f32[300, 300] = aten::add.Tensor(result0:f32[300, 300], feature+0" in plan, plan


def test_empty_cache_and_counters():
    x = nt.randn(3000, 3000)
    assert _memory.memory_allocated() >= 36 << 20
    del x
    _memory.empty_cache()
    stats = _C.memory_stats("cpu")
    assert stats["reserved_bytes.large_pool.current"] == 0
    allocated, freed = (stats[f"allocated_bytes.all.{name}"] for name in ("allocated", "freed"))
    assert allocated - freed == stats["allocated_bytes.all.current"]
    assert "reserved_bytes" in _memory.memory_summary()
    assert "large pool" not in _memory.memory_summary(abbreviated=True)
    with pytest.raises(ValueError, match="Allowed range"):
        _memory.set_per_process_memory_fraction(2.0)
    with pytest.raises(TypeError, match="must be `float`"):
        _memory.set_per_process_memory_fraction(1)


def test_limit():
    _memory.empty_cache()
    _C.memory_set_limit("cpu", _memory.memory_reserved() + (64 << 20))
    try:
        with pytest.raises(MemoryError, match="out of memory. Tried to allocate"):
            nt.empty(40 << 20)
        assert nt.empty(10 << 20).numel() == 10 << 20
    finally:
        _C.memory_set_limit("cpu", 0)
    assert nt.empty(40 << 20).numel() == 40 << 20


def in_threads(work, arguments):
    """work(*arguments) in a thread for each; they begin together, and what they raise is raised here."""
    barrier, errors = threading.Barrier(len(arguments)), []

    def run(*given):
        try:
            barrier.wait()
            work(*given)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=given) for given in arguments]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_threads_share_a_compiled_function():
    inputs = [nt.randn(300, 300) for _ in range(4)]
    f = nt.compile(lambda x: ((x.tanh() * x).softmax(-1).cumsum(0) * 2).sum(0))
    expected = [f(x).tolist() for x in inputs]

    def work(x, want):
        for _ in range(30):
            assert f(x).tolist() == want

    in_threads(work, list(zip(inputs, expected, strict=True)))


@pytest.mark.parametrize("mode", ["max-autotune", "reduce-overhead"])
def test_threads_write_their_inputs(mode):
    """The first program writes its input where it lies, a twin's result is copied back: once each, no other input."""

    def add(x, k):
        x.add_(k.tanh().exp().tanh() * 0 + k)
        return x.sum(1)

    f = nt.compile(add, mode=mode)
    f(nt.zeros(1100, 1000), nt.ones(1000))
    inputs = [(nt.zeros(1100, 1000), nt.full((1000,), k)) for k in (1.0, 2.0, 3.0, 4.0)]

    def work(x, k):
        for n in range(1, 21):
            version = x._version
            assert nt.equal(f(x, k), (k * n).sum().expand(1100))
            assert x._version > version
            assert nt.equal(x, (k * n).expand(1100, 1000))

    in_threads(work, inputs)


@pytest.mark.parametrize("saved_goes", [False, True])
def test_a_second_backward_after_one_that_failed(saved_goes):
    """One that had begun has let go of what was saved; one that was refused says the same again."""
    x = nt.randn(2000, 2000, requires_grad=True)
    f = nt.compile(lambda x, w: ((x * w).tanh() * w).sum())
    w = nt.randn(2000, 2000)
    f(x, w).backward()
    x.grad = None
    loss = f(x, w)
    first = again = "modified by an inplace operation"
    if saved_goes:
        first, again = "out of memory", "backward through the graph a second time"
        _memory.empty_cache()
        _C.memory_set_limit("cpu", _memory.memory_reserved() + 1)
    else:
        w.add_(1)
    try:
        with pytest.raises((MemoryError, RuntimeError), match=first):
            loss.backward()
    finally:
        _C.memory_set_limit("cpu", 0)
    assert x.grad is None
    with pytest.raises(RuntimeError, match=again):
        loss.backward()
    w = nt.randn(2000, 2000)
    f(x, w).backward()
    assert x.grad is not None


def test_a_child_forked_while_programs_run():
    """It compiles, runs and differentiates, whatever its parent's threads had begun."""
    f = nt.compile(step)
    w = nt.randn(96, 512, requires_grad=True)
    expected = f(nt.ones(500, 96), w).item()
    stop = threading.Event()

    def works():
        while not stop.is_set():
            nt.compile(step)(nt.randn(800, 96), nt.randn(96, 512, requires_grad=True)).backward()

    threads = [threading.Thread(target=works) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(10):
            child = os.fork()
            if child == 0:
                signal.alarm(60)
                loss = f(nt.ones(500, 96), w)
                loss.backward()
                os._exit(0 if loss.item() == expected and w.grad is not None else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()
