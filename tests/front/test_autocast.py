"""torch.autocast and GradScaler beside PyTorch: what is cast, numbers, gradients, state, compiled functions."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import narthex as nt
import pytest
import torch
from both import close, over

HALF = 2e-2  # relative, of bfloat16's 8 bits


def values(module: Any) -> dict[str, Any]:
    """float32, bfloat16, batched and index tensors with the same elements in both."""
    x = torch.tensor([[(5 * i + 3 * j) % 7 / 7 - 0.4 for j in range(4)] for i in range(4)])
    made = {"x": x, "b": x.bfloat16(), "x3": torch.stack([x, x + 1]), "d": x.double(), "i": torch.tensor([0, 1, 2, 3])}
    return {k: over(v) if module is nt else v for k, v in made.items()}


CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "mm": lambda m, v: m.mm(v["x"], v["x"]),
    "bmm": lambda m, v: m.bmm(v["x3"], v["x3"]),
    "addmm": lambda m, v: m.addmm(v["x"], v["x"], v["x"]),
    "matmul": lambda m, v: m.matmul(v["x3"], v["x"]),
    "linear": lambda m, v: m.nn.functional.linear(v["x"], v["x"], v["x"][0]),
    "mixed": lambda m, v: v["x"] @ v["b"],
    "double": lambda m, v: v["d"] @ v["d"],
    "vector": lambda m, v: m.mv(v["x"], v["x"][0]),
    "attention": lambda m, v: m.nn.functional.scaled_dot_product_attention(v["x3"], v["x3"], v["x3"]),
    "softmax": lambda m, v: m.nn.functional.softmax(v["b"], -1),
    "layer_norm": lambda m, v: m.nn.functional.layer_norm(v["b"], (4,)),
    "cross_entropy": lambda m, v: m.nn.functional.cross_entropy(v["b"], v["i"]),
    "nll_loss": lambda m, v: m.nn.functional.nll_loss(v["b"], v["i"]),
    "mse_loss": lambda m, v: m.nn.functional.mse_loss(v["b"], v["b"] * 2),
    "l1_loss": lambda m, v: m.nn.functional.l1_loss(v["b"], v["b"] * 2),
    "smooth_l1_loss": lambda m, v: m.nn.functional.smooth_l1_loss(v["b"], v["b"] * 2),
    "huber_loss": lambda m, v: m.nn.functional.huber_loss(v["b"], v["b"] * 2),
    "kl_div": lambda m, v: m.nn.functional.kl_div(v["b"], v["b"].sigmoid(), reduction="sum"),
    "bce": lambda m, v: m.nn.functional.binary_cross_entropy(v["b"].sigmoid(), v["b"].sigmoid()),
    "bce_with_logits": lambda m, v: m.nn.functional.binary_cross_entropy_with_logits(v["b"], v["b"].sigmoid()),
    "prod": lambda m, v: m.prod(v["b"]),
    "baddbmm": lambda m, v: m.baddbmm(v["x3"], v["x3"], v["x3"]),
    "einsum": lambda m, v: m.einsum("ij,jk->ik", v["x"], v["x"]),
    "trace": lambda m, v: m.trace(v["b"]),
    "cat": lambda m, v: m.cat([v["x"], v["b"]]),
    "cat of halves": lambda m, v: m.cat([v["b"], v["b"]]),
    "stack": lambda m, v: m.stack([v["b"], v["x"]]),
    "hstack": lambda m, v: m.hstack([v["b"], v["x"]]),
    "vstack of halves": lambda m, v: m.vstack([v["b"], v["b"]]),
    "dstack with whole numbers": lambda m, v: m.dstack([v["b"][0], v["i"], v["x"][0]]),
    "column_stack": lambda m, v: m.column_stack([v["i"], v["b"]]),
    "add": lambda m, v: v["x"] + v["b"],
    "gelu": lambda m, v: m.nn.functional.gelu(v["b"]),
    "in place": lambda m, v: v["x"].clone().addmm_(v["x"], v["x"]),
    "fftn": lambda m, v: m.fft.fftn(v["b"]),
    "irfft": lambda m, v: m.fft.irfft(v["b"]),
    "stft": lambda m, v: m.stft(v["b"].flatten(), 4, window=m.ones(4), return_complex=True),
    "polar": lambda m, v: m.polar(v["b"].abs(), v["b"]),
    "solve": lambda m, v: m.linalg.solve(v["b"] + m.eye(4) * 3, v["b"]),
    "inv": lambda m, v: m.linalg.inv((v["x"] + m.eye(4) * 3).bfloat16()),
    "cholesky": lambda m, v: m.linalg.cholesky((m.eye(4) * 3).bfloat16()),
    "qr": lambda m, v: m.linalg.qr((m.eye(4) * 3).bfloat16())[1].abs(),
    "svdvals": lambda m, v: m.linalg.svdvals(v["b"]),
    "matrix_rank": lambda m, v: m.linalg.matrix_rank(v["b"]).float(),
    "lstsq": lambda m, v: m.linalg.lstsq((m.eye(4) * 3).bfloat16(), v["b"])[0],
    "vecdot": lambda m, v: m.linalg.vecdot(v["x"], v["x"]),
    "prelu": lambda m, v: m.nn.functional.prelu(v["x"], v["x"][0, :1]),
    "cdist": lambda m, v: m.cdist(v["b"], v["b"] * 2),
    "quantile": lambda m, v: m.quantile(v["b"], 0.3, 0),
    "grid_sample": lambda m, v: m.nn.functional.grid_sample(
        v["b"][None, None], v["b"][:2].reshape(1, 2, 2, 2), align_corners=False
    ),
    "reflection": lambda m, v: m.nn.functional.pad(v["b"][None], (1, 1), "reflect"),
    "replication": lambda m, v: m.nn.functional.pad(v["b"][None], (1, 1), "replicate"),
    "constant": lambda m, v: m.nn.functional.pad(v["b"][None], (1, 1)),
    "avg_pool2d": lambda m, v: m.nn.functional.avg_pool2d(v["b"][None, None], 2),
    "avg_pool3d": lambda m, v: m.nn.functional.avg_pool3d(v["b"][None, None], (1, 2, 2)),
    "max_pool2d": lambda m, v: m.nn.functional.max_pool2d(v["b"][None, None], 2),
    "max_pool3d": lambda m, v: m.nn.functional.max_pool3d(v["b"][None, None], (1, 2, 2)),
    "adaptive_avg_pool3d": lambda m, v: m.nn.functional.adaptive_avg_pool3d(v["b"][None, None], 1),
    "soft_margin_loss": lambda m, v: m.nn.functional.soft_margin_loss(v["b"], v["b"].sign()),
    "multi_margin_loss": lambda m, v: m.nn.functional.multi_margin_loss(v["b"], v["i"]),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_dtypes_and_numbers(name: str, dtype: str) -> None:
    with torch.autocast("cpu", getattr(torch, dtype)):
        try:
            theirs = CALLS[name](torch, values(torch))
        except RuntimeError as error:
            pytest.skip(f"PyTorch: {str(error).splitlines()[0]}")
    with nt.autocast("cpu", getattr(nt, dtype)):
        try:
            mine = CALLS[name](nt, values(nt))
        except AttributeError as error:
            pytest.skip(f"not there yet: {error}")
    close(mine, theirs, HALF, HALF)


def network(module: Any) -> tuple[Any, Any, Any]:
    module.manual_seed(0)
    net = module.nn.Sequential(
        module.nn.Linear(8, 16), module.nn.LayerNorm(16), module.nn.GELU(), module.nn.Linear(16, 4)
    )
    return net, module.randn(6, 8), module.tensor([0, 1, 2, 3, 0, 1])


def train(module: Any, run: Callable[..., Any], net: Any, x: Any, y: Any, steps: int = 4) -> list[float]:
    optimizer, losses = module.optim.SGD(net.parameters(), lr=0.5), []
    for _ in range(steps):
        with module.autocast("cpu", module.bfloat16):
            loss = module.nn.functional.cross_entropy(run(x), y)
        assert loss.dtype is module.float32
        loss.backward()
        assert all(p.grad.dtype is module.float32 for p in net.parameters())
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("mode", [None, "max-autotune", "reduce-overhead"])
def test_training(mode: str | None) -> None:
    mine, theirs = network(nt), network(torch)
    run = nt.compile(mine[0], mode=mode) if mode else mine[0]
    losses = train(nt, run, *mine)
    assert losses == pytest.approx(train(torch, theirs[0], *theirs), rel=HALF)
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("mode", ["max-autotune", "reduce-overhead"])
def test_inside_a_compiled_function(mode: str) -> None:
    def run(x: Any, w: Any) -> Any:
        with nt.autocast("cpu", nt.bfloat16):
            y = x @ w
        return y, x @ w

    x = values(nt)["x"]
    low, full = nt.compile(run, mode=mode)(x, x)
    assert low.dtype is nt.bfloat16 and full.dtype is nt.float32
    close(low, over(run(x, x)[0]), 0, 0)


# ---- switched inside of a compiled function --------------------------------------------------------------------------
def for_a_part(x: Any, w: Any) -> Any:
    with nt.autocast("cpu", nt.bfloat16):
        y = x @ w
    return y, x @ w


def nested(x: Any, w: Any) -> Any:
    with nt.autocast("cpu", nt.bfloat16):
        a = x @ w
        with nt.autocast("cpu", nt.float16):
            b = x @ w
        with nt.autocast("cpu", enabled=False):
            c = x @ w
        d = nt.nn.functional.softmax(a, -1)
    return a, b, c, d


def left_by_an_exception(x: Any, w: Any) -> Any:
    try:
        with nt.amp.autocast("cpu", nt.bfloat16):
            y = x @ w
            raise ValueError
    except ValueError:
        pass
    return y, x @ w


@nt.autocast("cpu", nt.bfloat16)
def decorated(x: Any, w: Any) -> Any:
    return x @ w


def calls_decorated(x: Any, w: Any) -> Any:
    return decorated(x, w), x @ w


def left_on(x: Any, w: Any) -> Any:
    nt.set_autocast_enabled("cpu", True)
    y = x @ w
    return y


LAYER = nt.nn.Linear(3, 3)


def with_parameters(x: Any, w: Any) -> Any:
    with nt.autocast("cpu", nt.bfloat16):
        return LAYER(x), LAYER(LAYER(x)) @ w


def broken_inside(x: Any, w: Any) -> Any:
    with nt.autocast("cpu", nt.bfloat16):
        y = x @ w
        for _ in range(2):
            print(end="")
            y = y @ w
        print(end="")
    return y, x @ w


SWITCHES = [for_a_part, nested, left_by_an_exception, calls_decorated, left_on, with_parameters]


def state() -> tuple:
    return nt._C.autocast_get("cpu"), nt._C.autocast_nesting(0), nt._C.autocast_cache()


def outcome(function: Callable[..., Any], x: Any, w: Any, outer: bool) -> tuple[list, tuple]:
    with nt.autocast("cpu", nt.bfloat16) if outer else nullcontext():
        results = function(x, w)
        after = state()
        nt.set_autocast_enabled("cpu", outer)
    results = results if isinstance(results, tuple) else (results,)
    (gradient,) = nt.autograd.grad(sum(r.float().sum() for r in results), x)
    return [*results, gradient], after


@pytest.mark.parametrize("outer", [False, True])
@pytest.mark.parametrize("mode", ["max-autotune", "reduce-overhead"])
@pytest.mark.parametrize("function", [*SWITCHES, broken_inside])
def test_switched_inside(function: Callable[..., Any], mode: str, outer: bool) -> None:
    nt.manual_seed(0)
    x, w = nt.randn(3, 3, requires_grad=True), nt.randn(3, 3)
    compiled = nt.compile(function, mode=mode, fullgraph=function is not broken_inside)
    before = state()
    for _ in range(3):
        mine, mine_after = outcome(compiled, x, w, outer)
        eager, eager_after = outcome(function, x, w, outer)
        assert mine_after == eager_after and state() == before
        for a, b in zip(mine, eager, strict=True):
            assert a.dtype is b.dtype
            close(a, over(b), HALF, HALF)
    assert function is broken_inside or compiled.entries == 1


def test_dtype_that_is_set_is_guarded() -> None:
    def run(x: Any) -> Any:
        with nt.autocast("cpu"):
            return x @ x

    function, x = nt.compile(run, fullgraph=True), nt.ones(2, 2)
    assert function(x).dtype is nt.bfloat16 and function(x).dtype is nt.bfloat16 and function.entries == 1
    nt.set_autocast_dtype("cpu", nt.float16)
    try:
        assert function(x).dtype is nt.float16
    finally:
        nt.set_autocast_dtype("cpu", nt.bfloat16)
    assert function(x).dtype is nt.bfloat16 and function.entries == 2


def test_compiled_function_is_guarded() -> None:
    function = nt.compile(lambda x: x @ x)
    x = values(nt)["x"]
    assert function(x).dtype is nt.float32
    with nt.autocast("cpu", nt.bfloat16):
        assert function(x).dtype is nt.bfloat16
        with nt.autocast("cpu", enabled=False):
            assert function(x).dtype is nt.float32
        with nt.autocast("cpu", nt.float16):
            assert function(x).dtype is nt.float16
    assert function(x).dtype is nt.float32


def test_state_is_put_back() -> None:
    for module in (nt, torch):
        x = values(module)["x"]
        seen = []
        try:
            with module.autocast("cpu", module.float16):
                seen.append((x @ x).dtype)
                with module.autocast("cpu", enabled=False):
                    seen.append((x @ x).dtype)
                    assert not module.is_autocast_enabled("cpu")
                with module.amp.autocast(device_type="cpu"):
                    seen.append(module.get_autocast_dtype("cpu"))
                raise KeyError
        except KeyError:
            pass
        assert not module.is_autocast_enabled("cpu") and module.get_autocast_dtype("cpu") is module.bfloat16
        assert [str(dtype) for dtype in seen] == ["torch.float16", "torch.float32", "torch.float16"]


def test_decorator() -> None:
    for module in (nt, torch):
        x = values(module)["x"]

        @module.autocast("cpu", dtype=module.bfloat16)
        def inner(n: int, x: Any = x, module: Any = module) -> Any:
            return inner(n - 1) if n else module.mm(x, x)

        # PyTorch's autocast forgets the state of before when it is entered twice
        assert inner(2 if module is nt else 0).dtype is module.bfloat16 and module.mm(x, x).dtype is module.float32


def test_parameters_are_cast_once() -> None:
    for module in (nt, torch):
        w = module.nn.Parameter(values(module)["x"])
        x = values(module)["x"].requires_grad_()
        with module.autocast("cpu"):
            casts = [(x @ w).grad_fn.next_functions[1][0] for _ in range(2)]
            again = (x @ w).sum()
            again.backward()
            with module.no_grad():
                assert not (x @ w).requires_grad
        with module.autocast("cpu"):
            later = (x @ w).grad_fn.next_functions[1][0]
        assert casts[0] == casts[1] and casts[0] != later
        with module.autocast("cpu", cache_enabled=False):
            casts = [(x @ w).grad_fn.next_functions[1][0] for _ in range(2)]
        assert casts[0] != casts[1]


@pytest.mark.parametrize("n", [1, 62, 63, 200])
def test_long_lists(n: int) -> None:
    results = []
    for module in (nt, torch):
        halves = [module.full((2,), float(i)).bfloat16() for i in range(n)]
        with module.autocast("cpu"):
            results += [module.cat([module.ones(2), *halves]), module.stack(halves), module.cat(halves)]
    for ours, theirs in zip(results[:3], results[3:], strict=True):
        assert str(ours.dtype) == str(theirs.dtype)
        assert ours.tolist() == theirs.tolist()


def test_messages() -> None:
    for module in (nt, torch):
        with pytest.raises(ValueError, match="Expected `device_type` of type `str`"):
            module.autocast(3)
        with pytest.raises(RuntimeError, match="device.* abc|device_type 'abc'"):
            module.autocast("abc")
        with pytest.warns(UserWarning, match="In CPU autocast, but the target dtype is not supported. Disabling"):
            off = module.autocast("cpu", module.float64)
        with off:
            assert not module.is_autocast_enabled("cpu")


def test_on_a_device() -> None:
    from narthex.compat import torch_npu  # noqa: F401  (adds npu:0)

    x, expected = values(nt)["x"], values(torch)["x"]
    with nt.autocast("npu", nt.bfloat16):
        assert (x @ x).dtype is nt.float32
        y = x.to("npu:0") @ x.to("npu:0")
    close(y.cpu(), (expected.bfloat16() @ expected.bfloat16()), HALF, HALF)


def scaled_run(module: Any) -> list[Any]:
    """Scales, losses and gradients over steps of which one has an infinite gradient."""
    seen: list[Any] = []
    p = module.nn.Parameter(module.tensor([1.0, -2.0]))
    optimizer = module.optim.SGD([p], lr=0.1)
    scaler = module.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)
    for step in range(6):
        loss = (p * p).sum() * (float("inf") if step == 3 else 1.0)
        scaler.scale(loss).backward()
        if step % 2:
            scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        seen += [scaler.get_scale(), *p.tolist()]
    state = scaler.state_dict()
    other = module.amp.GradScaler("cpu")
    other.load_state_dict(state)
    return [*seen, other.get_scale(), sorted(state.items())]


def test_scaler() -> None:
    mine, theirs = scaled_run(nt), scaled_run(torch)
    assert mine[-1] == theirs[-1] and mine[:-1] == pytest.approx(theirs[:-1], rel=1e-6)


def test_scaler_messages() -> None:
    for module in (nt, torch):
        p = module.nn.Parameter(module.tensor([1.0]))
        optimizer = module.optim.SGD([p], lr=0.1)
        scaler = module.amp.GradScaler("cpu")
        with pytest.raises(AssertionError, match="Attempted step but _scale is None"):
            scaler.step(optimizer)
        scaler.scale((p * p).sum()).backward()
        scaler.unscale_(optimizer)
        with pytest.raises(RuntimeError, match="has already been called on this optimizer since the last update"):
            scaler.unscale_(optimizer)
        scaler.step(optimizer)
        with pytest.raises(RuntimeError, match="has already been called since the last update"):
            scaler.step(optimizer)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            off = module.amp.GradScaler(enabled=False)
        assert not caught and off.get_scale() == 1.0 and off.state_dict() == {} and not off.is_enabled()
