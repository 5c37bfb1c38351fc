"""torch.compile from Python: backends, modules, graphs, logs."""

import logging
import operator

import narthex as nt
import pytest
from narthex import fx, nn


def f(x, w, b):
    return (x @ w.t() * b + b).sum()


def arguments():
    nt.manual_seed(1)
    return nt.randn(3, 4), nt.randn(5, 4), nt.randn(5)


@pytest.fixture
def logs(capsys):
    """What was logged since the last call; logs are off again afterwards."""
    yield lambda: capsys.readouterr().err
    nt._logging.set_logs()


@pytest.mark.parametrize("backend", ["narthex", "inductor", "eager", "aot_eager"])
def test_backends_agree(backend):
    args = arguments()
    compiled = nt.compile(f, backend=backend)
    for _ in range(2):
        assert compiled(*args).tolist() == f(*args).tolist()


def test_backend_gets_a_graph_module():
    seen = []

    def backend(gm, example_inputs, **options):
        seen.append((gm, example_inputs, options))
        return gm.forward

    args = arguments()
    assert nt.compile(f, backend=backend, options={"level": 3})(*args).tolist() == f(*args).tolist()
    ((gm, example_inputs, options),) = seen
    assert isinstance(gm, fx.GraphModule) and options == {"options": {"level": 3}} and len(example_inputs) == 3
    assert [node.op for node in gm.graph.nodes].count("placeholder") == 3
    assert list(gm.graph.nodes)[-1].op == "output" and "@" in gm.code and "def forward" in gm.print_readable(False)
    first = next(node for node in gm.graph.nodes if node.op not in ("placeholder", "output"))
    assert first.all_input_nodes[0].op == "placeholder" and first in first.all_input_nodes[0].users
    assert "num_users=" in str(gm.graph)


def test_targets_of_nodes_are_what_is_called():
    graphs = []

    def backend(gm, example_inputs):
        graphs.append(gm.graph)
        return gm.forward

    def g(x):
        return nt.relu(nt.add(x, 2) * x).view(-1).sum() + nt.nn.functional.gelu(x).sum()

    nt.compile(g, backend=backend)(nt.ones(2))
    (graph,) = graphs
    calls = [node for node in graph.nodes if node.op.startswith("call")]
    assert [node for node in calls if node.target == nt.add] and [node for node in calls if node.target is operator.mul]
    assert not [node for node in calls if node.op == "call_function" and isinstance(node.target, str)]
    assert [node.target for node in calls if node.op == "call_method"] == ["view", "sum", "sum"]
    added = next(node for node in calls if node.target == nt.add)
    added.meta["mine"] = 3
    assert next(node for node in graph.nodes if node.name == added.name).meta["mine"] == 3 and "val" in added.meta
    added.target = nt.sub
    assert "torch.sub" in str(graph) and "torch.add" not in str(graph)


def test_backend_must_return_a_callable():
    with pytest.raises(nt._dynamo.exc.BackendCompilerFailed, match="compiler_fn did not return callable"):
        nt.compile(f, backend=lambda gm, example_inputs: 3)(*arguments())


def test_decorator_and_wrong_model():
    @nt.compile(backend="eager")
    def doubled(x):
        return x + x

    assert doubled(nt.tensor([2.0])).tolist() == [4.0]
    with pytest.raises(TypeError, match="must be a function or a module"):
        nt.compile(3)


class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x, y):
        return nt.mul(x, y)


def test_module():
    model = Scale()
    compiled = nt.compile(model)
    x, y = nt.randn(2, 3), nt.randn(2, 3)
    assert isinstance(compiled, nt._dynamo.OptimizedModule) and compiled._orig_mod is model
    assert compiled(x, y).tolist() == (x * y).tolist() and compiled(x, y=y).tolist() == (x * y).tolist()
    assert compiled.eval() is compiled and model.training is False and compiled.training is False
    compiled.calls = 5
    assert model.calls == 5 and compiled.calls == 5
    assert repr(compiled) == "OptimizedModule(\n  (_orig_mod): Scale()\n)"


def test_module_with_hooks():
    model = Scale()
    compiled = nt.compile(model)
    x, y = nt.randn(2), nt.randn(2)
    seen = []
    handle = model.register_forward_hook(lambda module, args, result: seen.append(1) or result + result)
    assert compiled(x, y).tolist() == (x * y + x * y).tolist() and seen == [1]
    handle.remove()
    assert compiled(x, y).tolist() == (x * y).tolist() and seen == [1]
    compiled.register_forward_pre_hook(lambda module, args: (args[0], args[0]))
    assert compiled(x, y).tolist() == (x * x).tolist()


def test_logs_are_written_and_switched_off(logs):
    nt._logging.set_logs(dynamo=logging.DEBUG, aot=logging.DEBUG)
    nt.compile(f)(*arguments())
    text = logs()
    for part in (
        "Step 1: torchdynamo start tracing f ",
        "TRACE LOAD_FAST x",
        "TRACED GRAPH",
        "Forward graph",
        "GUARDS:",
    ):
        assert part in text, part
    nt._logging.set_logs()
    nt.compile(f)(*arguments())
    assert logs() == ""


def test_single_artifact(logs):
    nt._logging.set_logs(graph_code=True)
    nt.compile(f)(*arguments())
    text = logs()
    assert "[__graph_code]" in text and "TRACE LOAD_FAST" not in text and "Step 1" not in text


def test_names_of_pytorchs_that_say_nothing_or_the_same(logs):
    import torch as oracle
    from torch._logging import _internal

    assert set(_internal.log_registry.log_alias_to_log_qnames) - set(nt._logging.LOGS) <= {
        "async_compile", "cache", "fake_tensor", "native_dsl", "pp", "torch",
    }  # fmt: skip
    known = set(oracle._logging.set_logs.__kwdefaults__) - {"all", "modules"}
    assert known <= {*nt._logging.LOGS, *nt._logging.ARTIFACTS}
    nt._logging.set_logs(perf_hints=True, schedule=True, dynamic=logging.DEBUG)
    nt.compile(f)(*arguments())
    assert logs() == ""
    nt._logging.set_logs(verbose_guards=True, modules={"torch._functorch": logging.DEBUG})
    nt.compile(f)(*arguments())
    assert "[__verbose_guards] GUARDS:" in logs() and logging.getLogger("narthex._functorch").level == logging.DEBUG
    with pytest.raises(ValueError, match="modules"):
        nt._logging.set_logs(modules={"a": "b"})
    nt._logging.set_logs()


def test_wrong_log_names():
    with pytest.raises(ValueError, match="Unrecognized log or artifact name passed to set_logs: dynamos"):
        nt._logging.set_logs(dynamos=logging.DEBUG)
    with pytest.raises(ValueError, match="True or False"):
        nt._logging.set_logs(graph_code=10)


def test_disabled_function_splits_the_graph():
    graphs = []

    def backend(gm, example_inputs):
        graphs.append(gm)
        return gm.forward

    @nt.compiler.disable
    def apart(x):
        return x * 3

    def function(x):
        return apart(x + 1) + 2

    class Owner:
        @nt._dynamo.disable()
        def method(self, x):
            return x * 3

    x = nt.randn(3)
    assert Owner().method(x).tolist() == (x * 3).tolist() == nt.compile(Owner().method)(x).tolist()
    assert nt.compile(function, backend=backend)(x).tolist() == function(x).tolist()
    assert apart.__name__ == "apart" and len(graphs) == 2 and not any("* 3" in gm.code for gm in graphs)


def test_dynamo_reset_forgets_every_compiled_function():
    function, module = nt.compile(lambda x: x + 1), nt.compile(nt.nn.Linear(2, 2))
    for _ in range(2):
        function(nt.ones(2))
        module(nt.ones(2))
        assert function.entries == 1
        nt._dynamo.reset()
        assert function.entries == 0
    nt.compiler.reset()
