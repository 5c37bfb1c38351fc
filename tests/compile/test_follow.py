"""Convolutions take what follows them: as one step, with eager mode's bits."""

import narthex as nt
import pytest
from narthex import nn
from narthex.nn import functional as F

from .test_plan import compiled_plan

# name: channels, arguments of Conv2d, places across
KINDS = {
    "3 x 3": (16, dict(kernel_size=3, padding=1, bias=False), 9),
    "3 x 3 by Winograd's way": (32, dict(kernel_size=3, padding=1), 33),
    "1 x 1": (24, dict(kernel_size=1), 14),
    "1 x 1, without a bias": (24, dict(kernel_size=1, bias=False), 14),
    "1 x 1, more rows than meet it together": (300, dict(kernel_size=1, bias=False), 5),
    "1 x 1, rows that are packed": (1024, dict(kernel_size=1, bias=False), 3),
    "1 x 1, sums in two parts": (1030, dict(kernel_size=1, bias=False), 3),
    "with a stride": (16, dict(kernel_size=3, padding=1, stride=2), 15),
    "in groups": (16, dict(kernel_size=3, padding=1, groups=4), 10),
    "a channel alone": (16, dict(kernel_size=3, padding=1, groups=16, bias=False), 13),
    "a channel alone, with a stride": (16, dict(kernel_size=5, padding=2, groups=16, stride=2), 17),
    "a channel alone, with a stride, several vectors": (16, dict(kernel_size=3, padding=1, groups=16, stride=2), 45),
}
BOUNDS = {
    "none": lambda x: x,
    "relu": F.relu,
    "relu6": F.relu6,
    "hardtanh": lambda x: F.hardtanh(x, -0.3, 0.2),
}


def usual_numbers(norm):
    nn.init.normal_(norm.running_mean)
    nn.init.uniform_(norm.running_var, 0.5, 2)
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)


def same_bits(a, b):
    return bool((((a == b) & (a.signbit() == b.signbit())) | ((a != a) & (b != b))).all())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("images", [1, 3])
@pytest.mark.parametrize("layout", [nt.contiguous_format, nt.channels_last])
def test_taken(kind, bounds, images, layout):
    channels, how, across = KINDS[kind]
    nt.manual_seed(0)
    convolution, norm = nn.Conv2d(channels, channels, **how), nn.BatchNorm2d(channels).eval()
    usual_numbers(norm)
    x = nt.randn(images, channels, across, across).contiguous(memory_format=layout)
    x[0, 0, 0, 0] = float("nan")
    other = convolution(x).detach().neg()
    programs = {
        "factor": lambda x, y: BOUNDS[bounds](norm(convolution(x))),
        "factor, summand": lambda x, y: BOUNDS[bounds](norm(convolution(x)) + y),
        "summand": lambda x, y: BOUNDS[bounds](y + convolution(x)),
        "bounds": lambda x, y: BOUNDS[bounds](convolution(x)),
    }
    if bounds == "none":
        del programs["bounds"]
    for threads in (1, 2):
        nt.set_num_threads(threads)
        for name, program in programs.items():
            with nt.no_grad():
                plan, got = compiled_plan(program, x, other)
                assert "convolution_point(" in plan and "aten::convolution(" not in plan, f"{name}: {plan}"
                want = program(x, other)
                assert same_bits(got, want) and got.stride() == want.stride(), name


def test_left_alone():
    """What somebody else wants, too, or what is laid otherwise, or stands in another order."""
    nt.manual_seed(0)
    weight, factor, offset = nt.randn(8, 8, 3, 3), nt.randn(8, 1, 1), nt.randn(8, 1, 1)
    x = nt.randn(2, 8, 6, 6)

    def made(x):
        return F.conv2d(x, weight, padding=1)

    def twice(x):
        y = made(x)
        return F.relu(y), y

    programs = {
        "has another user": (twice, False),
        "is added to itself": (lambda x: (lambda y: y + y)(made(x)), False),
        "a summand of another size": (lambda x: made(x) + nt.ones(6), False),
        "a factor of places": (lambda x: nt.addcmul(nt.ones(8, 1, 6), made(x), factor), False),
        "a factor behind bounds": (lambda x: nt.addcmul(offset, F.relu(made(x)), factor), True),
        "half a product": (lambda x: nt.addcmul(offset, made(x), factor, value=0.5), False),
        "a summand of which half counts": (lambda x: nt.add(made(x), x, alpha=0.5), False),
        "channels last": (lambda x: F.relu(made(x.to(memory_format=nt.channels_last))), True),
        "transposed": (lambda x: F.relu(F.conv_transpose2d(x, weight, padding=1)), False),
        "of float64": (lambda x: F.relu(F.conv2d(x.double(), weight.double())), False),
    }
    for name, (program, taken) in programs.items():
        plan, got = compiled_plan(program, x)
        assert ("convolution_point(" in plan) == taken, f"{name}: {plan}"
        want = program(x)
        for a, b in zip(*((r,) if isinstance(r, nt.Tensor) else r for r in (got, want))):
            assert a.stride() == b.stride() and same_bits(a, b), name


def test_nothing_is_read():
    """Without channels to read, a convolution gives none, as PyTorch's, and what follows it happens to none."""
    for x, weight in ((nt.ones(2, 0, 5, 5), nt.ones(4, 0, 1, 1)), (nt.ones(2, 0, 5, 5), nt.ones(4, 0, 3, 3))):
        plan, got = compiled_plan(lambda x: F.hardtanh(F.conv2d(x, weight, padding=1) + 1, 2.0, 3.0), x)  # noqa: B023
        assert "aten::convolution(" in plan and got.shape[1] == 0
        plan, got = compiled_plan(lambda x: F.hardtanh(F.conv2d(x, weight, padding=1), 2.0, 3.0), x)  # noqa: B023
        assert "convolution_point(" in plan and got.shape[1] == 0


def test_training():
    """A relu keeps its result, not the convolution's: forward and backward are the same bits."""
    nt.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(4, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 1), nn.ReLU6())
    x = nt.randn(2, 4, 7, 7)
    compiled = nt.compile(model)
    for run in (model, compiled):
        model.zero_grad()
        run(x).square().sum().backward()
        grads = [p.grad.clone() for p in model.parameters()]
        if run is model:
            want = grads
    assert all(nt.equal(a, b) for a, b in zip(grads, want))


def test_another_size():
    nt._dynamo.reset()
    nt.manual_seed(0)
    convolution = nn.Conv2d(6, 6, 3, padding=1)
    function = nt.compile(lambda x: F.relu(convolution(x) + x), dynamic=True)
    with nt.no_grad():
        for across in (5, 9, 31):
            x = nt.randn(2, 6, across, across + 1)
            assert nt.equal(function(x), F.relu(convolution(x) + x))
