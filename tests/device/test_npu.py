"""The reference accelerator from Python: numbers in every mode, faults on demand, asynchrony, forks."""

import contextlib
import os
import pathlib
import subprocess
import sys
import textwrap

import narthex as nt
import pytest
from narthex import _C
from narthex.compat import torch_npu

MODES = ["eager", "reduce-overhead", "max-autotune"]
yaml = pytest.importorskip("yaml")


def compiled(f, mode):
    return f if mode == "eager" else nt.compile(f, mode=mode)


def line(x, w, b):
    return (x @ w.t() * b + b).sum()


@contextlib.contextmanager
def control(name, value):
    _C.device_control("npu", name, value)
    try:
        yield
    finally:
        _C.device_control("npu", name, 0)


@pytest.mark.parametrize("mode", MODES)
def test_line_equals_the_cpu(mode):
    results = {}
    for device in ("cpu", "npu:0"):
        nt.manual_seed(1)
        x, w, b = nt.randn(4, 3), nt.randn(5, 3), nt.randn(5)
        leaves = [t.to(device).requires_grad_() for t in (w, b)]
        loss = compiled(line, mode)(x.to(device), *leaves)
        assert str(loss.device) == device
        loss.backward()
        results[device] = [loss.item(), *(leaf.grad.cpu().tolist() for leaf in leaves)]
    assert results["cpu"] == results["npu:0"]


@pytest.mark.parametrize("mode", MODES)
def test_nothing_falls_back_to_the_cpu(mode):
    _C.fallbacks_clear()
    w = nt.randn(5, 3).npu().requires_grad_()
    compiled(line, mode)(nt.randn(4, 3).npu(), w, nt.randn(5).npu()).backward()
    with nt.no_grad():
        w.add_(w.grad, alpha=-0.1)
    assert torch_npu.fallbacks() == {}


def test_results_of_replays_stay():
    f = compiled(lambda x: x * 2 + 1, "reduce-overhead")
    outs = [f(nt.ones_like(nt.randn(3)).npu() * k) for k in range(5)]
    assert [out.tolist() for out in outs] == [[2.0 * k + 1] * 3 for k in range(5)]


def test_random_numbers_are_the_same_in_every_mode():
    def draw(x):
        return nt.randn(7, device="npu") + x, nt.randn(2, 3, device="npu")

    drawn = {}
    for mode in MODES:
        f = compiled(draw, mode)
        nt.manual_seed(11)
        drawn[mode] = [[t.tolist() for t in f(nt.ones_like(nt.empty(7)).npu())] for _ in range(3)]
    assert drawn["eager"] == drawn["reduce-overhead"] == drawn["max-autotune"]
    assert drawn["eager"][0] != drawn["eager"][1]


def test_philox():
    """Published test vector: key 0, counter 0 gives 6627e8d5 e169c58d bc57ac4c 9b00dbd8."""
    import math

    words = (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)
    u = ((words[0] << 32 | words[1]) >> 11) * 2.0**-53 + 2.0**-54
    v = ((words[2] << 32 | words[3]) >> 11) * 2.0**-53
    radius = math.sqrt(-2 * math.log(u))
    nt.manual_seed(0)
    got = nt.randn(2, dtype=nt.float64, device="npu").tolist()
    assert got == pytest.approx([radius * math.cos(2 * math.pi * v), radius * math.sin(2 * math.pi * v)], rel=1e-14)


@pytest.mark.parametrize("dtype", [nt.float16, nt.bfloat16, nt.float32])
def test_random_numbers_are_rounded_from_one_sequence(dtype):
    nt.manual_seed(5)
    wide = nt.randn(101, dtype=nt.float64, device="npu").cpu()
    nt.manual_seed(5)
    narrow = nt.randn(101, dtype=dtype, device="npu").cpu()
    assert narrow.tolist() == wide.to(nt.float32).to(dtype).tolist()


def test_random_numbers_ignore_strides():
    nt.manual_seed(5)
    a = nt.empty(4, 3, device="npu").normal_()
    nt.manual_seed(5)
    b = nt.empty(3, 4, device="npu").t().normal_()
    assert a.tolist() == b.tolist() and b.stride() == (1, 4)


def test_out_of_memory():
    _C.alloc_watch(True)  # each tensor has memory of its own from the device
    with control("fail_alloc_at", 1), pytest.raises(MemoryError, match="out of memory"):
        nt.empty(3, device="npu")
    assert nt.empty(3, device="npu").shape == (3,)
    _C.alloc_watch(False)
    with pytest.raises(MemoryError, match="out of memory. Tried to allocate"):
        nt.empty(1 << 45, device="npu")
    _C.memory_empty_cache("npu")
    with control("memory_limit", 1 << 20), pytest.raises(MemoryError):
        nt.empty(1 << 20, device="npu")


def test_lost_device():
    x = nt.randn(3).npu()
    with control("lose_device", 1):
        for use in (lambda: x + x, x.cpu, lambda: nt.empty(3, device="npu"), lambda: _C.synchronize(nt.device("npu"))):
            with pytest.raises(RuntimeError, match="device is lost"):
                use()
    assert (x + x).cpu().tolist() == [2 * v for v in x.tolist()]


def test_unknown_control():
    with pytest.raises(ValueError, match="unknown name"):
        _C.device_control("npu", "nothing", 1)


def test_slow_copies_change_no_number():
    x = nt.randn(64)
    with control("slow_copy_us", 2000):
        y = x.npu()
        y.add_(y)
        x.add_(x)  # the copy has the elements already
        assert y.tolist() == x.tolist()


def test_one_device_at_a_time():
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        nt.randn(3) + nt.randn(3).npu()
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        nt.device("npu:7")
        nt.empty(1, device="npu:7")


def run(code):
    return subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60)


def test_a_child_of_a_user_is_told():
    done = run("""
        import os, sys
        import narthex as nt
        from narthex.compat import torch_npu
        x = nt.randn(3).npu()
        if os.fork() == 0:
            try:
                x + x
            except RuntimeError as error:
                os._exit(0 if "forked subprocess" in str(error) else 2)
            os._exit(1)
        sys.exit(os.waitstatus_to_exitcode(os.wait()[1]) or (x + x).shape != (3,))
    """)
    assert done.returncode == 0, done.stderr


def test_the_process_ends_with_work_pending():
    done = run("""
        import narthex as nt
        from narthex.compat import torch_npu
        x = nt.randn(200, 200).npu()
        for _ in range(100):
            y = x @ x
    """)
    assert done.returncode == 0 and done.stderr == ""


def test_plugins_of_the_environment():
    from narthex._paths import plugin_path

    env = dict(os.environ, NARTHEX_PLUGINS=str(plugin_path("npu")))
    code = "import narthex as nt; print(nt.empty(2, device='npu').device)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=env)
    assert done.stdout.strip() == "npu:0", done.stderr
    env["NARTHEX_PLUGINS"] = "/nonexistent.so"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=env)
    assert "device plugin /nonexistent.so" in done.stderr


def test_listed_operators_exist():
    path = pathlib.Path(__file__).parents[2] / "plugins/npu/npu_native_functions.yaml"
    listed = yaml.safe_load(path.read_text())
    assert set("aten::" + name for name in listed["official"]) <= set(_C.op_names())
    kinds = {line.split()[-2] for line in (path.parents[2] / "ops.txt").read_text().splitlines()[1:]}
    assert set(listed["kinds"]) <= kinds


def test_views_that_interleave_are_written_on_the_cpu():
    """An operator that the device lacks writes both; neither brings back old elements of the other's."""
    results = []
    for device in ("cpu", "npu:0"):
        x = nt.arange(8.0, device=device)
        nt._foreach_add_([x[::2], x[1::2]], [nt.ones(4, device=device), x[:4] * 10])
        nt._foreach_mul_([x[:6:3], x[1:7:3]], 2)
        results.append(x.tolist())
    assert results[0] == results[1]


# In place form and its mean and standard deviation.
DRAWN = {
    "uniform_": (lambda x: x.uniform_(-1, 3), 1.0, 4 / 12**0.5),
    "exponential_": (lambda x: x.exponential_(2.0), 0.5, 0.5),
    "geometric_": (lambda x: x.geometric_(0.25), 4.0, 12**0.5),
    "random_.from": (lambda x: x.random_(-3, 5), 0.5, (63 / 12) ** 0.5),
    "random_.to": (lambda x: x.random_(8), 3.5, (63 / 12) ** 0.5),
}


@pytest.mark.parametrize("name", DRAWN)
def test_draws(name: str) -> None:
    draw, mean, deviation = DRAWN[name]
    _C.fallbacks_clear()
    nt.manual_seed(5)
    drawn = draw(nt.empty(40_000, device="npu:0"))
    nt.manual_seed(5)
    turned = draw(nt.empty(200, 200, device="npu:0").t())  # element i has its number wherever it lies
    assert torch_npu.fallbacks() == {} and turned.reshape(-1).cpu().tolist() == drawn.cpu().tolist()
    found = drawn.cpu().double()
    assert found.mean().item() == pytest.approx(mean, abs=0.03 * deviation)
    assert found.std().item() == pytest.approx(deviation, rel=0.03)


def test_draws_of_integers() -> None:
    for dtype, most in ((nt.uint8, 255), (nt.bool, 1), (nt.int64, 2**63 - 1), (nt.float16, 2**11)):
        drawn = nt.empty(3000, device="npu:0", dtype=dtype).random_().cpu()
        assert 0 <= drawn.min().item() and most * 0.9 <= drawn.max().item() <= most
    assert sorted(nt.randperm(30, device="npu:0").tolist()) == list(range(30))
    with pytest.raises(RuntimeError, match="less than 'to'"):
        nt.empty(3, device="npu:0").random_(5, 5).cpu()


@pytest.mark.parametrize("name", ["rand_like", "randint_like", "randn_like"])
def test_draws_are_captured(name: str) -> None:
    def draw(x):
        return nt.randint_like(x, 9) if name == "randint_like" else getattr(nt, name)(x)

    x = nt.ones(5, device="npu:0")
    compiled = nt.compile(lambda x: draw(x) + 1, mode="reduce-overhead")
    for _ in range(2):
        nt.manual_seed(1)
        wanted = [draw(x) + 1, draw(x) + 1]
        nt.manual_seed(1)
        assert [compiled(x).tolist(), compiled(x).tolist()] == [one.tolist() for one in wanted]
