"""Anomaly mode: warnings with the traceback of the forward, NaNs as errors; as PyTorch."""

import warnings

import narthex as nt
import pytest
import torch


def returns_nan(t):
    class Wrong(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * float("nan")

    with t.autograd.detect_anomaly():
        Wrong.apply(t.ones(3, requires_grad=True)).sum().backward()


def root_of_zero(t):
    with t.autograd.set_detect_anomaly(True):
        (t.zeros(3, requires_grad=True).sqrt() * 0).sum().backward()


def written(t):
    with t.autograd.detect_anomaly(check_nan=False):
        y = t.ones(3, requires_grad=True).exp()
        z = y * y
        y.add_(1)
        z.sum().backward()


def without_forward(t):
    y = (t.zeros(3, requires_grad=True).sqrt() * 0).sum()
    with t.autograd.set_detect_anomaly(True):
        y.backward()


def raises(t):
    x = t.ones(3, requires_grad=True)
    with t.autograd.detect_anomaly():
        y = x * 2
        y.register_hook(lambda g: None)
        z = type("Fails", (t.autograd.Function,), {"forward": staticmethod(lambda ctx, x: x * 1), "backward": fail})
        z.apply(y).sum().backward()


def fail(ctx, g):
    raise ValueError("no gradient")


def seen(run, t):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(Exception) as error:
            run(t)
    texts = [str(w.message) for w in caught]
    lines = [[line for line in text.split("\n") if ", in " not in line or run.__name__ in line] for text in texts]
    return type(error.value), str(error.value), [text[:1] for text in lines], ["in " + run.__name__ in t for t in texts]


@pytest.mark.parametrize("run", [returns_nan, root_of_zero, written, without_forward, raises])
def test_anomaly(run):
    mine, theirs = seen(run, nt), seen(run, torch)
    assert mine[:2] == theirs[:2] and mine[3] == theirs[3]
    for a, b in zip(mine[2], theirs[2], strict=True):
        assert a == [b[0].split(" (Triggered internally")[0]]
    assert not nt.is_anomaly_enabled() and nt.is_anomaly_check_nan_enabled()


def test_without_check_of_nan():
    x = nt.zeros(3, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with nt.autograd.detect_anomaly(check_nan=False):
            assert nt.is_anomaly_enabled() and not nt.is_anomaly_check_nan_enabled()
            (x.sqrt() * 0).sum().backward()
    assert nt.isnan(x.grad).all().item()


@pytest.mark.parametrize("mode", ["max-autotune", "reduce-overhead"])
def test_compiled(mode):
    function = nt.compile(lambda x: (x.sqrt() * 0).sum(), mode=mode)
    with nt.autograd.set_detect_anomaly(True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(
            RuntimeError, match="Function 'CompiledFunctionBackward' returned nan values in its 0th output"
        ):
            function(nt.zeros(3, requires_grad=True)).backward()
        function(nt.ones(3, requires_grad=True)).backward()


def test_set_is_kept():
    nt.autograd.set_detect_anomaly(True)
    try:
        assert nt.is_anomaly_enabled()
    finally:
        nt.autograd.set_detect_anomaly(False)
    assert not nt.is_anomaly_enabled()
