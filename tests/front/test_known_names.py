"""Names that users of the compiler meet (../shared/reference/known-names.txt): each does what it does in PyTorch when
it is called. torchair and torch_npu have tests of their own (test_torchair.py), and so has jit (test_jit_script.py).
"""

from __future__ import annotations

from contextlib import contextmanager, redirect_stderr
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any

import narthex as nt
import pytest
import torch as pt

KNOWN = Path(__file__).resolve().parents[2].parent / "shared" / "reference" / "known-names.txt"
ELSEWHERE = ("torchair", "torch_npu", "torch.jit", "torch._lazy")


def of(m: Any, path: str) -> Any:
    return import_module(f"{m.__name__}.{path}")


def double(x: Any) -> Any:
    return x * 2


def frames_of(m: Any) -> Any:
    return of(m, "_C._dynamo.eval_frame")


def asked(m: Any, callback: Any) -> list:
    """What double gives while the callback is set."""
    hook = frames_of(m)
    hook.reset_code(double.__code__)
    before = hook.set_eval_frame(callback)
    try:
        return double(m.ones(2)).tolist()
    finally:
        assert hook.set_eval_frame(before) is callback
        hook.reset_code(double.__code__)


# ---- one function a name: what it gives, the same on both sides ----------------------------------------------------
def set_eval_frame(m: Any) -> Any:
    names: list = []

    def callback(frame: Any, entry: Any, state: Any) -> Any:
        names.append(frame.f_code.co_name)
        return of(m, "_dynamo.types").ConvertFrameReturn()

    return asked(m, callback), "double" in names, asked(m, False), asked(m, None)


def optimize(m: Any) -> Any:
    exported: list = []
    failed: list = []
    make = m._dynamo.optimize(
        backend="eager",
        nopython=True,
        guard_export_fn=lambda guards: exported.append(len(guards) > 0),
        guard_fail_fn=lambda failure: failed.append(type(failure).__name__),
        disable=False,
        dynamic=False,
    )
    compiled = make(lambda x, k: x + k)
    found = [compiled(m.ones(2), k).tolist() for k in (1, 2, 2)]
    left = m._dynamo.optimize(disable=True)(double)
    return found, exported, failed, left is double


def context(m: Any) -> Any:
    frame = of(m, "_dynamo.eval_frame")
    found = frame._TorchDynamoContext(None)(double)(m.ones(2)).tolist()
    with pytest.raises(AssertionError):
        frame._TorchDynamoContext("eager")
    return found


def optimize_context(m: Any) -> Any:
    frame, convert = of(m, "_dynamo.eval_frame"), of(m, "_dynamo.convert_frame")
    counter, entered = m._dynamo.testing.CompileCounter(), []
    hooks = of(m, "_dynamo.hooks").Hooks()

    @contextmanager
    def inside() -> Any:
        entered.append("in")
        yield
        entered.append("out")

    callback = convert.catch_errors_wrapper(convert.convert_frame(counter, hooks), hooks)
    compiled = frame.OptimizeContext(callback, inside)(lambda x: x - 3)
    return compiled(m.ones(2)).tolist(), counter.frame_count, entered


def optimized_module(m: Any) -> Any:
    frame = of(m, "_dynamo.eval_frame")
    m.manual_seed(0)
    lazy = m.nn.LazyLinear(2)
    compiled = m.compile(lazy, backend="eager")
    assert type(compiled) is frame.OptimizedModule and compiled._orig_mod is lazy
    assert isinstance(compiled.dynamo_ctx, frame._TorchDynamoContext)
    first = compiled._call_lazy_check(m.ones(1, 3))
    again = frame.OptimizedModule(lazy, compiled.dynamo_ctx)
    again._initialize()
    assert type(lazy).__name__ == "Linear" and callable(compiled.get_compiler_config)
    same = m.equal(first, again(m.ones(1, 3)))
    return first.shape, same, sorted(again.state_dict()), compiled._torchdynamo_orig_callable == lazy.forward


def optimize_catch_errors(m: Any) -> Any:
    frame, convert = of(m, "_dynamo.eval_frame"), of(m, "_dynamo.convert_frame")
    hooks, counter = of(m, "_dynamo.hooks").Hooks(), m._dynamo.testing.CompileCounter()
    entered: list = []

    @contextmanager
    def inside() -> Any:
        entered.append(1)
        yield

    made = frame._optimize_catch_errors(
        convert.convert_frame(counter, hooks),
        hooks,
        backend_ctx_ctor=inside,
        compiler_config={"mine": 1},
        rebuild_ctx=lambda: None,
    )
    compiled = made(lambda x: x * 5)
    return compiled(m.ones(1)).item(), counter.frame_count, entered, compiled.get_compiler_config()


def converts(kind: str) -> Any:
    def call(m: Any) -> Any:
        convert = of(m, "_dynamo.convert_frame")
        hooks, counter = of(m, "_dynamo.hooks").Hooks(), m._dynamo.testing.CompileCounter()
        made = getattr(convert, kind)(*((counter, hooks) if kind in ("convert_frame", "ConvertFrame") else (counter,)))
        callback = convert.catch_errors_wrapper(made, hooks)
        return asked(m, callback), counter.frame_count, counter.op_count, type(made).__name__, type(callback).__name__

    return call


def nested_fx_trace(m: Any) -> Any:
    config, compiled = m._dynamo.config, m.compile(double, backend="eager")
    assert config.error_on_nested_fx_trace is True
    with pytest.raises(RuntimeError, match="symbolically trace a dynamo-optimized function"):
        m.fx.symbolic_trace(lambda x: compiled(x) + 1)
    with config.patch(error_on_nested_fx_trace=False):
        return m.fx.symbolic_trace(lambda x: compiled(x) + 1)(m.ones(1)).item()


def nested_jit_trace(m: Any) -> Any:
    config = m._dynamo.config
    assert config.error_on_nested_jit_trace is True
    with config.patch(error_on_nested_jit_trace=False):
        return config.error_on_nested_jit_trace, m.compile(double, backend="eager")(m.ones(1)).item()


def list_backends(m: Any) -> Any:
    everything = m._dynamo.list_backends(exclude_tags=())
    assert {"inductor", "narthex"} <= set(m._dynamo.list_backends())
    return [name in everything for name in ("eager", "aot_eager", "inductor")]


def simplified(m: Any) -> Any:
    seen: list = []

    def compiler(name: str) -> Any:
        def compiles(gm: Any, inputs: list) -> Any:
            seen.append((name, [str(n.target) for n in gm.graph.nodes if n.op == "call_function"]))
            return gm.forward

        return compiles

    def backend(gm: Any, inputs: list) -> Any:
        make = of(m, "_functorch.aot_autograd").aot_module_simplified
        return make(gm, inputs, fw_compiler=compiler("forward"), bw_compiler=compiler("backward"))

    x = m.ones(2, 2, requires_grad=True)
    m.compile(lambda x: (x @ x).sum(), backend=backend)(x).backward()
    return seen, x.grad.tolist()


def compiles(m: Any) -> Any:
    found = []
    modes: list = [{"mode": mode} for mode in ("default", "reduce-overhead", "max-autotune", None)]
    if m is nt:  # PyTorch's compile with a C++ compiler here, for a minute each
        for said in (*modes, {"mode": "max-autotune-no-cudagraphs"}, {"options": {"max_autotune": True}}):
            assert m.compile(double, **said)(m.ones(2)).tolist() == [2, 2], said
        on = {"device": "npu:0"} if of(m, "compat.torch_npu").npu.is_available() else {}
        assert m.compile(double, backend="npu")(m.ones(2, **on)).tolist() == [2, 2]
    found.append(m.compile(double, disable=True)(m.ones(2)).tolist())
    for said in ({"fullgraph": True}, {"dynamic": True}, {"recompile_limit": 3}, {"isolate_recompiles": True}):
        found.append(m.compile(double, backend="eager", **said)(m.ones(2)).tolist())
    with pytest.raises(RuntimeError, match="[Ee]ither mode or options"):
        m.compile(double, mode="default", options={"max_autotune": True})
    return found


def stance(m: Any) -> Any:
    counter, counts = m._dynamo.testing.CompileCounter(), []
    compiled = m.compile(lambda x: x * 7, backend=counter)
    for said in ("force_eager", "eager_on_recompile", "default"):
        with m.compiler.set_stance(said):
            assert compiled(m.ones(1)).item() == 7
        counts.append(counter.frame_count)
    with m.compiler.set_stance("fail_on_recompile"):
        assert compiled(m.ones(1)).item() == 7
        with pytest.raises(RuntimeError, match="fail_on_recompile"):
            compiled(m.ones(1, dtype=m.float64))
    return counts


def set_logs(m: Any) -> Any:
    said = StringIO()
    with redirect_stderr(said):
        try:
            m._logging.set_logs(graph_code=True)
            m.compile(lambda x: x * 11, backend="eager")(m.ones(2))
        finally:
            m._logging.set_logs()
    return "l_x_ * 11" in said.getvalue(), "[__graph_code]" in said.getvalue()


def add(m: Any) -> Any:
    overload, x = m.ops.aten.add.Tensor, m.ones(2)
    return overload(x, x, alpha=3).tolist(), str(overload), overload.name(), str(overload._schema)


def library(m: Any) -> Any:
    said: list = []
    with m.library._scoped_library("known_names", "DEF") as lib, m.library._scoped_library("_", "IMPL") as everywhere:
        lib.define("triple(Tensor x) -> Tensor")
        lib.impl("triple", lambda x: x * 3, "CPU")
        lib.define("other(Tensor x) -> Tensor")
        everywhere.fallback(lambda op, *args, **kwargs: said.append(str(op)), "PrivateUse1")
        with pytest.raises(RuntimeError, match="global namespace"):
            lib.fallback(lambda op: None, "PrivateUse1")
        return m.ops.known_names.triple(m.ones(2)).tolist(), lib.ns, lib.kind, said


def symbolic_trace(m: Any) -> Any:
    gm = m.fx.symbolic_trace(lambda x: m.relu(x) + 1)
    return [(n.op, n.name) for n in gm.graph.nodes], gm(-m.ones(2)).tolist()


CALLS: dict[str, Any] = {
    "torch._C._dynamo.eval_frame.set_eval_frame": set_eval_frame,
    "torch._dynamo.optimize": optimize,
    "torch._dynamo.eval_frame._TorchDynamoContext": context,
    "torch._dynamo.eval_frame.OptimizeContext": optimize_context,
    "torch._dynamo.eval_frame.OptimizedModule": optimized_module,
    "torch._dynamo.eval_frame._optimize_catch_errors": optimize_catch_errors,
    "torch._dynamo.convert_frame.convert_frame": converts("convert_frame"),
    "torch._dynamo.convert_frame.convert_frame_assert": converts("convert_frame_assert"),
    "torch._dynamo.convert_frame.ConvertFrame": converts("ConvertFrame"),
    "torch._dynamo.convert_frame.ConvertFrameAssert": converts("ConvertFrameAssert"),
    "torch._dynamo.convert_frame.catch_errors_wrapper": converts("convert_frame"),
    "torch._dynamo.config.error_on_nested_fx_trace": nested_fx_trace,
    "torch._dynamo.config.error_on_nested_jit_trace": nested_jit_trace,
    "torch._dynamo.list_backends": list_backends,
    "torch._functorch.aot_autograd.aot_module_simplified": simplified,
    "torch.compile": compiles,
    "torch.compiler.set_stance": stance,
    "torch._logging.set_logs": set_logs,
    "torch.ops.aten.add.Tensor": add,
    "torch.library.Library": library,
    "torch.fx.symbolic_trace": symbolic_trace,
}


@pytest.mark.parametrize("name", CALLS)
def test_what_a_name_does(name: str, record_property: Any) -> None:
    record_property("known_names", name)
    for m in (nt, pt):
        m._dynamo.reset()
    assert CALLS[name](nt) == CALLS[name](pt)


@pytest.mark.skipif(not KNOWN.exists(), reason="the list of known names is not beside the checkout")
def test_every_line_is_called() -> None:
    lines = [line.split()[0] for line in KNOWN.read_text().splitlines() if line.startswith(("torch.", "torchair."))]
    assert [name for name in lines if not name.startswith(ELSEWHERE)] == list(CALLS)
