"""What programs that compile reach for around it, beside PyTorch: torch._dynamo.utils, torch._dynamo.testing and
torch._logging."""

from __future__ import annotations

import logging
from typing import Any

import narthex
import pytest
import torch as pytorch
from torch._dynamo import testing as _testing  # noqa: F401  (loaded for torch._dynamo.testing)

SIDES = pytest.mark.parametrize("torch", [narthex, pytorch], ids=["narthex", "pytorch"])


def same_cases(torch: Any) -> list:
    """(expected, found, options)"""
    one, near, far = torch.ones(3), torch.ones(3) + 1e-5, torch.ones(3) * 1.1
    nan = torch.full((3,), float("nan"))
    return [
        (one, near, {}), (one, far, {}), (one, far, {"tol": 0.2}), (one, one.double(), {}),
        (one, one.double(), {"exact_dtype": False}), (one, far, {"cos_similarity": True}),
        (one, -one, {"cos_similarity": True}), (nan, nan, {}), (nan, nan, {"equal_nan": True}),
        ([one, (one, 3)], [near, (near, 3)], {}), ([one], [one, one], {}),
        ({"a": one, "b": 2}, {"b": 2, "a": near}, {}),
        ({"a": one}, {"a": far}, {}), (one > 0, one > 0, {}), (one > 0, one < 0, {}),
        (one > 0, one < 0, {"ignore_non_fp": True}), (1.0, 1.0 + 1e-6, {}), (1.0, 1.1, {}), ("a", "a", {}),
        (None, 3, {}),
        (1, 2, {"ignore_non_fp": True}), ({1, 2}, {2, 1}, {}), (one, far, {"fp64_ref": torch.ones(3).double() * 1.06}),
        (one, far, {"fp64_ref": torch.ones(3).double()}),
    ]  # fmt: skip


@pytest.mark.filterwarnings("ignore")
def test_same() -> None:
    found = []
    for torch in (narthex, pytorch):
        same = torch._dynamo.utils.same
        assert torch._dynamo.testing.same is same
        found.append([same(ref, res, **options) for ref, res, options in same_cases(torch)])
        for ref, res in (([1], 1), ({"a": 1}, {"b": 1}), ({1}, {2})):
            with pytest.raises(AssertionError, match="mismatch"):
                same(ref, res)
        with pytest.raises(RuntimeError, match="unsupported type: object"):
            same(object(), object())
    assert found[0] == found[1] and set(found[0]) == {True, False}


@SIDES
def test_copies_of_inputs(torch: Any) -> None:
    utils = torch._dynamo.utils
    x = torch.arange(6.0).view(2, 3).t().requires_grad_()
    x.grad = torch.ones(3, 2)
    y = utils.clone_input(x)
    assert y.stride() == (1, 3) and y.requires_grad and y.is_leaf and y.tolist() == x.tolist()
    assert y.grad is not x.grad and y.grad.tolist() == x.grad.tolist()
    assert utils.clone_input(torch.ones(1).expand(3)).tolist() == [1, 1, 1]
    listed, named = utils.clone_inputs((x, 3)), utils.clone_inputs({"x": x, "y": (x, "a")})
    assert listed[0] is not x and listed[1] == 3 and named["y"][1] == "a" and named["x"].tolist() == x.tolist()
    with pytest.raises(AssertionError, match="Expected value to be a torch.Tensor, got"):
        utils.clone_inputs({"x": 3})


@SIDES
def test_small_ones_of_utils(torch: Any, capsys: pytest.CaptureFixture) -> None:
    utils, nn = torch._dynamo.utils, torch.nn
    assert utils.istype([], list) and utils.istype([], (tuple, list)) and not utils.istype(True, int)
    assert utils.istensor(nn.Parameter(torch.ones(1))) and not utils.istensor(3)
    assert utils.is_lazy_module(nn.LazyLinear(2)) and not utils.is_lazy_module(nn.Linear(2, 2))
    module = nn.Linear(2, 2)
    assert not utils.nnmodule_has_hooks(module)
    module.register_forward_pre_hook(lambda module, inputs: None)
    assert utils.nnmodule_has_hooks(module, check_forward_hooks=True) and utils.nnmodule_has_hooks(module)
    assert not utils.nnmodule_has_hooks(module, check_backward_hooks=True, check_state_dict_hooks=True)
    assert utils.product([2, 3]) == 6 and utils.product([]) == 1 and utils.identity(3) == 3
    assert utils.count_calls(torch.fx.symbolic_trace(lambda x: x + 1 - x.sum()).graph) == 3
    with utils.preserve_rng_state():
        first = torch.rand(2)
    assert torch.rand(2).tolist() == first.tolist()
    restore = utils.checkpoint_params(module)
    before, drawn = module.weight.tolist(), torch.get_rng_state()
    with torch.no_grad():
        module.weight.add_(torch.rand(2, 2))
    restore()
    assert module.weight.tolist() == before and torch.equal(torch.get_rng_state(), drawn)
    assert utils.rmse(torch.zeros(2), torch.full((2,), 3.0)).item() == 3
    for _ in range(2):
        utils.print_once("once", torch.__name__)
    assert capsys.readouterr().out == f"once {torch.__name__}\n"
    with torch._subclasses.fake_tensor.FakeTensorMode() as mode:
        pass
    fake = utils.deepcopy_to_fake_tensor(module, mode)
    assert type(fake.weight) is not type(module.weight) or fake.weight._is_fake
    assert fake.weight.shape == (2, 2) and fake.weight.requires_grad and isinstance(fake.weight, nn.Parameter)
    with utils.disable_cache_limit():
        assert torch._dynamo.config.recompile_limit > 1000
    assert torch._dynamo.config.recompile_limit == 8


@SIDES
def test_times_of_compilations(torch: Any) -> None:
    utils = torch._dynamo.utils
    torch._dynamo.reset()
    utils.compilation_time_metrics.clear()
    for size in (2, 3):
        torch.compile(lambda x: x + 1, backend="eager", dynamic=False)(torch.ones(size))
    with utils.dynamo_timed("of a program"):
        pass
    headers, times = utils.compile_times("csv")
    at = headers.index("OutputGraph.call_user_compiler")
    each = [float(value) for value in times[at].split(", ")]
    assert len(each) == 2 and min(each) >= 0 and "of a program" in headers
    (total,) = [float(value) for value in utils.compile_times("csv", aggregate=True)[1][at].split(", ")]
    assert total == pytest.approx(sum(each), abs=2e-6)
    assert utils.compile_times().startswith("TorchDynamo compilation metrics:\nFunction")


@SIDES
def test_graphs_that_are_kept(torch: Any) -> None:
    testing = torch._dynamo.testing
    torch._dynamo.reset()
    x = torch.ones(3, requires_grad=True)
    result, graphs, forward, backward = testing.extract_graph(lambda x: x.sin().sum(), x)
    result.backward()
    assert result.item() == pytest.approx(3 * 0.841471) and x.grad.tolist() == pytest.approx([0.540302] * 3)
    assert [len(each) for each in (graphs, forward, backward)] == [1, 1, 1]
    called = [str(node.target) for node in forward[0].graph.nodes if node.op == "call_function"]
    assert called == ["aten.sin.default", "aten.sum.default"]


def test_text_of_graphs() -> None:
    text = "class A:\n    # File: a.py:3\n    def f(self):   \n\n\n\n        return 1  # kept\n    # gone\n\n\n"
    for name in ("normalize_gm", "strip_comment", "remove_trailing_space", "empty_line_normalizer"):
        found = [getattr(torch._dynamo.testing, name)(text) for torch in (narthex, pytorch)]
        assert found[0] == found[1], name


@SIDES
def test_tensors_and_results(torch: Any) -> None:
    testing, nn = torch._dynamo.testing, torch.nn
    x = testing.rand_strided((2, 3), (1, 2))
    assert x.shape == (2, 3) and x.stride() == (1, 2) and x.dtype == torch.float32
    assert testing.rand_strided((2, 0), (1, 2), dtype=torch.int64).tolist() == [[], []]
    assert testing.clone_me(None) is None and testing.clone_me(x.requires_grad_()).requires_grad
    model = torch.compile(nn.Sequential(nn.Linear(3, 1), nn.BatchNorm1d(1)), backend="eager")
    prediction = model(x)
    loss = testing.reduce_to_scalar_loss([prediction, {"a": prediction}])
    assert loss.shape == () and testing.requires_bwd_pass([None, prediction]) and not testing.requires_bwd_pass(3)
    loss.backward()
    _, _, grads, parameters, buffers, of_input = testing.collect_results(model, prediction, loss, [x])
    assert list(parameters) == ["0.weight", "0.bias", "1.weight", "1.bias"] and of_input is x.grad
    assert list(grads) == [f"{name}.grad" for name in parameters] and list(buffers)[0] == "1.running_mean"
    with pytest.raises(NotImplementedError):
        testing.reduce_to_scalar_loss("a")


@pytest.fixture
def quiet():
    yield
    narthex._logging.set_logs()


@SIDES
def test_small_ones_of_logging(torch: Any, caplog: pytest.LogCaptureFixture) -> None:
    logs, logger = torch._logging, logging.getLogger(f"{__name__}.{torch.__name__}")
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            logs.warning_once(logger, "told %s", "once")
    assert [record.getMessage() for record in caplog.records if record.name == logger.name] == ["told once"]
    assert str(logs.LazyString(lambda a, b: a + b, "x", b="y")) == "xy"
    assert logs.trace_structured("artifact", payload_fn=lambda: "x") is None
    with pytest.raises(AssertionError, match="'rank' is reserved"):
        logs.trace_structured("rank")
    assert logs.get_structured_logging_overhead() is None
    with pytest.raises(ValueError, match="Artifact name: 'none' not registered"):
        logs.getArtifactLogger(__name__, "none")
    assert torch._logging._internal.warning_once is logs.warning_once


def test_loggers_of_artifacts(quiet: None, capsys: pytest.CaptureFixture) -> None:
    logs = narthex._logging
    logger = logs.getArtifactLogger("a.backend", "output_code")
    assert logger.name == "a.backend.__output_code" and not logger.isEnabledFor(logging.DEBUG)
    logs.set_logs(output_code=True)
    assert logger.isEnabledFor(logging.DEBUG)
    logger.debug("what it runs")
    assert capsys.readouterr().err.rstrip().endswith("] [__output_code] what it runs")
    logs.set_logs()
    logger.debug("what it runs")
    assert capsys.readouterr().err == ""
