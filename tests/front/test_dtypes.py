"""The table of element types against PyTorch's: facts, promotion, casts bit by bit, printing, files, numpy, and which
operators the types that are only stored have."""

import io
import warnings

import narthex as nt
import pytest
import torch

FLOAT8 = ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"]
UNSIGNED = ["uint16", "uint32", "uint64"]
STORED = UNSIGNED + FLOAT8
COMPLEX = ["complex32", "complex64", "complex128"]
USUAL = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]
ALL = USUAL + STORED + COMPLEX


def outcome(call):
    """What a call gives, or the type and text of what it raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return call()
        except Exception as error:  # noqa: BLE001 (whatever it is, the other side must raise the same)
            return type(error).__name__, str(error).split("\n")[0]


def bits(module, tensor):
    """The bytes of a tensor, so that NaN is equal to NaN."""
    file = io.BytesIO()
    module.save(tensor.contiguous().clone(), file)
    file.seek(0)
    return torch.load(file).reshape(-1).view(torch.uint8).tolist()


@pytest.mark.parametrize("name", ALL)
def test_facts(name):
    mine, theirs = getattr(nt, name), getattr(torch, name)
    for fact in ("is_floating_point", "is_complex", "is_signed", "itemsize", "abbr"):
        assert getattr(mine, fact) == getattr(theirs, fact), fact
    assert repr(mine) == repr(theirs)
    assert nt.zeros(1).to(mine).type() == torch.zeros(1).to(theirs).type()
    kind = "finfo" if theirs.is_floating_point or theirs.is_complex else "iinfo"
    if name != "bool":
        infos = getattr(nt, kind)(mine), getattr(torch, kind)(theirs)
        for fact in ("bits", "min", "max", "dtype") + ("eps", "tiny", "smallest_normal", "resolution") * (
            kind == "finfo"
        ):
            assert getattr(infos[0], fact) == getattr(infos[1], fact), fact
        assert repr(infos[0]) == repr(infos[1])


@pytest.mark.parametrize("name", ALL)
def test_promotion(name):
    for other in ALL:

        def common(module, other=other):
            return repr(module.promote_types(getattr(module, name), getattr(module, other)))

        assert outcome(lambda: common(nt)) == outcome(lambda: common(torch)), other


@pytest.mark.parametrize("number", [True, 2, 1.5], ids=repr)
@pytest.mark.parametrize("name", USUAL + UNSIGNED)
def test_promotion_with_a_number(name, number):

    def product(module):
        return repr((module.ones(2).to(getattr(module, name)) * number).dtype)

    assert outcome(lambda: product(nt)) == outcome(lambda: product(torch))


def values(module):
    """Floats of all sizes, halves between float8 numbers among them, and what is special."""
    eighths = [k / 16 * 2.0**e for e in range(-20, 20) for k in range(16, 32)]
    extremes = [0.0, 1e30, 3e38, 1e-40, 6e4, 61440.0, 61439.9, 464.0, 463.9, 480.0, 248.0, 247.9, 1e-45]
    fine = [x * (1 + s * 2.0**-12) for x in eighths[::3] for s in (-1, 1)]
    numbers = [s * x for x in eighths + extremes + fine for s in (1, -1)] + [float("inf"), -float("inf"), float("nan")]
    return module.tensor(numbers, dtype=module.float64)


@pytest.mark.parametrize("source", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("name", FLOAT8)
def test_floats_become_float8(name, source):
    mine = values(nt).to(getattr(nt, source)).to(getattr(nt, name))
    theirs = values(torch).to(getattr(torch, source)).to(getattr(torch, name))
    assert bits(nt, mine) == theirs.view(torch.uint8).tolist()


@pytest.mark.parametrize("name", FLOAT8)
def test_every_float8_becomes_everything(name):
    raw = bytearray(range(256))
    mine = nt.frombuffer(raw, dtype=getattr(nt, name))
    theirs = torch.frombuffer(raw, dtype=getattr(torch, name))
    assert str(mine.tolist()) == str(theirs.tolist())
    finite = [k for k, x in enumerate(theirs.tolist()) if abs(x) < 128]
    for other in ALL:
        if other == "uint64" and name == "float8_e8m0fnu":
            continue
        whole = getattr(torch, other).is_floating_point or getattr(torch, other).is_complex or other == "bool"
        if whole:
            a, b = mine.to(getattr(nt, other)), theirs.to(getattr(torch, other))
        elif name == "float8_e8m0fnu" or getattr(torch, other).is_signed:
            at = finite
            a, b = mine[nt.tensor(at)].to(getattr(nt, other)), theirs[at].to(getattr(torch, other))
        else:
            at = [k for k in finite if theirs[k].item() >= 0]
            a, b = mine[nt.tensor(at)].to(getattr(nt, other)), theirs[at].to(getattr(torch, other))
        assert str(a.tolist()) == str(b.tolist()), other


@pytest.mark.parametrize("name", UNSIGNED + COMPLEX)
def test_casts_between_all(name):
    numbers = [0, 1, 2, 3, 100, 120]
    for other in ALL:
        pairs = []
        for module in (nt, torch):
            there = module.tensor(numbers).to(getattr(module, other)).to(getattr(module, name))
            back = module.tensor(numbers).to(getattr(module, name)).to(getattr(module, other))
            pairs.append([str(there.tolist()), str(back.tolist()), repr(there), repr(back)])
        assert pairs[0] == pairs[1], other


def test_unsigned_wrap_and_reach_their_ends():
    for name in UNSIGNED:
        top = torch.iinfo(getattr(torch, name)).max
        for module in (nt, torch):
            dtype = getattr(module, name)
            assert module.tensor([-1, 1 << 33]).to(dtype).tolist() == [top, (1 << 33) & top]
            assert module.full((2,), -3, dtype=dtype).tolist() == [top - 2] * 2
    for module in (nt, torch):
        big = module.tensor([2**64 - 1, 2**63], dtype=module.uint64)
        assert big.tolist() == [2**64 - 1, 2**63]
        assert big.to(module.float64).tolist() == [2.0**64, 2.0**63]
        assert module.tensor([2.0**63]).to(module.uint64).tolist() == [2**63]
        assert repr(big) == "tensor([18446744073709551615,  9223372036854775808], dtype=torch.uint64)"


FILLS = [-1, 300.7, -3, 2.5, 1e30, float("inf"), float("nan"), 1 + 2j, True]


@pytest.mark.parametrize("value", FILLS, ids=repr)
@pytest.mark.parametrize("name", ALL)
def test_full(name, value):
    def filled(module):
        return str(module.full((2,), value, dtype=getattr(module, name)).tolist())

    mine, theirs = outcome(lambda: filled(nt)), outcome(lambda: filled(torch))
    if isinstance(theirs, tuple):
        assert mine[0] == theirs[0] and mine[1].endswith(theirs[1])
    else:
        assert mine == theirs


DATA = [[1.5, -2.0, 1e6], [1 + 2j], [True], [[1, 2], [3, 4]], 2 - 1j, []]


@pytest.mark.parametrize("data", DATA, ids=repr)
@pytest.mark.parametrize("name", FLOAT8 + COMPLEX + ["float32", "bool"])
def test_tensor(name, data):
    def made(module):
        return repr(module.tensor(data, dtype=getattr(module, name)))

    assert outcome(lambda: made(nt)) == outcome(lambda: made(torch))


def test_tensor_of_complex_numbers():
    for data in (
        [1 + 2j, 3.5],
        [[1j]],
        [1, 2.5, 3j],
        1j,
        [1e-3 + 1e5j, 2 - 3j],
        [float("nan") + 1j, complex(1, float("inf"))],
    ):
        assert repr(nt.tensor(data)) == repr(torch.tensor(data))
        assert str(nt.tensor(data).tolist()) == str(torch.tensor(data).tolist())


OPERATORS = {
    "mul": lambda m, x, y: x * y,
    "add": lambda m, x, y: x + y,
    "eq": lambda m, x, y: x == y,
    "ne": lambda m, x, y: x != y,
    "lt": lambda m, x, y: x < y,
    "neg": lambda m, x, y: -x,
    "maximum": lambda m, x, y: m.maximum(x, y),
    "bitwise_and": lambda m, x, y: x & y,
    "cat": lambda m, x, y: m.cat([x, y]),
    "stack": lambda m, x, y: m.stack([x, y]),
    "flip": lambda m, x, y: m.flip(x, [0]),
    "roll": lambda m, x, y: m.roll(x, 1),
    "clone": lambda m, x, y: x.clone(),
    "view": lambda m, x, y: x.view(4)[1:3],
    "t": lambda m, x, y: x.t().contiguous(),
    "index": lambda m, x, y: x[m.tensor([1, 0])],
    "item": lambda m, x, y: x[0, 1].item(),
    "slice": lambda m, x, y: x[:, 1],
    "set": lambda m, x, y: x.clone().copy_(y),
    "where": lambda m, x, y: m.where(m.tensor([[True, False], [True, True]]), x, y),
    "index_select": lambda m, x, y: m.index_select(x, 1, m.tensor([1, 0])),
    "gather": lambda m, x, y: m.gather(x, 0, m.tensor([[0, 1]])),
    "sum": lambda m, x, y: x.sum(),
    "prod": lambda m, x, y: x.prod(),
    "mean": lambda m, x, y: x.mean(),
    "mm": lambda m, x, y: x @ y,
    "amax": lambda m, x, y: x.amax(),
    "argmax": lambda m, x, y: x.argmax(),
    "exp": lambda m, x, y: x.exp(),
    "isnan": lambda m, x, y: m.isnan(x),
    "zeros_like": lambda m, x, y: m.zeros_like(x),
    "topk": lambda m, x, y: m.topk(x, 1),
    "repeat": lambda m, x, y: x.repeat(2, 1),
    "masked_fill": lambda m, x, y: x.masked_fill(m.tensor([True, False]), 1),
    "arange": lambda m, x, y: m.arange(3, dtype=x.dtype),
    "rand": lambda m, x, y: m.rand(2, dtype=x.dtype).dtype,
    "softmax": lambda m, x, y: m.softmax(x, 0),
    "clamp": lambda m, x, y: x.clamp(1, 2),
    "expand": lambda m, x, y: x[:1].expand(3, 2),
    "zero_": lambda m, x, y: x.clone().zero_(),
    "tril": lambda m, x, y: m.tril(x),
    "add float": lambda m, x, y: x + 1.5,
    "mixed": lambda m, x, y: x * y.to(m.float32),
    "embedding": lambda m, x, y: m.nn.functional.embedding(m.tensor([1]), x),
}


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("name", [*STORED, "complex32"])
def test_operators_of_stored_types(name, operator):
    def result(module):
        x = module.tensor([[1, 2], [3, 1]]).to(getattr(module, name))
        y = module.tensor([[2, 1], [1, 1]]).to(getattr(module, name))
        made = OPERATORS[operator](module, x, y)
        return repr(made)

    mine, theirs = outcome(lambda: result(nt)), outcome(lambda: result(torch))
    if operator == "mm" and name in FLOAT8:  # PyTorch has products of float8; here they are stored and cast
        assert mine[0] == "NotImplementedError"
    elif (name, operator) == ("complex32", "gather"):  # the derivative of index_copy; PyTorch has none
        assert mine == "tensor([[1.+0.j, 1.+0.j]], dtype=torch.complex32)" and theirs[0] == "NotImplementedError"
    elif isinstance(theirs, tuple):
        of_order = name == "complex32" and operator in ("maximum", "argmax", "topk")  # a RuntimeError's subclass here
        assert isinstance(mine, tuple) and (of_order or mine[0] == theirs[0]), (mine, theirs)
    else:
        assert mine == theirs


@pytest.mark.parametrize("name", STORED + COMPLEX)
def test_files_go_both_ways(name):
    for writer, reader in ((nt, torch), (torch, nt), (nt, nt)):
        file = io.BytesIO()
        x = writer.tensor([[1, 2, 3], [4, 1, 2]]).to(getattr(writer, name))
        writer.save({"x": x, "row": x[1], "dtype": x.dtype}, file)
        file.seek(0)
        found = reader.load(file)
        assert repr(found["x"]) == repr(x) and repr(found["row"]) == repr(x[1]) and str(found["dtype"]) == str(x.dtype)
        found["x"][1, 0] = 2
        assert found["row"][0].item() == 2


@pytest.mark.parametrize("name", UNSIGNED + COMPLEX[1:])
def test_numpy_both_ways(name):
    numpy = pytest.importorskip("numpy")
    array = numpy.array([[1, 2], [3, 4]]).astype(name)
    x = nt.from_numpy(array)
    assert x.dtype is getattr(nt, name) and x.tolist() == array.tolist()
    x[0, 0] = 7
    assert array[0, 0] == 7 and x.numpy().dtype == array.dtype and (x.numpy() == array).all()
    assert nt.tensor(array).tolist() == array.tolist()


@pytest.mark.parametrize("name", [*FLOAT8, "complex32"])
def test_numpy_has_no_such_types(name):
    def array(module):
        return module.zeros(2).to(getattr(module, name)).numpy()

    assert outcome(lambda: array(nt)) == outcome(lambda: array(torch))


@pytest.mark.parametrize("name", STORED + COMPLEX)
def test_graph_texts_keep_every_type(name):
    x = nt.tensor([1, 2, 3]).to(getattr(nt, name))
    compiled = nt.compile(lambda a: nt.cat([a, a]).clone()[2:4])
    assert repr(compiled(x)) == repr(nt.cat([x, x])[2:4])


def test_a_complex_number_is_no_real_one():
    """Where nothing complex is computed or stored a complex number is refused, not cut to its real part."""
    x = nt.ones(2, 2)
    for call in (
        lambda: x.add(x, alpha=1j),
        lambda: nt.addmm(x, x, x, alpha=1j),
        lambda: x.uniform_(1j, 2),
        lambda: nt.addcmul(x, x, x, value=1j),
        lambda: x.masked_fill(x == 1, 1j),
        lambda: x.mul_(1j),
    ):
        with pytest.raises((TypeError, NotImplementedError, RuntimeError)):
            call()


def test_types_of_numbers_stand_for_dtypes():
    for m in (nt, torch):
        x = m.ones(2)
        wanted = {float: m.float64, int: m.int64, bool: m.bool, complex: m.complex128}
        for kind, dtype in wanted.items():
            made = [x.to(kind), x.to(dtype=kind), x.to("cpu", kind), m.tensor([1], dtype=kind)]
            made.append(x.new_tensor([1], dtype=kind))
            made += [m.as_tensor([1], dtype=kind), m.frombuffer(bytearray(16), dtype=kind), m.zeros(2, dtype=kind)]
            assert [each.dtype for each in made] == [dtype] * len(made)
            with pytest.raises(ValueError, match=f"invalid type: '{kind.__name__}'"):
                x.type(kind)
        assert m.nn.Linear(2, 2).to(float).weight.dtype is m.float64
        assert m.hann_window(3, dtype=float).dtype is m.float64
        assert m.finfo(float) == m.finfo(m.float64) and m.iinfo(int) == m.iinfo(m.int64)
        assert m.promote_types(float, m.int8) is m.float64 and not m.can_cast(float, int) and m.can_cast(int, float)
        for wrong in (lambda m=m: m.finfo(str), lambda m=m: m.promote_types(m.int8, "float")):
            with pytest.raises(TypeError, match="must be torch.dtype, not (type|str)"):
                wrong()
    x = nt.ones(2)
    assert x.double().to(float).dtype is nt.float64 and (y := x.double()).to(dtype=float) is y
    assert nt.compile(lambda x: x.to(float) + nt.tensor(1, dtype=int), fullgraph=True)(x).dtype is nt.float64
    with pytest.raises(TypeError, match="argument 'dtype' must be torch.dtype, not str"):
        x.to(dtype="float")
