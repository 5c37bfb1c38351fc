"""torch.norm, einsum and meshgrid beside PyTorch's; statistics of a compiled batch norm; softmax as a shortcut."""

import inspect
import pickle

import narthex as nt
import numpy
import pytest
import torch
from both import close, over, same

EQUATIONS = {
    "ij,jk->ik": ((3, 4), (4, 5)),
    "ij,jk": ((3, 4), (4, 5)),
    "bhqd,bhkd->bhqk": ((2, 3, 5, 4), (2, 3, 6, 4)),
    "bqd,bkd->bqk": ((2, 5, 4), (2, 1, 4)),
    "...ij,...jk->...ik": ((2, 1, 3, 4), (3, 4, 5)),
    "ij->ji": ((3, 4),),
    "ij->": ((3, 4),),
    "ij->j": ((3, 4),),
    "i,j->ij": ((3,), (4,)),
    "i,i->": ((3,), (3,)),
    "ab,bc,cd->ad": ((2, 3), (3, 4), (4, 5)),
    "i...,i": ((3, 2, 4), (3,)),
    "ij,ij->ij": ((3, 4), (3, 4)),
    "ijk,k->ij": ((2, 3, 0), (0,)),
    "b i , b j -> b i j": ((2, 3), (2, 4)),
}
WRONG = [
    ("ij,jk", ((2, 3), (4, 5))), ("ij", ((2,),)), ("ij->k", ((2, 2),)), ("ij,j", ((2, 2),)), ("i1", ((2, 2),)),
    ("ij->ii", ((2, 2),)), ("ijk...", ((2, 2),)),
]  # fmt: skip


@pytest.mark.parametrize("equation", EQUATIONS)
def test_einsum(equation):
    torch.manual_seed(1)
    operands = [torch.randn(size) for size in EQUATIONS[equation]]
    found = []
    for module, change in ((nt, over), (torch, torch.clone)):
        leaves = [change(x).requires_grad_() for x in operands]
        result = module.einsum(equation, *leaves)
        result.sin().sum().backward()
        found.append([result, *(x.grad for x in leaves)])
    for mine, other in zip(*found):
        close(mine, other, 1e-4, 1e-5)


@pytest.mark.parametrize("equation, sizes", WRONG)
def test_einsum_errors(equation, sizes):
    texts = []
    for module in (nt, torch):
        with pytest.raises(RuntimeError) as caught:
            module.einsum(equation, *(module.ones(size) for size in sizes))
        texts.append(str(caught.value))
    assert texts[0] == texts[1]


@pytest.mark.parametrize("dim", [None, 0, [0, 2]])
@pytest.mark.parametrize("p", ["fro", 2, 1, 0, 3.5, None])
def test_norm(p, dim):
    x = torch.randn(2, 3, 4)
    x[0] = 0
    found = []
    for module, change in ((nt, over), (torch, torch.clone)):
        leaf = change(x).requires_grad_()
        result = leaf.norm(p, dim, keepdim=True)
        if p != 0:
            module.norm(leaf, p, dim).sum().backward()
        found.append([result, change(x).norm(dtype=module.float64), *([leaf.grad] if p != 0 else [])])
    for mine, other in zip(*found):
        close(mine, other)


@pytest.mark.parametrize("indexing", ["ij", "xy"])
def test_meshgrid(indexing):
    vectors = [torch.arange(2), torch.arange(3), torch.tensor(5)]
    for count in (1, 2, 3):
        theirs = torch.meshgrid(*vectors[:count], indexing=indexing)
        mine = nt.meshgrid([over(x) for x in vectors[:count]], indexing=indexing)
        assert isinstance(mine, tuple)
        for one, other in zip(mine, theirs, strict=True):
            same(one, other)


@pytest.mark.parametrize("mode", ["max-autotune", "reduce-overhead"])
def test_compiled_batch_norm_keeps_its_statistics(mode):
    x = over(torch.randn(8, 3, 5))
    layers = [nt.nn.BatchNorm1d(3), nt.nn.BatchNorm1d(3)]
    compiled = nt.compile(layers[1], mode=mode)
    for _ in range(3):
        same(layers[0](x), over(compiled(x)))
        for one, other in zip(layers[0].buffers(), layers[1].buffers()):
            same(one, over(other))


# ---- functions whose usual calls go straight to an operator
CALLS = {
    "by position": lambda f, x, m: f(x, -1),
    "by name": lambda f, x, m: f(x, dim=0),
    "all by name": lambda f, x, m: f(dim=1, input=x, dtype=m.float64),
    "fourth by position": lambda f, x, m: f(x, 1, 3, m.float64),
    "third is no dtype": lambda f, x, m: f(x, 1, m.float64),
    "absent dtype": lambda f, x, m: f(x, 1, dtype=None),
    "stack level": lambda f, x, m: f(x, 1, _stacklevel=5),
    "no dim": lambda f, x, m: f(x),
    "no dim by name": lambda f, x, m: f(x, dim=None, dtype=m.float64),
}
WRONG_CALLS = [
    lambda f, x: f(), lambda f, x: f(x, "a"), lambda f, x: f(x, 5), lambda f, x: f(x, 1, dim=1), lambda f, x: f(3, 1),
    lambda f, x: f(x, 1, 3, None, 4), lambda f, x: f(x, dims=1), lambda f, x: f(x.long(), 1),
]  # fmt: skip


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.filterwarnings("ignore:Implicit dimension")
def test_shortcut(name):
    mine, theirs = getattr(nt.nn.functional, name), getattr(torch.nn.functional, name)
    x = torch.randn(2, 3)
    for call in CALLS.values():
        close(call(mine, over(x), nt), call(theirs, x, torch))
    for call in WRONG_CALLS:
        with pytest.raises(Exception) as expected:
            call(theirs, x)
        with pytest.raises(expected.type):
            call(mine, over(x))


@pytest.mark.filterwarnings("ignore:Implicit dimension")
def test_shortcut_is_a_function():
    softmax = nt.nn.functional.softmax
    assert list(inspect.signature(softmax).parameters) == ["input", "dim", "_stacklevel", "dtype"]
    assert (softmax.__name__, softmax.__module__) == ("softmax", "narthex.nn.functional")
    assert pickle.loads(pickle.dumps(softmax)) is softmax
    x = nt.randn(2, 3)
    for call in CALLS.values():
        captured = nt.compile(lambda x, call=call: call(softmax, x, nt) + 1, backend="eager")
        same(captured(x), over(call(softmax, x, nt) + 1))


SEQUENCES = "[t.arange(2.0), t.arange(3.0) + 7, t.ones(1)]"


@pytest.mark.parametrize("compiled", [False, True])
def test_functions_in_a_class(compiled):
    """A built-in function that is an attribute of a class gets no instance, as PyTorch's; one of Python binds."""

    class Layer:
        activation = nt.relu
        method = nt.Tensor.relu
        softmax = nt.nn.functional.softmax

        def forward(self, x):
            return self.activation(x) + type(self).activation(x)

    x, layer = nt.tensor([-1.0, 2.0]), Layer()
    forward = nt.compile(layer.forward, fullgraph=True) if compiled else layer.forward
    assert forward(x).tolist() == [0.0, 4.0]
    assert inspect.ismethod(layer.softmax)
    with pytest.raises(TypeError):
        layer.method(x)


@pytest.mark.parametrize(
    "text",
    [
        "t.broadcast_shapes((2, 1), (3,), 4 * [1])", "t.broadcast_shapes(2, (1, 2))", "t.broadcast_shapes()",
        "t.broadcast_shapes((2,), (3,))", "t.broadcast_shapes((-1,))", "t.broadcast_to(t.ones(3), (2, 3)).stride()",
        "[x.shape for x in t.broadcast_tensors(t.ones(2, 1), t.ones(3))]", "t.broadcast_tensors()",
        "t.broadcast_tensors(t.ones(1), 2)", "t.asarray([1, 2]).tolist()", "t.asarray(3.5, dtype=t.float64).dtype",
        "t.asarray([1.0], requires_grad=True).requires_grad",
        f"t.nn.utils.rnn.pad_sequence({SEQUENCES}).tolist()",
        f"t.nn.utils.rnn.pad_sequence({SEQUENCES}, True, 5.0).tolist()",
        f"t.nn.utils.rnn.pad_sequence({SEQUENCES}, padding_side='left').tolist()",
        "t.nn.utils.rnn.pad_sequence([t.ones(2, 3), t.ones(1, 3)]).shape", "t.nn.utils.rnn.pad_sequence([])",
        "t.nn.utils.rnn.pad_sequence(5)",
        "t.nn.utils.parameters_to_vector([t.ones(2, 2), t.zeros(3)]).tolist()",
    ],
)  # fmt: skip
def test_small_functions(text):
    seen = []
    for module in (nt, torch):
        try:
            seen.append(str(eval(text, {"t": module})))
        except Exception as error:
            seen.append((type(error), str(error)))
    assert seen[0] == seen[1]


def test_asarray_shares_where_it_can():
    x = nt.ones(2)
    assert nt.asarray(x).data_ptr() == x.data_ptr() and nt.asarray(x, copy=True).data_ptr() != x.data_ptr()
    array = numpy.ones(2, dtype="float32")
    nt.asarray(array)[0] = 5
    assert array.tolist() == [5, 1]
    nt.asarray(array, copy=True)[0] = 6
    assert array.tolist() == [5, 1]
    with pytest.raises(ValueError, match="copy=False"):
        nt.asarray([1, 2], copy=False)
    with pytest.raises(ValueError, match="copy=False"):
        nt.asarray(x, dtype=nt.float64, copy=False)


def test_vector_to_parameters():
    layer = nt.nn.Linear(2, 2)
    nt.nn.utils.vector_to_parameters(nt.arange(6.0), layer.parameters())
    assert layer.weight.tolist() == [[0, 1], [2, 3]] and layer.bias.tolist() == [4, 5]
    assert nt.nn.utils.parameters_to_vector(layer.parameters()).tolist() == [0, 1, 2, 3, 4, 5]
    loss = nt.nn.utils.parameters_to_vector(layer.parameters()).sum()
    loss.backward()
    assert layer.bias.grad.tolist() == [1, 1]


def test_padded_sequences_carry_gradients():
    a, b = nt.ones(2, requires_grad=True), nt.ones(3, requires_grad=True)
    (nt.nn.utils.rnn.pad_sequence([a, b]) ** 2).sum().backward()
    assert a.grad.tolist() == [2, 2] and b.grad.tolist() == [2, 2, 2]


def test_asarray_and_gradients():
    x = nt.ones(1, requires_grad=True)
    assert nt.asarray(x) is x and not nt.asarray(x, requires_grad=False).requires_grad


PADS = [
    ((3, 4), (1,)), ((3, 4), (1, 1, 1, 1, 1, 1)), ((3, 4), (1, 1), "mirror"), ((3, 4), (1, 1), "reflect", 3),
    ((3, 4), (4, 1), "reflect"), ((3, 4), (5, 1), "circular"), ((4,), (1, 1), "reflect"), ((3, 4), (-3, -3)),
]  # fmt: skip


@pytest.mark.parametrize("wrong", PADS, ids=str)
def test_pad_refuses(wrong):
    """With PyTorch's exceptions."""
    size, *given = wrong
    with pytest.raises((RuntimeError, NotImplementedError)) as expected:
        torch.nn.functional.pad(torch.zeros(size), *given)
    with pytest.raises(type(expected.value)):
        nt.nn.functional.pad(nt.zeros(size), *given)


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
def test_pad_compiled(mode):
    """One graph, also where sizes are left open."""
    for dynamic in (None, True):
        compiled = nt.compile(lambda x: nt.nn.functional.pad(x * 2, (1, 2), mode) + 1, fullgraph=True, dynamic=dynamic)
        for n in (4, 5, 6):
            x = torch.randn(3, n)
            same(compiled(over(x)), torch.nn.functional.pad(x * 2, (1, 2), mode) + 1)


def test_one_hot_finds_how_many():
    given = [[1, 0], [3, 2]]
    theirs = torch.nn.functional.one_hot(torch.tensor(given))
    same(nt.nn.functional.one_hot(nt.tensor(given)), theirs)
    for wrong in ([-1, 2], [4, 0]):
        for m in (nt, torch):
            with pytest.raises(RuntimeError):
                m.nn.functional.one_hot(m.tensor(wrong), 3)


@pytest.mark.parametrize("options", [{}, {"p": 1.0, "dim": 0}, {"p": 3, "dim": -1, "eps": 0.5}])
def test_normalize(options):
    x = torch.randn(3, 4)
    leaves = [over(x).requires_grad_(), x.clone().requires_grad_()]
    results = [m.nn.functional.normalize(leaf, **options) for m, leaf in zip((nt, torch), leaves)]
    close(*results)
    for result in results:
        (result * result[0]).sum().backward()
    close(leaves[0].grad, leaves[1].grad)


@pytest.mark.parametrize("n", [0, 1, 2, 10, 1000, 100003])
def test_randperm(n):
    """PyTorch's order from the same seed, and the generator is where PyTorch's is."""
    for options in ({}, {"dtype": "int32"}, {"generator": 5}):
        drawn = []
        for m in (nt, torch):
            m.manual_seed(n)
            given = {name: getattr(m, value) for name, value in options.items() if name == "dtype"}
            if "generator" in options:
                given["generator"] = m.Generator().manual_seed(options["generator"])
            drawn += [m.randperm(n, **given), m.rand(3)]
        same(drawn[0], drawn[2])
        same(drawn[1], drawn[3])


def test_randperm_refuses():
    for m in (nt, torch):
        with pytest.raises(RuntimeError, match="negative dimension"):
            m.randperm(-1)
        with pytest.raises(NotImplementedError, match="not implemented for 'Bool'"):
            m.randperm(3, dtype=m.bool)
        with pytest.raises(RuntimeError, match="n cannot be greater than 2049"):
            m.randperm(2050, dtype=m.float16)


LIKE = {
    "rows": lambda m: m.zeros(5, 7), "columns": lambda m: m.zeros(5, 7).t(), "gaps": lambda m: m.zeros(8, 8)[:, ::2],
    "few": lambda m: m.zeros(3), "bfloat16": lambda m: m.zeros(40, dtype=m.bfloat16),
}  # fmt: skip


@pytest.mark.parametrize("name", ["randn_like", "rand_like"])
@pytest.mark.parametrize("like", LIKE)
def test_drawn_like(name, like):
    """PyTorch's numbers and layout from the same seed."""
    drawn = []
    for m in (nt, torch):
        m.manual_seed(7)
        drawn += [getattr(m, name)(LIKE[like](m)), getattr(m, name)(LIKE[like](m), dtype=m.float64), m.rand(3)]
    for mine, theirs in zip(drawn[:3], drawn[3:]):
        same(mine, theirs)
        assert mine.stride() == theirs.stride()
