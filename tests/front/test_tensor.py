"""What Tensor adds in Python: backward, conversions, numpy."""

import copy

import narthex as nt
import pytest
import torch


def test_backward_and_grad():
    x = nt.tensor([1.0, 2.0], requires_grad=True)
    (x * x).sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]
    (g,) = nt.autograd.grad((x * 3).sum(), x)
    assert g.tolist() == [3.0, 3.0] and x.grad.tolist() == [2.0, 4.0]
    y = nt.tensor([5.0, 6.0], requires_grad=True)
    (x * y).backward(nt.tensor([1.0, 10.0]), inputs=[y])
    assert y.grad.tolist() == [1.0, 20.0] and x.grad.tolist() == [2.0, 4.0]


def test_grad_errors():
    x = nt.tensor([1.0, 2.0], requires_grad=True)
    other = nt.tensor([1.0], requires_grad=True)
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs"):
        (x * 2).backward()
    with pytest.raises(RuntimeError, match="Mismatch in shape"):
        (x * 2).backward(nt.tensor([1.0]))
    with pytest.raises(RuntimeError, match="appears to not have been used in the graph"):
        nt.autograd.grad(x.sum(), [x, other])
    used, unused = nt.autograd.grad(x.sum(), [x, other], allow_unused=True)
    assert used.tolist() == [1.0, 1.0] and unused is None
    assert nt.autograd.grad(x.sum(), [other], materialize_grads=True)[0].tolist() == [0.0]
    with pytest.raises(RuntimeError, match="does not require grad"):
        nt.tensor([1.0]).sum().backward()


def test_grad_modes():
    x = nt.tensor([1.0], requires_grad=True)
    with nt.no_grad():
        assert not (x * 2).requires_grad
        with nt.enable_grad():
            assert (x * 2).requires_grad
    with nt.set_grad_enabled(False):
        assert not nt.is_grad_enabled()
    assert nt.is_grad_enabled()
    with nt.inference_mode():
        assert not (x * 2).requires_grad
    with nt.inference_mode(False):
        assert (x * 2).requires_grad
        assert not nt.is_inference_mode_enabled()
    with nt.no_grad():
        assert nt.inference_mode(False)(lambda: x * 2)().requires_grad  # as PyTorch
    with nt.inference_mode():
        assert nt.is_inference_mode_enabled()
        with nt.enable_grad():
            assert nt.is_inference_mode_enabled() and nt.is_grad_enabled()
    assert not nt.is_inference_mode_enabled() and nt.is_grad_enabled()
    assert nt.inference_mode(nt.is_inference_mode_enabled)()

    @nt.no_grad()
    def called(value):
        return value * 2

    @nt.no_grad
    def bare(value):
        return value * 2

    assert not called(x).requires_grad and not bare(x).requires_grad and nt.is_grad_enabled()
    with pytest.raises(ZeroDivisionError), nt.no_grad():
        1 / 0  # noqa: B018
    assert nt.is_grad_enabled()


def test_to():
    x = nt.tensor([1.0, 2.0])
    assert x.to(nt.float32) is x and x.to("cpu") is x and x.to(x) is x and x.cpu() is x
    assert x.to(nt.float32, copy=True) is not x
    assert (
        x.to(dtype=nt.int64).tolist() == [1, 2]
        and x.long().dtype is nt.int64
        and x.double().type() == "torch.DoubleTensor"
    )
    with pytest.raises(TypeError, match="unexpected keyword argument 'dtyp'"):
        x.to(dtyp=nt.int64)
    y = nt.tensor([1.0], requires_grad=True)
    y.double().sum().backward()
    assert y.grad.tolist() == [1.0] and y.grad.dtype is nt.float32


def test_numbers_of_one_element():
    assert (
        float(nt.tensor(2.5)) == 2.5
        and int(nt.tensor(7)) == 7
        and bool(nt.tensor([1]))
        and [1, 2, 3][nt.tensor(1)] == 2
    )
    with pytest.raises(RuntimeError, match="Boolean value of Tensor with more than one value is ambiguous"):
        bool(nt.tensor([1, 2]))
    with pytest.raises(TypeError, match="only integer tensors of a single element"):
        [1, 2][nt.tensor(1.0)]


def test_numpy_shares_memory():
    numpy = pytest.importorskip("numpy")
    x = nt.tensor([1.0, 2.0])
    array = x.numpy()
    assert isinstance(array, numpy.ndarray) and array.ctypes.data == x.data_ptr()
    with pytest.raises(RuntimeError, match="Can't call numpy"):
        nt.tensor([1.0], requires_grad=True).numpy()


def test_attributes_and_copies():
    x = nt.tensor([1.0], requires_grad=True)
    x.note = "kept"
    assert x.note == "kept" and x.T.shape == x.shape
    y = copy.deepcopy(x)
    assert y.requires_grad and y.data_ptr() != x.data_ptr()
    with pytest.raises(RuntimeError, match="graph leaves"):
        copy.deepcopy(x * 2)


def test_small_questions_and_new_tensors():
    seen = []
    for module in (nt, torch):
        x = module.arange(6.0, dtype=module.float64).reshape(2, 3)
        made = [x.new_zeros(2, 3), x.new_zeros((2,)), x.new_ones([1, 2], dtype=module.int32), x.new_full((2,), 7)]
        made += [x.new_tensor([1, 2]), x.new_empty(2, 0), x.new_ones(()), x.byte(), x.char(), x.short()]
        made += [x.type_as(module.ones(1, dtype=module.int64)), module.arange(6).reshape_as(x)]
        answers = [x.is_pinned(), x.get_device(), x.ndimension(), x.is_complex(), x.is_sparse, x.is_meta]
        answers += [module.is_floating_point(x), module.numel(x), x.is_same_size(x.t()), module.inf, module.newaxis]
        answers += [
            str(module.promote_types(module.int64, module.float16)),
            x.new_zeros(1, requires_grad=True).requires_grad,
        ]
        answers += [x.is_quantized, module.e, module.pi]
        for wrong in (x.pin_memory, x.cuda):
            with pytest.raises((RuntimeError, AssertionError)):
                wrong()
        seen.append([[(t.tolist(), str(t.dtype), tuple(t.shape)) for t in made], answers])
    assert seen[0] == seen[1]


def test_limits_of_dtypes():
    for name in ("float16", "bfloat16", "float32", "float64"):
        mine, theirs = nt.finfo(getattr(nt, name)), torch.finfo(getattr(torch, name))
        for field in ("bits", "eps", "max", "min", "tiny", "smallest_normal", "resolution", "dtype"):
            assert getattr(mine, field) == getattr(theirs, field), (name, field)
        assert repr(mine) == repr(theirs)
    for name in ("uint8", "int8", "int16", "int32", "int64"):
        mine, theirs = nt.iinfo(getattr(nt, name)), torch.iinfo(getattr(torch, name))
        assert (mine.bits, mine.min, mine.max, repr(mine)) == (theirs.bits, theirs.min, theirs.max, repr(theirs))
    assert nt.finfo().dtype == "float32"
    for wrong in (lambda: nt.finfo(nt.int64), lambda: nt.iinfo(nt.float32), lambda: nt.iinfo("int8")):
        with pytest.raises(TypeError):
            wrong()


def test_constructors_from_before_dtypes():
    for name in ("FloatTensor", "LongTensor", "ByteTensor", "BoolTensor", "DoubleTensor"):
        mine, theirs = getattr(nt, name), getattr(torch, name)
        for arguments in (([1, 0],), ([[1], [0]],), (2, 3), ()):
            a, b = mine(*arguments), theirs(*arguments)
            assert tuple(a.shape) == tuple(b.shape) and str(a.dtype) == str(b.dtype)
            assert arguments[:1] == (2,) or a.tolist() == b.tolist()
            assert isinstance(a, mine) and isinstance(a, nt.Tensor)
    assert not isinstance(nt.ones(2), nt.LongTensor)


def test_constructor_from_before_dtypes():
    assert nt.Tensor([1, 2]).dtype is nt.float32 and nt.Tensor([[1, 2]]).tolist() == [[1.0, 2.0]]
    assert nt.Tensor(2, 3).shape == (2, 3) and nt.Tensor().shape == (0,) and type(nt.Tensor(2)) is nt.Tensor
    x = nt.ones(2)
    assert nt.Tensor(x).data_ptr() == x.data_ptr()
    with pytest.raises(TypeError, match="expected torch.float32"):
        nt.Tensor(nt.ones(2, dtype=nt.int64))


@pytest.mark.parametrize("number", [7, -7, 7.5, True])
@pytest.mark.parametrize("dtype", ["int32", "int64", "float16", "float32", "float64"])
@pytest.mark.parametrize("shape", [(), (3,)])
def test_a_number_floor_divided_by_a_tensor(number, dtype, shape):
    values = [2, -3, 4] if shape else 2
    mine = number // nt.tensor(values, dtype=getattr(nt, dtype))
    theirs = number // torch.tensor(values, dtype=getattr(torch, dtype))
    assert str(mine.dtype) == str(theirs.dtype) and mine.tolist() == theirs.tolist()
    compiled = nt.compile(lambda x: number // x)(nt.tensor(values, dtype=getattr(nt, dtype)))
    assert str(compiled.dtype) == str(theirs.dtype) and compiled.tolist() == theirs.tolist()


def test_seeds():
    assert nt.manual_seed(3) is nt.default_generator and nt.initial_seed() == 3
    number = nt.seed()
    assert isinstance(number, int) and nt.initial_seed() == number


@pytest.mark.parametrize(
    "text",
    [
        "t.add(t.ones(1), 'a')", "t.ones(1).add('a')", "t.add(t.ones(1), other='a')", "t.empty(('2', 3))",
        "t.ones(-1, 2)", "t.ones(3).permute([0.5])", "t.full((2, -3), 1.0)", "t.nn.LayerNorm(4)(t.ones(2, 3))",
        "t.stack([t.ones(2), t.ones(3)])", "t.nn.functional.cross_entropy(t.ones(3, 4), t.tensor([1, 2]))",
        "t.ones(2, 3).permute(0, 0)", "t.split(t.ones(5), [2, 2])",
    ],
)  # fmt: skip
def test_messages_are_pytorchs(text):
    """Beside the operator's name, which stands in front here."""
    with pytest.raises(Exception) as theirs:
        eval(text, {"t": torch})
    with pytest.raises(type(theirs.value)) as ours:
        eval(text, {"t": nt})
    assert str(ours.value).endswith(str(theirs.value))


@pytest.mark.parametrize("sizes", ["(100, (5,))", "(3, 9, (2, 2))"])
def test_randint_from_a_generator_of_ones_own(sizes):
    drawn = []
    for module in (nt, torch):
        module.manual_seed(1)
        own = module.randint(*eval(sizes), generator=module.Generator().manual_seed(7))
        drawn.append((own.tolist(), module.randint(*eval(sizes)).tolist()))
    assert drawn[0] == drawn[1]


@pytest.mark.parametrize(
    "text",
    [
        "x.roll(1, 1)", "x.std(0, True)", "x.var(1, False)", "x.std(0, 1)", "x.sum(0, 1)", "x.amax(0, True)",
        "x.view(3, 2)", "x.permute(1, 0)", "x.repeat(2, 1)", "x.flip(0, 1)", "x.squeeze(0, 1)", "x.expand(2, 3)",
        "t.ones(2, 3)", "x.reshape(3, 2)", "x.logsumexp(0, True)", "x.mean(0, True)", "x.tile(2, 1)",
    ],
)  # fmt: skip
def test_which_lists_of_integers_may_be_spread(text):
    results = []
    for module in (nt, torch):
        try:
            results.append(eval(text, {"x": module.arange(6.0).view(2, 3), "t": module}).tolist())
        except TypeError:
            results.append(TypeError)
    ours, theirs = (str(nt.tensor(r)) if isinstance(r, (float, list)) else str(r) for r in results)
    assert ours == theirs


def test_in():
    for t in (nt, torch):
        x = t.tensor([[1, 2], [3, 4]])
        assert 3 in x and 5 not in x and t.tensor(2) in x and 2.5 not in x
        with pytest.raises(RuntimeError, match="only supports Tensor or scalar"):
            "a" in x  # noqa: B015
