"""torch._dynamo.config and its like, and the names of torch.compiler and torch._dynamo that stand around capture."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import narthex as torch
import pytest
import torch as oracle
from narthex.compiler import guards

MODULES = ("_dynamo", "_inductor", "_functorch", "compiler")


def config(side: Any, name: str) -> Any:
    return import_module(f"{side.__name__}.{name}.config")


DEFAULTS = """import pickle, sys
from importlib import import_module
modules = [import_module(f"torch.{name}.config") for name in sys.argv[1:]]
sys.stdout.buffer.write(pickle.dumps([{k: v for k, v in module.get_config_copy().items()
    if isinstance(v, (bool, int, float, type(None)))} for module in modules]))
"""


@pytest.fixture(scope="module")
def defaults() -> dict:
    """{module: PyTorch's defaults}, where no environment variable (CI and two hundred others) changes one."""
    bare = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    command = [sys.executable, "-c", DEFAULTS, *MODULES]
    done = subprocess.run(command, env=bare, capture_output=True, check=True, timeout=300)
    return dict(zip(MODULES, pickle.loads(done.stdout), strict=True))


@pytest.mark.parametrize("name", MODULES)
def test_names_and_defaults_are_pytorchs(name: str, defaults: dict) -> None:
    ours, plain = config(torch, name).get_config_copy(), defaults[name]
    assert set(ours) <= set(config(oracle, name).get_config_copy())
    apart = [key for key in ours if key in plain and ours[key] != plain[key]]
    assert [key for key in apart if "dir" not in key] == []


@pytest.mark.parametrize("name", MODULES)
def test_unknown_names(name: str) -> None:
    for side in (torch, oracle):
        module = config(side, name)
        with pytest.raises(AttributeError, match=rf"torch\.{name}\.config\.foo does not exist"):
            module.foo = 1
        with pytest.raises(AttributeError, match="does not exist"):
            _ = module.foo


def test_other_names_of_a_setting_and_patches() -> None:
    ours, other = config(torch, "_dynamo"), config(torch, "compiler")
    with ours.patch(recompile_limit=3):
        assert (ours.cache_size_limit, other.recompile_limit) == (3, 3) and not ours.is_default("recompile_limit")
        other.recompile_limit = 5
        assert ours.recompile_limit == 5
    assert ours.recompile_limit == other.recompile_limit == 8
    inside = config(torch, "_inductor")

    @inside.patch({"triton.cudagraphs": True})
    def read() -> bool:
        return inside.triton.cudagraphs

    assert read() and not inside.triton.cudagraphs
    inside.triton.unique_kernel_names = False
    saved = inside.save_config()
    assert "triton.unique_kernel_names = False" in inside.codegen_config()
    del inside.triton.unique_kernel_names
    assert inside.triton.unique_kernel_names and inside.codegen_config() == ""
    inside.load_config(saved)
    assert not inside.triton.unique_kernel_names
    inside.triton.unique_kernel_names = True
    with pytest.raises(Exception, match="in the settings"):
        inside.load_config(b"cos\nsystem\n.")


def test_a_backend_that_fails() -> None:
    def fails(gm: Any, inputs: list) -> Any:
        raise ValueError("of the backend")

    function = torch.compile(lambda x: x + 1, backend=fails)
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as caught:
        function(torch.ones(2))
    assert str(caught.value) == "backend='fails' raised:\nValueError: of the backend"
    assert type(caught.value.inner_exception) is ValueError
    with config(torch, "_dynamo").patch(suppress_errors=True):
        assert torch.compile(lambda x: x + 2, backend=fails)(torch.ones(2)).tolist() == [3.0, 3.0]


def test_settings_without_effect_are_told(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import torch, torch._inductor.config\n"
        "torch._inductor.config.coordinate_descent_tuning = True\n"
        "torch._dynamo.config.suppress_errors = True\n"
    )
    narthex = Path(sys.executable).with_name("narthex")
    run = subprocess.run([narthex, "run", program], capture_output=True, text=True, check=True)
    assert run.stderr.strip() == (
        "narthex run: set and without effect: torch._inductor.config.coordinate_descent_tuning"
    )


WEIGHT = 3.0


def scaled(x: Any, held: dict) -> Any:
    return x * WEIGHT * held["factor"]


@pytest.mark.parametrize(
    ("keep", "expected"),
    [(None, 8.0), (guards.skip_guard_on_globals_unsafe, 6.0), (guards.skip_all_guards_unsafe, 6.0),
     (guards.keep_tensor_guards_unsafe, 6.0), (guards.keep_portable_guards_unsafe, 8.0)],
)  # fmt: skip
def test_guards_that_are_left_out(keep: Any, expected: float, monkeypatch: pytest.MonkeyPatch) -> None:
    torch._dynamo.reset()
    function = torch.compile(scaled, options={"guard_filter_fn": keep} if keep else None)
    assert function(torch.ones(1), {"factor": 2}).item() == 6.0
    monkeypatch.setitem(globals(), "WEIGHT", 4.0)
    assert function(torch.ones(1), {"factor": 2}).item() == expected


def test_what_stands_around_capture() -> None:
    import numpy

    wrapped = torch.compiler.wrap_numpy(lambda a, b: {"sum": numpy.add(a, b)})
    assert wrapped(torch.ones(2), torch.ones(2))["sum"].tolist() == [2.0, 2.0]
    found = torch._dynamo.export(lambda x, y: torch.relu(x) + y)(torch.ones(2), torch.ones(2))
    assert found.graph_module(torch.ones(2), torch.ones(2)).tolist() == [2.0, 2.0]
    with pytest.raises(ValueError, match="-1"):
        torch._dynamo.set_recursion_limit(0)
    assert torch.compiler.save_cache_artifacts() is None and not torch.compiler.set_enable_guard_collectives(True)

    class Asks(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x + 1 if torch.compiler.is_exporting() else x

    x = torch.ones(2)
    assert torch.export.export(Asks(), (x,)).module()(x).tolist() == [2.0, 2.0] and not torch.compiler.is_exporting()
    with torch._dynamo.override_cudagraphs(fwd=False), torch._dynamo.disable_nested_graph_breaks():
        assert torch.compile(torch._dynamo.nonstrict_trace(torch.relu))(x).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("name", ["narthex", "aot_eager", "compile_fx", "own inner"])
@pytest.mark.parametrize("dynamic", [None, True, False])
def test_backends_hand_graphs_on_whatever_their_sizes(name: str, dynamic: bool | None) -> None:
    from narthex._inductor.compile_fx import compile_fx, compile_fx_inner

    seen, inner_saw = [], []

    def inner(gm: Any, example_inputs: Any, **kwargs: Any) -> Any:
        inner_saw.append(kwargs["is_backward"])
        return compile_fx_inner(gm, example_inputs, **kwargs)

    def backend(gm: Any, example_inputs: Any) -> Any:
        seen.append([node.target for node in gm.graph.find_nodes(op="call_function")])
        if name == "own inner":
            return compile_fx(gm, example_inputs, inner_compile=inner)
        return compile_fx(gm, example_inputs) if name == "compile_fx" else torch._dynamo.lookup_backend(name)(gm, [])

    def function(x: Any, w: Any) -> Any:
        return torch.nn.functional.relu(x.view(x.size(0), -1) @ w) * x.size(0)

    compiled, gradients = torch.compile(function, backend=backend, dynamic=dynamic, fullgraph=True), []
    for n in (2, 3, 5, 2):
        for each in (function, compiled):
            x, w = torch.ones(n, 2, 3), torch.arange(24.0).view(6, 4).requires_grad_()
            result = each(x, w)
            result.sum().backward()
            gradients.append([result.detach(), w.grad])
    for expected, got in zip(gradients[::2], gradients[1::2]):
        torch.testing.assert_close(got, expected)
    assert len(seen) == {None: 2, True: 1, False: 3}[dynamic] and torch.nn.functional.relu in seen[0]
    assert set(inner_saw) == ({False, True} if name == "own inner" else set())


def test_options_of_compile_fx() -> None:
    from narthex._inductor.compile_fx import compile_fx

    gm = torch.fx.symbolic_trace(lambda x: x * 2 + 1)
    call = compile_fx(gm, [torch.ones(2)], config_patches={"max_autotune": True})
    assert call(torch.ones(2)).tolist() == [3, 3]
    with pytest.raises(RuntimeError, match="Unexpected optimization option wrong"):
        compile_fx(gm, [torch.ones(2)], config_patches={"wrong": True})
