"""torch.autograd.functional and gradcheck: values, errors and their texts are PyTorch's."""

import importlib

import narthex as nt
import pytest
import torch

CALLS = """
F.vjp(lambda x: x * 2, x)
F.vjp(lambda x: x * 2, 3)
F.vjp(lambda x: 3, x)
F.vjp(lambda x: (x, 3), x)
F.vjp(lambda x: [x], x, x)
F.vjp(lambda x: x * 2, x, ones(2))
F.vjp(lambda x: x * 2, x, (ones(3), ones(3)))
F.vjp(lambda x: (x * 2, x.sin()), x, (ones(3), ones(3)))
F.vjp(lambda x, y: x * y, (x, x), x)
F.vjp(lambda x: ones(()), x)
F.vjp(lambda x: ones(()), x, strict=True)
F.vjp(lambda x: x, x, ones(3), strict=True, create_graph=True)
F.vjp(lambda x: x.sum(), x.clone().requires_grad_(), strict=True, create_graph=True)
F.vjp(lambda x: (x ** 2).sum(), x.clone().requires_grad_(), create_graph=True)[1].requires_grad
F.vjp(lambda x, y: x.sum(), (x, x), strict=True)
F.jvp(lambda x: x * 2, x)
F.jvp(lambda x: x.sum(), torch.tensor(1.))
F.jvp(lambda x: x * 2, x, ones(3), strict=True, create_graph=True)
F.jvp(lambda x: ones(2), x, x, strict=True)
F.jvp(lambda x: ones(2), x, x)
F.jvp(lambda x: x * x, x, x)
F.jvp(lambda x, y: (x * x, y), (x, x), (x, x))
F.jacobian(lambda x: x * 2, x)
F.jacobian(lambda x, y: (x * 2, y.sum()), (x, x))
F.jacobian(lambda x: ones(2), x)
F.jacobian(lambda x: ones(2), x, strict=True)
F.jacobian(lambda x: x * 2, x, strict=True, create_graph=True)
F.jacobian(lambda x: x ** 2, x.clone().requires_grad_(), create_graph=True).requires_grad
F.jacobian(lambda x, y: x, (x, x), strict=True)
F.jacobian(lambda x: x, x, strict=True, vectorize=True)
F.jacobian(lambda x: x.outer(x), x, vectorize=True)
F.jacobian(lambda x: x, x, strategy='foo')
F.jacobian(lambda x: x, x, strategy='forward-mode')
F.jacobian(lambda x: x * x, x, strategy='forward-mode', vectorize=True)
F.jacobian(lambda x, y: (x * y, y.sum()), (x, x), strategy='forward-mode', vectorize=True)
F.jacobian(lambda x: x * x, x, strategy='forward-mode', vectorize=True, strict=True)
F.jacobian(lambda x: x * x, x, strategy='forward-mode', vectorize=True, create_graph=True)
F.hessian(lambda x: x * 2, x)
F.hessian(lambda x: (x * 2).sum(), x)
F.hessian(lambda x: (x * 2).sum(), x, strict=True)
F.hessian(lambda x: x.pow(3).sum(), x)
F.hessian(lambda x, y: (x * y ** 2).sum(), (x, x))
F.hessian(lambda x: x.pow(3).sum(), x, vectorize=True, outer_jacobian_strategy='forward-mode').detach()
F.hessian(lambda x: (x.sum(), 1), x)
F.hessian(lambda x: (x.sum(), x.sum()), x)
F.hessian(lambda x: ones(()), x, strict=True)
F.hessian(lambda x: x.pow(3).sum(), x, outer_jacobian_strategy='f')
F.vhp(lambda x: x.pow(3).sum(), x)
F.vhp(lambda x: x.pow(3).sum(), x, x)
F.vhp(lambda x: x.pow(3).sum(), (x,), x)
F.vhp(lambda x: x.sum(), x, x, strict=True)
F.vhp(lambda x: x * 2, x, x)
F.vhp(lambda x: x.sum(), x, x)
F.vhp(lambda x: ones(()), x, x, strict=True)
F.hvp(lambda x: x.pow(3).sum(), x)
F.hvp(lambda x: x.pow(3).sum(), x, x)
F.hvp(lambda x, y: (x * y ** 2).sum(), (x, x), (x, x))
F.hvp(lambda x: x.pow(3).sum(), x, (x, x))
F.hvp(lambda x: x.pow(3).sum(), x, 3)
F.hvp(lambda x: x.pow(3).sum(), x, ones(2))
F.hvp(lambda x: x.sum(), x, x, strict=True)
F.hvp(lambda x: x * 2, x, x)
F.hvp(lambda x: x.sum(), x, x)
F.hvp(lambda x: ones(()), x, x)
F.hvp(lambda x: ones(()), x, x, strict=True)
""".strip().split("\n")
CHECKS = """
G(Bad.apply, x)
G(Bad.apply, x, raise_exception=False)
G(Bad.apply, x, fast_mode=True, raise_exception=False)
G(torch.sin, x, fast_mode=True)
G(lambda x: x.detach(), x)
G(lambda x: x.detach().floor(), x)
G(lambda x: x * 2, x.detach())
G(lambda x: [x.sin(), x.sum()], (x,))
G(lambda x, y: x @ y, (x, x.detach().clone().requires_grad_()))
G(lambda x: x * x, c)
G(lambda x: x.abs(), c)
G(lambda x: torch.view_as_real(x).exp(), c, fast_mode=True)
GG(torch.sin, x)
GG(lambda x: x ** 3, (x,), gen_non_contig_grad_outputs=True)
GG(lambda x: x * x, (c,))
GG(Bad.apply, (x,))
GG(Once.apply, (x,))
""".strip().split("\n")


def numbers(value):
    if hasattr(value, "detach"):
        elements = [round(v, 5) + 0.0 for v in value.detach().reshape(-1).tolist()]
        return [tuple(value.shape), value.requires_grad, elements]
    return [numbers(each) for each in value] if isinstance(value, tuple | list) else value


def told(text, names):
    """What a call gives, or its error."""
    try:
        return numbers(eval(text, names))
    except Exception as error:
        return f"{type(error).__name__}: {str(error).replace('narthex', 'torch')}"


@pytest.mark.parametrize("text", CALLS)
def test_functional(text):
    def names(t):
        x = t.tensor([1.5, -0.25, 2.0])
        return {"F": t.autograd.functional, "torch": t, "ones": t.ones, "x": x}

    assert told(text, names(nt)) == told(text, names(torch))


def checked(t):
    class Bad(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * x

        @staticmethod
        def backward(ctx, g):
            return g * 3

    class Once(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0].detach() * 2

    x = t.tensor([1.0, 2.0], dtype=t.float64, requires_grad=True)
    c = t.tensor([1 + 2j, -0.5 + 1j], dtype=t.complex128, requires_grad=True)
    g = t.autograd
    return {"torch": t, "G": g.gradcheck, "GG": g.gradgradcheck, "Bad": Bad, "Once": Once, "x": x, "c": c}


@pytest.mark.parametrize("text", CHECKS)
def test_gradcheck(text):
    mine, theirs = told(text, checked(nt)), told(text, checked(torch))
    if "mismatch" in str(theirs) and text != "G(Bad.apply, x)":  # what differs is random
        mine, theirs = (str(each).split("\n")[0] for each in (mine, theirs))
    assert mine == theirs


def test_what_gradcheck_refuses():
    x = nt.ones(2, dtype=nt.float64, requires_grad=True)
    with pytest.raises(NotImplementedError, match="check_batched_grad"):
        nt.autograd.gradcheck(nt.sin, x, check_batched_grad=True)
    with pytest.raises(RuntimeError, match="stride 0"):
        nt.autograd.gradcheck(nt.sin, nt.ones(1, dtype=nt.float64, requires_grad=True).expand(2))
    from narthex.autograd.gradcheck import GradcheckError

    x = nt.ones(2, requires_grad=True)
    with pytest.warns(UserWarning, match="not a double precision"), pytest.raises(GradcheckError):
        nt.autograd.gradcheck(nt.sin, x, eps=1e-6)


def test_the_module_can_be_called():
    module = importlib.import_module("narthex.autograd.gradcheck")
    assert module(nt.sin, nt.ones(2, dtype=nt.float64, requires_grad=True))


def test_older_names():
    from narthex.autograd.gradcheck import get_analytical_jacobian, get_numerical_jacobian

    x = nt.tensor([1.0, 2.0], dtype=nt.float64, requires_grad=True)
    with pytest.warns(FutureWarning):
        (numerical,) = get_numerical_jacobian(lambda given: given[0] ** 2, (x,), eps=1e-6)
    with pytest.warns(FutureWarning):
        (analytical,), *right = get_analytical_jacobian((x,), x**2)
    assert right == [True, True, True]
    nt.testing.assert_close(numerical, analytical)
