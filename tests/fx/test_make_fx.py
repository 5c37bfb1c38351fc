"""make_fx and decompositions beside PyTorch: the same functions give the same graphs of ATen operators."""

from collections.abc import Callable
from typing import Any

import narthex as nt
import pytest
import torch
from narthex._decomp import core_aten_decompositions, decomposition_table, get_decompositions, register_decomposition
from narthex.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.proxy_tensor import make_fx as their_make_fx


def gradients(m: Any) -> Callable:
    return lambda a, b: m.autograd.grad((a * b).sin().sum(), b)[0]


def writes(m: Any) -> Callable:
    return lambda a, b: {"r": a.add_(1) @ b, "g": [b.t(), 3]}


def shapes(m: Any) -> Callable:
    return lambda a, b: (a.view(-1)[: a.numel() // 2] + b.flatten()[0], m.zeros(2) + 1)


@pytest.mark.parametrize("program", [gradients, writes], ids=lambda p: p.__name__)
@pytest.mark.parametrize("mode", ["real", "fake"])
def test_the_code_is_pytorchs(program: Callable, mode: str) -> None:
    def traced(m: Any, make: Callable) -> Any:
        return make(program(m), tracing_mode=mode)(m.ones(3, 3), m.ones(3, 3, requires_grad=True))

    ours, theirs = traced(nt, make_fx), traced(torch, their_make_fx)
    assert ours.code == theirs.code.replace("pin_memory = False, ", "")  # a default
    assert [n.meta["val"].shape for n in ours.graph.nodes if n.op == "call_function"] == [
        tuple(n.meta["val"].shape) for n in theirs.graph.nodes if n.op == "call_function"
    ]


def sizes(m: Any) -> Callable:
    return lambda x, y: {"a": x.view(x.shape[0] * x.shape[1]).relu() + x.shape[0], "b": [m.cat([x, y]).sum(0)]}


def layers(m: Any) -> Callable:
    return lambda x, y: m.nn.functional.linear(x, x) @ y.new_ones(x.shape[0], 2) * 2


def written(m: Any) -> Callable:
    return lambda x, y: (x.add_(1).mul(y), x)


@pytest.mark.parametrize("keywords", [{"tracing_mode": "symbolic"}, {"pre_dispatch": True},
                                      {"tracing_mode": "symbolic", "pre_dispatch": True}], ids=str)  # fmt: skip
@pytest.mark.parametrize("program", [sizes, layers, written], ids=lambda p: p.__name__)
def test_open_sizes_and_whole_operators(program: Callable, keywords: dict) -> None:
    """PyTorch's graph where nothing is written, or all stays as it is; its results for other sizes always."""

    def traced(m: Any, make: Callable) -> Any:
        return make(program(m), **keywords)(m.ones(2, 3), m.ones(2, 3))

    if program is written and "pre_dispatch" not in keywords:
        with pytest.raises(NotImplementedError, match="it writes into its arguments"):
            traced(nt, make_fx)
        return
    ours, theirs = traced(nt, make_fx), traced(torch, their_make_fx)
    if program is sizes:
        assert ours.code == theirs.code
    rows = 4 if "tracing_mode" in keywords else 2
    for m, gm in ((nt, ours), (torch, theirs)):
        x, again = m.rand(rows, 3), m.rand(rows, 3)
        wanted = program(m)(x.clone(), again)
        leaves = nt.utils._pytree.tree_leaves
        assert [v.tolist() for v in leaves(gm(x.clone(), again))] == [v.tolist() for v in leaves(wanted)]
    whole = any("linear" in str(node.target) for node in ours.graph.nodes)
    assert whole == (program is layers and "pre_dispatch" in keywords)


def test_whole_operators_know_what_a_function_has_of_its_own() -> None:
    m, c = nt.nn.Linear(2, 2), nt.ones(2)
    gm = make_fx(lambda x: m(x) * c, pre_dispatch=True)(nt.ones(1, 2))
    with nt.no_grad():
        m.weight.fill_(2.0)
    nt.testing.assert_close(gm(nt.ones(1, 2)), m(nt.ones(1, 2)))
    assert gm._param_constant0 is m.weight and gm._param_constant1 is m.bias


def of_all_kinds(d: Any, l: Any) -> Any:  # noqa: E741 - as PyTorch names its input
    return {"s": d["a"] + l[0][0], "t": (l[1], d["b"] * 2)}


def of_any_number(*args: Any) -> Any:
    return args[0][0] + args[1]


def nested_arguments(m: Any) -> list:
    return [
        (of_all_kinds, ({"a": m.ones(2), "b": m.ones(2, 3)}, [(m.ones(2),), 3.0])),
        (of_any_number, ([m.ones(2)], m.ones(2))),
        (of_any_number, ([m.ones(2), None], m.ones(2))),
        (lambda l: [v * 2 for v in l], ([m.ones(2), m.ones(1)],)),  # noqa: E741
        (lambda d: d["w"] * 2, ({"w": m.ones(2), "k": None},)),
    ]


@pytest.mark.parametrize("number", range(len(nested_arguments(torch))))
def test_arguments_that_nest(number: int) -> None:
    """An input for each leaf; forward, and an interpreter, take and return what the function does."""
    (f, args), (g, their_args) = nested_arguments(nt)[number], nested_arguments(torch)[number]
    table = {nt.ops.aten.add.Tensor: lambda a, b: nt.ops.aten.sub.Tensor(a, -b)}
    gm = make_fx(f)(*args)
    assert gm.code == their_make_fx(g)(*their_args).code
    other = nt.utils._pytree.tree_map(lambda v: v + 1 if isinstance(v, nt.Tensor) else v, args)
    for module in (gm, make_fx(f, table)(*args), nt.fx.Interpreter(gm).run):
        run = module(*other)
        flat, spec = nt.utils._pytree.tree_flatten(run)
        expected, their_spec = nt.utils._pytree.tree_flatten(f(*other))
        assert spec == their_spec and all(
            nt.equal(a, b) if isinstance(a, nt.Tensor) else a == b for a, b in zip(flat, expected)
        )


def test_an_interpreter_of_a_list() -> None:
    for m, make in ((nt, make_fx), (torch, their_make_fx)):
        gm = make(lambda x, y: x - y)(m.ones(2), m.ones(2))
        given = [m.ones(2) * 3, m.ones(2)]
        assert m.fx.Interpreter(gm).boxed_run(given).tolist() == [2.0, 2.0] and given == []
        with pytest.raises(RuntimeError, match=r"expected 2 arguments for placeholders but received 1 \(missing"):
            m.fx.Interpreter(gm).boxed_run([m.ones(2)])


def test_graphs_run_with_other_values() -> None:
    for program in (gradients, shapes):
        a, b = nt.randn(4, 4), nt.randn(4, 4, requires_grad=True)
        gm = make_fx(program(nt))(nt.zeros(4, 4), nt.zeros(4, 4, requires_grad=True))
        nt.testing.assert_close(gm(a, b), program(nt)(a, b))


def test_tensors_from_outside_are_constants() -> None:
    """Parameters by their own name; they are the objects themselves."""
    m, c = nt.nn.Linear(2, 2), nt.ones(2)
    gm = make_fx(lambda x: m(x) * c)(nt.ones(1, 2))
    assert gm._param_constant0 is m.weight and gm._param_constant1 is m.bias
    with nt.no_grad():
        m.weight.fill_(2.0)
    nt.testing.assert_close(gm(nt.ones(1, 2)), m(nt.ones(1, 2)))


def test_what_it_refuses() -> None:
    with pytest.raises(AssertionError, match="tracing_mode should be one of"):
        make_fx(lambda x: x, tracing_mode="other")
    for keywords in ({"tracing_mode": "symbolic"}, {"pre_dispatch": True}):
        with pytest.raises(NotImplementedError, match="all arguments are tensors"):
            make_fx(lambda x: x["a"] * 2, **keywords)({"a": nt.ones(2)})
    with pytest.raises(NotImplementedError, match="no size of it may change"):
        make_fx(gradients(nt), tracing_mode="symbolic")(nt.ones(2, 2), nt.ones(2, 2, requires_grad=True))
    with pytest.raises(RuntimeError):
        make_fx(lambda x: x * x.sum().item())(nt.ones(2))
    nt.testing.assert_close(nt.ones(2) + 1, nt.full((2,), 2.0))  # nothing is recorded any more


def test_registered_decompositions() -> None:
    aten, table = nt.ops.aten, {}

    @register_decomposition([aten.sin.default, aten.cos], table)
    def wave(x: Any) -> Any:
        return x.tanh()

    assert table[aten.sin.default] is wave and aten.cos.default in table
    with pytest.raises(RuntimeError, match="duplicate registrations for aten.sin.default"):
        register_decomposition(aten.sin.default, table)(wave)
    with pytest.raises(AssertionError, match="expected OpOverloadPacket"):
        register_decomposition(3, table)(wave)
    gm = make_fx(lambda x: (x.sin() * 2, [x.cos()]), decomposition_table=table)(nt.ones(3))
    assert "sin" not in gm.code and gm.code.count("aten.tanh.default") == 2
    nt.testing.assert_close(gm(nt.ones(3)), (nt.ones(3).tanh() * 2, [nt.ones(3).tanh()]))
    round_and_round = {aten.neg.default: lambda x: aten.neg.default(x)}
    with pytest.raises(RuntimeError, match="lead back"):
        make_fx(nt.neg, decomposition_table=round_and_round)(nt.ones(1))


def test_get_decompositions() -> None:
    """By operator or by name, also of what is composed, which no graph shows anyway."""
    aten = nt.ops.aten
    found = get_decompositions([aten.gelu, aten.addmm.default, aten.mse_loss.default, aten.mm.default])
    assert aten.gelu.default in found and aten.addmm.default in found and aten.mse_loss.default in found
    assert aten.mm.default not in found
    assert aten.gelu_backward.default in core_aten_decompositions()


def test_core_aten_is_pytorchs() -> None:
    """What is an operator of ATen's core stays in a graph, what is none is taken to pieces."""
    from torch._decomp import core_aten_decompositions as theirs

    core, other = (set(map(str, made)) for made in (core_aten_decompositions(), theirs()))
    for op in decomposition_table:
        assert (str(op) in core) is (str(op) in other), op

    def graph(m: Any) -> list:
        layers = m.nn.Sequential(m.nn.Linear(3, 4), m.nn.GELU(), m.nn.LayerNorm(4), m.nn.SiLU(), m.nn.Softmax(-1))
        program = m.export.export(layers, (m.ones(2, 3),)).run_decompositions()
        return [str(node.target) for node in program.graph.nodes if node.op == "call_function"]

    assert graph(nt) == graph(torch)


X = [[-2.5, -0.5, 0.0, 0.75], [1.0, 3.5, -7.0, 25.0]]
TARGET, TARGETS = nt.tensor([1, 2]), nt.tensor([[[1, 1], [0, 1]]])


def layer_norm_backward(x: Any, weight: Any, bias: Any, mask: list) -> Any:
    _, mean, rstd = nt.native_layer_norm(x, [4], weight, bias, 1e-5)
    return nt.ops.aten.native_layer_norm_backward(x + 1, x, [4], mean, rstd, weight, bias, mask)


CASES = {
    "addmm": lambda x: nt.addmm(x[0], x, x.t() @ x, beta=0.5, alpha=2),
    "_softmax": lambda x: nt.softmax(x, -1),
    "_log_softmax": lambda x: nt.log_softmax(x, 0),
    "_softmax_backward_data": lambda x: nt.ops.aten._softmax_backward_data(x, nt.softmax(x, 1), 1, x.dtype),
    "_log_softmax_backward_data": lambda x: nt.ops.aten._log_softmax_backward_data(
        x, nt.log_softmax(x, 1), 1, x.dtype
    ),
    "native_layer_norm": lambda x: nt.ops.aten.native_layer_norm(x, [4], x[0], x[1], 1e-5),
    "gelu": lambda x: (nt.nn.functional.gelu(x), nt.nn.functional.gelu(x, approximate="tanh")),
    "gelu_backward": lambda x: (
        nt.ops.aten.gelu_backward(x + 1, x),
        nt.ops.aten.gelu_backward(x + 1, x, approximate="tanh"),
    ),
    "silu": nt.nn.functional.silu,
    "silu_backward": lambda x: nt.ops.aten.silu_backward(x + 1, x),
    "mish": nt.nn.functional.mish,
    "softplus": lambda x: nt.nn.functional.softplus(x, 2, 3),
    "elu": lambda x: nt.nn.functional.elu(x, 0.5),
    "leaky_relu": lambda x: nt.nn.functional.leaky_relu(x, 0.3),
    "hardtanh": nt.nn.functional.hardtanh,
    "hardsigmoid": nt.nn.functional.hardsigmoid,
    "hardswish": nt.nn.functional.hardswish,
    "relu": nt.relu,
    "sigmoid_backward": lambda x: nt.ops.aten.sigmoid_backward(x, nt.sigmoid(x)),
    "tanh_backward": lambda x: nt.ops.aten.tanh_backward(x, nt.tanh(x)),
    "threshold_backward": lambda x: nt.ops.aten.threshold_backward(x + 1, x, 0.5),
    "rsub": lambda x: (nt.rsub(x, 2), nt.rsub(x, x * x, alpha=3)),
    "lerp": lambda x: (nt.lerp(x, x * 2, 0.25), nt.lerp(x, x * 2, x)),
    "addcmul": lambda x: nt.addcmul(x, x, x + 1, value=3),
    "addcdiv": lambda x: nt.addcdiv(x, x, x + 9, value=3),
    "t": lambda x: x.t() + 0,
    "transpose": lambda x: (x.transpose(0, -1) + 0, x[0, 0].transpose(0, 0) + 0),
    "select_backward": lambda x: nt.ops.aten.select_backward(x[0], [3, 4], 0, 1),
    "slice_backward": lambda x: nt.ops.aten.slice_backward(x, [2, 9], 1, 1, 9, 2),
    "native_layer_norm_backward": lambda x: (
        layer_norm_backward(x, x[0] + 1, x[0], [True, True, True]),
        layer_norm_backward(x, None, None, [True, False, False])[0],
    ),
    "nll_loss_forward": lambda x: [
        part for weight in (None, x[0].abs()) for reduction in (0, 1, 2)
        for part in nt.ops.aten.nll_loss_forward(x, TARGET, weight, reduction, 2)
    ],
    "nll_loss2d_forward": lambda x: [
        part for weight in (None, x[:, 0].abs()) for reduction in (0, 1, 2)
        for part in nt.ops.aten.nll_loss2d_forward(x.view(1, 2, 2, 2), TARGETS, weight, reduction, -100)
    ],
    "nll_loss_backward": lambda x: [
        nt.ops.aten.nll_loss_backward(x[:, 0] if reduction == 0 else x[0, 1], x, TARGET, weight, reduction, 2, x[1, 1])
        for weight in (None, x[0].abs()) for reduction in (0, 1, 2)
    ],
    "nll_loss2d_backward": lambda x: [
        nt.ops.aten.nll_loss2d_backward(
            x[0].view(1, 2, 2) if reduction == 0 else x[0, 1], x.view(1, 2, 2, 2), TARGETS, weight, reduction, -100,
            x[1, 1],
        )
        for weight in (None, x[:, 0].abs()) for reduction in (0, 1, 2)
    ],
    "embedding_dense_backward": lambda x: [
        nt.ops.aten.embedding_dense_backward(x, TARGET, 5, padding, scaled)
        for padding in (-1, 1) for scaled in (False, True)
    ],
    "hardtanh_backward": lambda x: nt.ops.aten.hardtanh_backward(x + 1, x, -0.5, 0.5),
    "hardswish_backward": lambda x: nt.ops.aten.hardswish_backward(x + 1, x * 3),
    "hardsigmoid_backward": lambda x: nt.ops.aten.hardsigmoid_backward(x + 1, x * 3),
    "softplus_backward": lambda x: nt.ops.aten.softplus_backward(x + 1, x * 9, 2, 20),
    "celu": lambda x: nt.celu(x, 2.0),
    "threshold": lambda x: nt.threshold(x, 0.25, 7.0),
    "hardshrink": nt.hardshrink,
    "softshrink": nt.nn.functional.softshrink,
    "masked_fill": lambda x: (x.masked_fill(x > 0, 2.5), x.masked_fill(x > 0, x[0, 0])),
    "deg2rad": nt.deg2rad,
    "rad2deg": nt.rad2deg,
    "frac": nt.frac,
    "xlogy": lambda x: nt.xlogy(nt.relu(x), x.abs()),
    "logaddexp": lambda x: (nt.logaddexp(x, 1 - x), nt.logaddexp(x[1] / 0, x[1] / 0)),
    "dot": lambda x: nt.dot(x[0], x[1]),
    "mv": lambda x: nt.mv(x, x[0]),
    "stack": lambda x: (nt.stack([x, x + 1]), nt.stack([x, x + 1], -1), nt.stack([x, x], 1)),
    "unbind": lambda x: [part + 0 for part in x.unbind(1)],
    "roll": lambda x: (nt.roll(x, 5), nt.roll(x, (1, -2), (0, 1))),
    "tril": lambda x: (nt.tril(x), nt.tril(x, -1), (x > 0).tril(2)),
    "triu": lambda x: (nt.triu(x), nt.triu(x, -1), (x > 0).triu(2)),
}


@pytest.mark.parametrize("name", CASES)
def test_decompositions_give_what_the_operator_gives(name: str) -> None:
    table, x = get_decompositions([getattr(nt.ops.aten, name)]), nt.tensor(X)
    gm = make_fx(CASES[name], decomposition_table=table)(x)
    assert f"aten.{name}." not in gm.code
    nt.testing.assert_close(gm(x), CASES[name](x))


def test_every_decomposition_has_a_case() -> None:
    assert {op._packet for op in decomposition_table} == set(CASES)


def test_operators_are_called_by_their_schema() -> None:
    """where is given tensors in compilers' graphs, whose nodes know what they give."""
    seen: list = []

    def compiler(gm: Any, inputs: list) -> Any:
        for node in gm.graph.nodes:
            meta = node.meta.get("tensor_meta")
            seen.append((node.op, meta and (tuple(meta.shape), meta.stride, str(meta.dtype).split(".")[1])))
            if node.op == "call_function" and "where" in str(node.target):
                assert not any(isinstance(arg, (int, float)) for arg in node.args)
        return nt._functorch.aot_autograd.make_boxed_func(gm.forward)

    def f(x: Any) -> Any:
        return nt.where(x > 0, x, 0.5) + nt.nn.functional.relu(x)

    table = nt._decomp.get_decompositions([nt.ops.aten.threshold_backward])
    backend = nt._dynamo.backends.common.aot_autograd(fw_compiler=compiler, decompositions=table)
    x = nt.tensor([[1.0, -2.0, 3.0]], requires_grad=True)
    result = nt.compile(f, backend=backend)(x)
    result.sum().backward()
    assert result.tolist() == [[2.0, 0.5, 6.0]] and x.grad.tolist() == [[2.0, 0.0, 2.0]]
    assert all(meta is not None for op, meta in seen if op != "output")
    assert {("call_function", ((), (), "float32")), ("placeholder", ((1, 3), (3, 1), "float32"))} <= set(seen)
    code = make_fx(lambda x: nt.where(x > 0, 1, x))(x.detach()).code
    assert "full.default([], 1, dtype = torch.float32" in code
