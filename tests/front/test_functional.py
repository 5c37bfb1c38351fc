"""torch.norm, einsum and meshgrid beside PyTorch's; statistics of a compiled batch norm; softmax as a shortcut."""

import inspect
import pickle

import narthex as nt
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
