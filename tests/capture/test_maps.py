"""torch.vmap and torch.func in captured functions: one graph with eager's numbers and gradients, and what ends one."""

import narthex as torch
import pytest
from narthex import _C, nn
from narthex.func import functional_call, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, vjp, vmap
from narthex.utils._pytree import tree_leaves

torch.manual_seed(0)
NET = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
PARAMS = {name: each.detach() for name, each in NET.named_parameters()}
TARGETS, VECTOR = torch.randn(5, 2), torch.randn(3)


def loss(params, x, y):
    return ((functional_call(NET, params, (x,)) - y) ** 2).sum()


def cubes(row):
    return (row**3).sum()


MAPS = {
    "rows": lambda x: vmap(lambda row: (row * 2).sin().sum())(x),
    "out_dims": lambda x: vmap(lambda column: column.softmax(0), in_dims=1, out_dims=1)(x),
    "nested": lambda x: vmap(vmap(lambda each: each * each + 1))(x),
    "an operator": lambda x: vmap(torch.dot)(x, x.cos()),
    "what is not mapped": lambda x: vmap(lambda row, v: (row * v).sum(), in_dims=(0, None))(x, VECTOR),
    "a module": lambda x: vmap(NET)(x),
    "chunks": lambda x: vmap(lambda row: row.sin(), chunk_size=2)(x),
    "trees": lambda x: vmap(lambda d, k=1: {"sum": d["x"] + d["y"] * k})({"x": x, "y": x.exp()}, k=3),
    "in place": lambda x: vmap(lambda row: row.clone().mul_(2).add_(x[0]))(x),
    "slice by slice": lambda x: vmap(lambda row: torch.cumulative_trapezoid(row))(x),
    "draws": lambda x: vmap(lambda row: row + torch.randn(3), randomness="different")(x),
    "without slices of it": lambda x: vmap(lambda row: VECTOR.sin())(x) * x,
}
DERIVATIVES = {
    "grad": lambda x: grad(cubes)(x),
    "grad_and_value": lambda x: grad_and_value(cubes)(x),
    "grad, more": lambda x: grad(lambda each: (cubes(each), each.sin()), has_aux=True)(x),
    "argnums": lambda x: grad(lambda a, b: (a * b.sin()).sum(), argnums=(0, 1))(x, x.exp()),
    "of each sample": lambda x: vmap(grad(loss), in_dims=(None, 0, 0))(PARAMS, x, TARGETS),
    "rows": lambda x: vmap(grad(cubes))(x),
    "jacrev": lambda x: jacrev(torch.sin)(x[0]),
    "jacfwd": lambda x: jacfwd(lambda row: row.sin() * VECTOR)(x[0]),
    "hessian": lambda x: hessian(cubes)(x[0]),
    "hessians": lambda x: vmap(hessian(cubes))(x),
    "vjp": lambda x: vjp(torch.sin, x)[1](x.cos()),
    "jvp": lambda x: jvp(torch.sin, (x,), (x.cos(),)),
    "twice": lambda x: grad(lambda each: grad(cubes)(each).sin().sum())(x),
}
CASES = [(name, each) for cases in (MAPS, DERIVATIVES) for name, each in cases.items()]


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "narthex"])
@pytest.mark.parametrize(("name", "function"), CASES)
def test_one_graph(name, function, backend, requires_grad):
    compiled, rows = torch.compile(function, backend=backend, fullgraph=True), []
    for call in (function, compiled, compiled):
        torch.manual_seed(3)
        x = torch.randn(5, 3, requires_grad=requires_grad)
        results = tree_leaves(call(x))
        total = sum(each.sin().sum() for each in results)
        (gradient,) = torch.autograd.grad(total, x, allow_unused=True) if x.requires_grad else (None,)
        rows.append((results, gradient))
    assert len(compiled.graphs) == compiled.entries == 1
    for results, gradient in rows[1:]:
        for result, expected in zip(results, rows[0][0], strict=True):
            assert torch.allclose(result, expected, rtol=1e-4, atol=1e-6)
            assert result.requires_grad == expected.requires_grad
        assert (gradient is None) == (rows[0][1] is None)
        assert gradient is None or torch.allclose(gradient, rows[0][1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mode", ["max-autotune", "reduce-overhead"])
def test_gradients_of_each_sample_train(mode):
    def step(params, x, y):
        gradients = vmap(grad(loss), in_dims=(None, 0, 0))(params, x, y)
        sizes = sum(each.flatten(1).pow(2).sum(1) for each in gradients.values()).sqrt()
        scale = (1 / sizes).clamp(max=1)
        return {name: params[name] - 0.1 * (scale @ each.flatten(1)).view_as(params[name])
                for name, each in gradients.items()}  # fmt: skip

    compiled, x = torch.compile(step, mode=mode, fullgraph=True), torch.randn(5, 3)
    eager, ours = PARAMS, PARAMS
    for _ in range(4):
        eager, ours = step(eager, x, TARGETS), compiled(ours, x, TARGETS)
    assert compiled.entries == 1
    for name, each in eager.items():
        assert torch.allclose(ours[name], each, rtol=1e-4, atol=1e-5)


def test_another_number_of_slices_is_another_graph():
    compiled = torch.compile(MAPS["rows"], fullgraph=True)
    for n in (2, 5, 2, 4):
        x = torch.randn(n, 3)
        assert torch.allclose(compiled(x), MAPS["rows"](x), atol=1e-6)
    assert compiled.entries == 3


# ---- what ends a graph, before the map ---------------------------------------------------------------------------
def test_a_print_inside_ends_the_graph_before_the_map(capsys):
    def function(x):
        def row(r):
            print("a row of", r.dim(), "dimension")
            return r * 2

        return vmap(row)(x.sin()) + 1

    compiled, x = torch.compile(function), torch.randn(4, 3)
    for _ in range(2):
        assert torch.equal(compiled(x), function(x))
    assert capsys.readouterr().out == "a row of 1 dimension\n" * 4
    assert _C._batch_open() == []


def test_slices_that_draw_the_same_end_it():
    def function(x):
        return vmap(lambda row: nn.functional.dropout(row, 0.5), randomness="same")(x)

    compiled, x, found = torch.compile(function), torch.ones(4, 30), []
    for call in (function, compiled):
        torch.manual_seed(1)
        found.append(call(x))
    assert torch.equal(*found) and torch.equal(found[1][0], found[1][3])
    with pytest.raises(_C.Unsupported, match="the same numbers for each slice"):
        torch.compile(function, fullgraph=True)(x)


class Squared(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        return grad * 2 * ctx.saved_tensors[0]


def test_a_function_with_a_backward_of_its_own_ends_it_inside_of_a_map():
    def function(x):
        return vmap(lambda row: Squared.apply(row).sum())(x)

    compiled = torch.compile(function)
    for _ in range(2):
        x = torch.randn(4, 3, requires_grad=True)
        compiled(x).sum().backward()
        assert torch.allclose(compiled(x), (x * x).sum(1)) and torch.allclose(x.grad, 2 * x)
    with pytest.raises(_C.Unsupported):
        torch.compile(function, fullgraph=True)(x)


def test_a_slice_that_outlives_its_map_ends_it():
    kept = []

    def function(x):
        return vmap(lambda row: kept.append(row) or row.sin())(x)

    compiled, x = torch.compile(function), torch.randn(4, 3)
    assert torch.allclose(compiled(x), x.sin()) and len(kept) == 1
    with pytest.raises(_C.Unsupported):
        torch.compile(function, fullgraph=True)(x)
    assert _C._batch_open() == []


@pytest.mark.parametrize(
    ("function", "error", "words"),
    [
        (lambda x: vmap(lambda row: row.nonzero())(x), RuntimeError, "can output dynamic shape"),
        (lambda x: vmap(lambda row: row + torch.randn(3))(x), RuntimeError, "randomness error mode"),
        (lambda x: vmap(lambda row: row, in_dims=3)(x), ValueError, "in_dims=3"),
        (lambda x: vmap(lambda row: 1)(x), ValueError, "must only return Tensors"),
        (lambda x: grad(lambda each: each)(x), RuntimeError, "scalar"),
    ],
)
def test_errors_are_eagers(function, error, words):
    x = torch.randn(4, 3)
    for call in (function, torch.compile(function)):
        with pytest.raises(error, match=words):
            call(x)
    assert _C._batch_open() == []


def test_an_error_inside_is_caught_outside_and_the_map_is_over():
    def row(r):
        raise KeyError(r.dim())

    def function(x):
        try:
            return vmap(row)(x)
        except KeyError as error:
            (size,) = error.args
            return vmap(lambda r: r + size)(x)

    compiled, x = torch.compile(function, fullgraph=True), torch.randn(4, 3)
    assert torch.equal(compiled(x), x + 1) and torch.equal(compiled(x), x + 1)
