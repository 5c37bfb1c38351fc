"""Functions and arguments of PyTorch that programs use in passing, against PyTorch."""

import itertools

import narthex as nt
import pytest
import torch

MODULES = (nt, torch)
DTYPES = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64".split()
STORED = "uint16 uint32 uint64 float8_e4m3fn float8_e5m2 complex64 complex128".split()


def plain(value):
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [plain(part) for part in value]
    if hasattr(value, "tolist"):
        return str(value.dtype), list(value.shape), value.tolist()
    return str(value)


def agree(f):
    """f(module) is the same in both: a value, or an exception's type and text."""
    outcomes = []
    for module in MODULES:
        try:
            outcomes.append(plain(f(module)))
        except Exception as error:
            outcomes.append((type(error).__name__, str(error)))
    assert outcomes[0] == outcomes[1]


def test_which_dtypes_go_into_which_that_have_fewer_operators():
    for a, b in itertools.product(DTYPES + STORED, STORED):
        agree(lambda m, a=a, b=b: m.can_cast(getattr(m, a), getattr(m, b)))
        agree(lambda m, a=a, b=b: m.can_cast(getattr(m, b), getattr(m, a)))
    for a, number in itertools.product(("float32", "float64", "int64", "bool"), (1j, 2 + 0j)):
        agree(lambda m, a=a, n=number: m.result_type(m.ones(2, dtype=getattr(m, a)), n))
    for a, b in itertools.product((True, 2, 1.5, 1j), (1j,)):
        agree(lambda m, a=a, b=b: m.result_type(a, b))


def test_which_dtypes_go_into_which():
    for a, b in itertools.product(DTYPES, DTYPES):
        agree(lambda m, a=a, b=b: m.can_cast(getattr(m, a), getattr(m, b)))
        agree(lambda m, a=a, b=b: m.promote_types(getattr(m, a), getattr(m, b)))
        agree(lambda m, a=a, b=b: m.result_type(m.ones(2, dtype=getattr(m, a)), m.tensor(1, dtype=getattr(m, b))))
    for a, number in itertools.product(DTYPES, (True, 2, 1.5)):
        agree(lambda m, a=a, n=number: m.result_type(m.ones(2, dtype=getattr(m, a)), n))
        agree(lambda m, a=a, n=number: m.result_type(n, m.tensor(1, dtype=getattr(m, a))))
    for a, b in itertools.product((True, 2, 1.5), repeat=2):
        agree(lambda m, a=a, b=b: m.result_type(a, b))
    agree(lambda m: m.can_cast(1, m.int32))
    agree(lambda m: m.promote_types(m.int32, 1))


def test_tensors_as_before_dtypes():
    for make in (lambda m: m.nn.Parameter(m.ones(2)).detach(), lambda m: m.ones(2, dtype=m.int64)):
        agree(lambda m, make=make: make(m).new([1, 2]))
        agree(lambda m, make=make: make(m).new(2, 3).shape)
        agree(lambda m, make=make: make(m).new())
        agree(lambda m, make=make: make(m).new(make(m)))
    assert type(nt.nn.Parameter(nt.ones(2)).new([1.0])) is nt.Tensor
    agree(lambda m: m.ones(2).type(m.DoubleTensor))
    agree(lambda m: m.ones(2).type("torch.LongTensor"))
    agree(lambda m: m.ones(2).type("torch.StrangeTensor"))


def lists(m):
    return [m.ones(2), m.ones(3) * 4]


FOREACH = [
    ("add", 2), ("add", lists), ("sub", 2), ("mul", 2.0), ("mul", lists), ("div", 2.0), ("div", lists), ("sqrt",),
    ("neg",), ("abs",), ("exp",), ("maximum", lists), ("maximum", 2.0), ("minimum", 2.0), ("addcmul", lists, lists),
    ("addcdiv", lists, lists, 0.5), ("lerp", lists, 0.5), ("pow", 2), ("reciprocal",), ("sign",), ("clamp_min", 2.0),
    ("sigmoid",), ("add", [1.0, 2.0]), ("add", [1.0]), ("sub", [1.0, 2.0]), ("mul", (1.0, 2.0)), ("div", [1.0, 2.0]),
    ("maximum", [1.0, 5.0]), ("minimum", lists), ("lerp", lists, [0.5, 0.25]), ("lerp", lists, lists),
    ("addcmul", lists, lists, [2.0, 3.0]), ("addcdiv", lists, lists, [2.0, 3.0]), ("addcmul", lists, lists, [2.0]),
    ("addcdiv", lists, lists, lambda m: m.tensor([2.0, 3.0])), ("mul", lambda m: m.tensor(2.0)),
]  # fmt: skip


@pytest.mark.parametrize("suffix", ["", "_"])
@pytest.mark.parametrize("case", FOREACH, ids=lambda case: case[0])
def test_foreach(case, suffix):
    name, *others = case
    outcomes = []
    for m in MODULES:
        mine = lists(m)
        try:
            made = getattr(m, "_foreach_" + name + suffix)(
                mine, *(other(m) if callable(other) else other for other in others)
            )
        except RuntimeError as error:
            made = error
        outcomes.append((mine, made))
    (mine, made), (theirs, expected) = outcomes
    assert type(made) is type(expected) and [t.tolist() for t in mine] == [t.tolist() for t in theirs]
    if not isinstance(made, Exception):
        for ours, other in zip(made, expected, strict=True):
            assert ours.tolist() == pytest.approx(other.tolist(), rel=1e-6)


def test_foreach_in_place_and_absent():
    for name in ("copy_", "sqrt_", "abs_", "zero_"):
        mine = lists(nt), lists(torch)
        for m, given in zip(MODULES, mine, strict=True):
            made = getattr(m, "_foreach_" + name)(given, *([[t + 5 for t in given]] if name == "copy_" else []))
            assert made is given
            assert isinstance(m._foreach_add_(tuple(given), 1.0), tuple)
        assert [t.tolist() for t in mine[0]] == [t.tolist() for t in mine[1]]
    for name in ("_foreach_nothing", "_foreach_copy"):
        with pytest.raises(AttributeError):
            getattr(nt, name)
    with pytest.raises(RuntimeError, match="at least one tensor"):
        nt._foreach_sqrt([])


def test_a_sampler_of_more_keys_than_memory_holds():
    drawn = []
    for m in MODULES:
        m.manual_seed(3)
        sampler = m.utils.data.RandomSampler(range(100), replacement=True, num_samples=10**10)
        drawn.append(list(itertools.islice(iter(sampler), 70)))
    assert drawn[0] == drawn[1]
    for m in MODULES:
        m.manual_seed(3)
        drawn.append(list(m.utils.data.RandomSampler(range(7), replacement=True, num_samples=70)))
    assert drawn[2] == drawn[3] and len(drawn[2]) == 70


@pytest.mark.parametrize("name", ["silu", "mish", "leaky_relu", "elu", "hardtanh", "relu6", "hardswish", "hardsigmoid"])
def test_activations_in_place(name):
    made = []
    x = nt.tensor([-1.0, 0.5, 8.0])
    expected = getattr(nt.nn.functional, name)(x.clone()).tolist()
    before = nt._C.op_function
    try:
        nt._C.op_function = lambda *args: made.append(args) or before(*args)
        assert getattr(nt.nn.functional, name)(x, inplace=True) is x
    finally:
        nt._C.op_function = before
    assert x.tolist() == expected and made == []


def test_names_of_numpy():
    agree(lambda m: m.ones(2, 3).sum(dim=1, keepdims=True))
    agree(lambda m: m.mean(m.ones(2, 3), axis=1, keepdims=True))
    agree(lambda m: m.add(m.ones(2), x2=m.ones(2)))
    with pytest.raises(TypeError):
        nt.ones(2, 3).sum(dim=1, axis=1)
    with pytest.raises(TypeError):
        nt.ones(2, 3).sum(keepdimz=True)


def test_tensors_in_the_place_of_numbers():
    agree(lambda m: m.ones(2).add_(m.ones(2), alpha=m.tensor(2.0)))
    agree(lambda m: m.add(m.ones(2), m.ones(2), alpha=m.tensor(3)))
    agree(lambda m: m.ones(2).addcmul_(m.ones(2), m.ones(2), value=m.tensor(2.0)))
    for alpha in (nt.tensor(2.0, requires_grad=True), nt.ones(1)):
        with pytest.raises(TypeError, match="must be Number, not Tensor"):
            nt.add(nt.ones(2), nt.ones(2), alpha=alpha)

    def f(x, alpha):
        return nt.add(x, x, alpha=alpha) + 1

    assert nt.compile(f)(nt.ones(2), nt.tensor(2.0)).tolist() == [4, 4]
