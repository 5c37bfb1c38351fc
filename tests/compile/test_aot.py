"""AOT with compilers of the user's own, beside PyTorch: the same programs give them the same graphs, in the same order,
and what they return is what runs."""

from collections.abc import Callable
from typing import Any

import narthex as nt
import pytest
import torch
from narthex._dynamo.backends.common import aot_autograd
from narthex._functorch import aot_autograd as our_aot
from narthex._functorch.compilers import make_boxed_func, nop, ts_compile
from narthex._functorch.partitioners import default_partition, min_cut_rematerialization_partition
from torch._functorch import aot_autograd as their_aot


def recorder(log: list, name: str) -> Callable:
    """A compiler that keeps what it is given and runs the graph as it is."""

    def compiler(gm: Any, inputs: list) -> Callable:
        shapes = [tuple(value.shape) if hasattr(value, "shape") else value for value in inputs]
        log.append((name, gm.code.strip(), shapes, gm))
        return make_boxed_func(gm.forward)

    return compiler


def products(m: Any, x: Any, w: Any) -> Any:
    return (x @ w).sin().sum(), x.cos().mul(3) + w


def mixed(m: Any, x: Any, w: Any) -> Any:
    a = m.nn.functional.linear(x, w)
    return (a * x).view(-1), a.t().sum(0, keepdim=True) - w[1]


def written(m: Any, x: Any, w: Any) -> Any:
    x.mul_(2)
    return x @ w, w.t(), x


def rows(m: Any, x: Any, w: Any) -> Any:
    return (x.t() @ w).neg()


def unused(m: Any, x: Any, w: Any) -> Any:
    return w * 2


PROGRAMS = (products, mixed, rows, unused)


def inputs_of(m: Any) -> tuple:
    x = [[0.5 * i - j for i in range(4)] for j in range(4)]
    w = [[0.25 * i * j - 1 for i in range(4)] for j in range(4)]
    return m.tensor(x), m.tensor(w, requires_grad=True)


def ran(m: Any, aot: Any, program: Callable) -> tuple:
    """What the compilers got, and the results with the gradient of w."""
    log: list = []
    call = aot.aot_function(
        lambda x, w: program(m, x, w), fw_compiler=recorder(log, "fw"), bw_compiler=recorder(log, "bw")
    )
    x, w = inputs_of(m)
    results = call(x, w)
    results = results if isinstance(results, (tuple, list)) else [results]
    assert [name for name, *_ in log] == ["fw"]  # the backward waits for its first call
    sum((k + 1) * r.sum() for k, r in enumerate(results)).backward()
    values = [r.detach().tolist() for r in results]
    return [entry[:3] for entry in log], values, w.grad.tolist(), x.tolist()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_the_graphs_are_pytorchs(program: Callable) -> None:
    """Code, shapes, names and order of inputs, and one gradient or None for each."""
    ours, theirs = ran(nt, our_aot, program), ran(torch, their_aot, program)
    assert ours[0] == theirs[0]
    torch.testing.assert_close(ours[1:], theirs[1:], rtol=1e-5, atol=1e-5)


@pytest.mark.filterwarnings("ignore")
def test_written_inputs_come_first() -> None:
    """New values, then outputs; the input is written, and gradients are as without AOT."""
    ours, theirs = ran(nt, our_aot, written), ran(torch, their_aot, written)
    assert [shapes for _, _, shapes in ours[0]] == [shapes for _, _, shapes in theirs[0]]
    assert ours[0][0][1].splitlines()[:3] == theirs[0][0][1].splitlines()[:3]
    assert ours[0][0][1].splitlines()[-1].strip().startswith("return (mul, mm, t")
    torch.testing.assert_close(ours[1:], theirs[1:], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("partition", [default_partition, min_cut_rematerialization_partition])
def test_partitions(partition: Callable) -> None:
    """Any cut gives the same gradients; the least cut saves fewer bytes than everything."""
    seen: list = []

    def watched(joint: Any, inputs: Any, **keywords: Any) -> Any:
        seen.append((len(inputs[0]), len(inputs[1]), keywords["num_fwd_outputs"]))
        return partition(joint, inputs, **keywords)

    def f(x: Any, w: Any) -> Any:
        return nt.softmax(nt.relu(x @ w) + 1, -1).exp().sum()

    x, w = inputs_of(nt)
    our_aot.aot_function(f, fw_compiler=nop, partition_fn=watched)(x, w).backward()
    _, same = inputs_of(nt)
    f(x, same).backward()
    nt.testing.assert_close(w.grad, same.grad)
    assert seen == [(2, 1, 1)]


def test_a_compilers_function_is_what_runs() -> None:
    def doubling(gm: Any, inputs: list) -> Callable:
        return lambda *args: tuple(value * 2 for value in gm(*args)[:1]) + tuple(gm(*args)[1:])

    x, w = inputs_of(nt)
    call = our_aot.aot_function(lambda x, w: x @ w, fw_compiler=doubling, bw_compiler=nop)
    assert nt.equal(call(x, w), (x @ w) * 2)
    with nt.no_grad():
        assert nt.equal(call(x, w), (x @ w) * 2)


def test_nodes_can_be_edited() -> None:
    """Targets are torch.ops.aten's operators, meta["val"] has the shape, and an edit changes what runs."""

    def editing(gm: Any, inputs: list) -> Callable:
        found = gm.graph.find_nodes(op="call_function", target=nt.ops.aten.sin.default)
        assert [tuple(node.meta["val"].shape) for node in found] == [(4, 4)]
        found[0].target = nt.ops.aten.cos.default
        gm.recompile()
        return make_boxed_func(gm.forward)

    x, w = inputs_of(nt)
    call = our_aot.aot_function(lambda x, w: (x @ w).sin(), fw_compiler=editing, bw_compiler=nop)
    assert nt.equal(call(x, w), (x @ w).cos())


def test_a_backend_edits_and_compiles() -> None:
    """torch.compile's graph, edited without recompile(), is what AOT compiles."""

    def backend(gm: Any, inputs: list) -> Callable:
        for node in gm.graph.nodes:
            if node.op == "call_function" and node.target is nt.relu:
                node.target = nt.tanh
        log: list = []
        made = our_aot.aot_module_simplified(gm, inputs, fw_compiler=recorder(log, "fw"), bw_compiler=nop)
        assert "aten.tanh.default" in log[0][1]  # compiled at once, as PyTorch does
        return made

    x, w = inputs_of(nt)
    call = nt.compile(lambda x, w: nt.relu(x @ w).sum(), backend=backend)
    result = call(x, w)
    assert nt.equal(result, nt.tanh(x @ w).sum())
    result.backward()
    _, same = inputs_of(nt)
    nt.tanh(x @ same).sum().backward()
    nt.testing.assert_close(w.grad, same.grad)


def test_inference_compiler() -> None:
    log: list = []
    call = our_aot.aot_function(
        lambda x: x * 2, fw_compiler=recorder(log, "fw"), inference_compiler=recorder(log, "inference")
    )
    assert nt.equal(call(nt.ones(3)), nt.full((3,), 2.0))
    call(nt.ones(3, requires_grad=True))
    assert [(name, code.splitlines()[0]) for name, code, *_ in log] == [
        ("inference", "def forward(self, arg0_1):"),
        ("fw", "def forward(self, primals_1):"),
    ]


def test_modules() -> None:
    """Parameters and buffers are the first inputs; running statistics are written."""
    nt.manual_seed(0)
    log: list = []
    m = nt.nn.Sequential(nt.nn.Linear(4, 3), nt.nn.BatchNorm1d(3))
    compiled = our_aot.aot_module(m, fw_compiler=recorder(log, "fw"), bw_compiler=recorder(log, "bw"))
    x = nt.randn(5, 4)
    compiled(x).square().sum().backward()
    assert log[0][2] == [(3, 4), (3,), (3,), (3,), (3,), (3,), (), (5, 4)]
    grads, mean = [p.grad.clone() for p in m.parameters()], m[1].running_mean.clone()
    m[1].reset_running_stats()
    m.zero_grad()
    m(x).square().sum().backward()
    nt.testing.assert_close(grads, [p.grad for p in m.parameters()])
    nt.testing.assert_close(mean, m[1].running_mean)
    assert list(compiled.state_dict())[0] == "orig_module.0.weight"


@pytest.mark.parametrize("marked", [False, True])
def test_sizes_that_vary(marked: bool) -> None:
    """The compilers get a graph of numbers for each shape, whether the backend says that it fits shapes or not."""
    log: list = []
    keywords = {"fw_compiler": recorder(log, "fw"), "bw_compiler": nop}

    def plain(gm: Any, inputs: list) -> Callable:
        return our_aot.aot_module_simplified(gm, inputs, **keywords)

    call = nt.compile(
        lambda x: x.view(x.size(0) * 2, -1).sin().sum(1),
        backend=aot_autograd(**keywords) if marked else plain,
        dynamic=True,
    )
    for n in (2, 3, 2, 5):
        x = nt.randn(n, 4, requires_grad=True)
        result = call(x)
        assert nt.equal(result, x.view(n * 2, -1).sin().sum(1))
        result.sum().backward()
        nt.testing.assert_close(x.grad, x.detach().cos())
    assert [shapes for _, _, shapes, _ in log] == [[(2, 4)], [(3, 4)], [(5, 4)]]


def test_aliases_and_double_results() -> None:
    """An output that is a view of an input is one; results that a function returns twice are two tensors."""
    x, w = inputs_of(nt)

    def twice(gm: Any, inputs: list) -> Callable:
        def run(*args: Any) -> Any:
            results = gm(*args)
            return (results[0], results[0], *results[2:])

        return run

    call = our_aot.aot_function(lambda x, w: (x + w, x + w * 1, w.t()), fw_compiler=twice, bw_compiler=nop)
    first, second, view = call(x, w)
    assert view._base is w and first is not second
    first.sum().backward()
    nt.testing.assert_close(w.grad, nt.ones(4, 4))


def test_saved_values_are_watched() -> None:
    x, w = inputs_of(nt)
    result = our_aot.aot_function(lambda x, w: (x @ w).sum(), fw_compiler=nop)(x, w)
    x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.backward()


@pytest.mark.parametrize(
    ("compiler", "kind", "text"),
    [
        (lambda gm, inputs: 3, TypeError, "must return a callable"),
        (lambda gm, inputs: lambda *args: (), RuntimeError, "returned 0 values"),
        (lambda gm, inputs: lambda *args: ("x", None), TypeError, "returned a str where"),
        (ts_compile, NotImplementedError, "TorchScript"),
    ],
)
def test_bad_compilers(compiler: Callable, kind: type, text: str) -> None:
    x, w = inputs_of(nt)
    with pytest.raises(kind, match=text):
        our_aot.aot_function(lambda x, w: x @ w, fw_compiler=compiler)(x, w)


def test_an_error_of_the_function_comes_through() -> None:
    def failing(gm: Any, inputs: list) -> Callable:
        def run(*args: Any) -> Any:
            raise KeyError("mine")

        return run

    x, w = inputs_of(nt)
    with pytest.raises(KeyError, match="mine"):
        our_aot.aot_function(lambda x, w: x @ w, fw_compiler=failing)(x, w)
    result = our_aot.aot_function(lambda x, w: x @ w, fw_compiler=nop, bw_compiler=failing)(x, w)
    with pytest.raises(KeyError, match="mine"):
        result.sum().backward()


@pytest.mark.parametrize("grad", (False, True))
def test_an_error_of_the_function_comes_through_a_compiled_one(grad: bool) -> None:
    """It is not taken for one that the data make, after which a compiled function goes on uncompiled."""

    class Fails(nt.fx.Interpreter):
        def call_function(self, target: Any, args: tuple, kwargs: dict) -> Any:
            raise KeyError("not in the table")

    def compiler(gm: Any, inputs: list) -> Callable:
        return make_boxed_func(Fails(gm).run)

    function = nt.compile(lambda x: x.cumsum(0), backend=aot_autograd(fw_compiler=compiler, bw_compiler=compiler))
    for _ in range(2):
        with pytest.raises(RuntimeError, match="not in the table[^$]*While executing %cumsum"):
            function(nt.ones(2, requires_grad=grad))


def test_decompositions_take_operators_to_pieces() -> None:
    """In the forward and in the backward, again and again until none is left."""
    aten, log = nt.ops.aten, []
    table = {
        aten._softmax.default: lambda x, dim, half: aten.exp(x) / nt.sum(aten.exp(x), dim, keepdim=True),
        aten._softmax_backward_data.default: lambda g, y, dim, kind: y * (g - (g * y).sum(dim, keepdim=True)),
        aten.div.Tensor: lambda a, b: a * b.reciprocal(),
    }
    x, w = inputs_of(nt)
    call = our_aot.aot_function(
        lambda x, w: nt.softmax(x @ w, -1)[0].sum(),
        fw_compiler=recorder(log, "fw"),
        bw_compiler=recorder(log, "bw"),
        decompositions=table,
    )
    result = call(x, w)
    nt.testing.assert_close(result, nt.softmax(x @ w, -1)[0].sum())
    result.backward()
    _, same = inputs_of(nt)
    nt.softmax(x @ same, -1)[0].sum().backward()
    nt.testing.assert_close(w.grad, same.grad)
    text = log[0][1] + log[1][1]
    assert "softmax" not in text and "aten.div" not in text and "aten.reciprocal.default" in text


def test_parts_of_results_are_known() -> None:
    """A saved part of a call with several results has a shape; printed graphs show shapes and lines."""
    log: list = []

    def f(x: Any, w: Any) -> Any:
        return nt.split(x @ w, 2)[0].sin()

    x, w = inputs_of(nt)
    compilers = {"fw_compiler": recorder(log, "fw"), "bw_compiler": recorder(log, "bw")}
    our_aot.aot_function(f, **compilers)(x, w).sum().backward()
    assert log[1][2] == [(4, 4), (2, 4), (2, 4)]
    text = log[0][3].print_readable(print_output=False)
    assert 'def forward(self, primals_1: "f32[4, 4]", primals_2: "f32[4, 4]"):' in text
    assert 'sin: "f32[2, 4]" = torch.ops.aten.sin.default(getitem)' in text
    assert "in f, code: return nt.split(x @ w, 2)[0].sin()" in text


@pytest.mark.parametrize("mode", ["default", "reduce-overhead", "eager"])
def test_what_leads_to_unused_results_has_no_gradient(mode):
    """As in eager mode: none, not zeros, which an optimizer would take for a gradient."""

    def f(x, y, z, w):
        z.copy_(w * 2)
        return x * 2, y.exp() + x, y.floor(), x.sum() * w

    options = {"backend": "eager"} if mode == "eager" else {"mode": mode}
    for used in ((0,), (1,), (2,), (3,), (0, 2), ()):
        told = []
        for call in (f, nt.compile(f, fullgraph=True, **options)):
            x, y, w = (nt.ones(3, requires_grad=True) for _ in range(3))
            z = nt.zeros(3)
            results = call(x, y, z, w)
            (sum(results[k].sum() for k in used) if used else z.sum()).backward()
            told.append([None if v.grad is None else v.grad.tolist() for v in (x, y, w)])
        assert told[0] == told[1], used
