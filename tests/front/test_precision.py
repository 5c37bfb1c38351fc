"""How kernels of other libraries may compute float32: both ways of saying it follow each other as PyTorch's do."""

import warnings
from functools import partial
from importlib import import_module

import narthex
import torch

PARTS = {
    "cublas": ".cuda.matmul",
    "onednn matmul": ".mkldnn.matmul",
    "onednn conv": ".mkldnn.conv",
    "onednn rnn": ".mkldnn.rnn",
}
STEPS = [
    *("high", "medium", "highest", "low"),
    *(("cublas", "allow_tf32", True), ("cublas", "allow_tf32", False), "medium", ("cublas", "allow_tf32", False)),
    *("medium", ("cublas", "allow_tf32", True), "highest", ("cublas", "allow_tf32", 3)),
    *(("onednn matmul", "fp32_precision", word) for word in ("bf16", "tf32", "ieee", "none", "other")),
    *(("cublas", "fp32_precision", word) for word in ("tf32", "bf16", "ieee", "none", "other")),
    *(("onednn conv", "fp32_precision", "tf32"), ("onednn conv", "fp32_precision", "bf16")),
    *(("onednn rnn", "fp32_precision", "tf32"), ("onednn matmul", "other", 1), ("cublas", "other", 1)),
    *("high", ("onednn matmul", "fp32_precision", "bf16"), ("cublas", "fp32_precision", "ieee")),
    *("medium", ("onednn matmul", "fp32_precision", "tf32"), ("cublas", "fp32_precision", "none"), "highest"),
    *(("onednn conv", "fp32_precision", "none"), ("onednn rnn", "fp32_precision", "none")),
    *(("onednn matmul", "fp32_precision", "none"), ("cublas", "fp32_precision", "none")),
]


def answer(call):
    """What it gives, or its error; what it warns of, without where in a source that is."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = call()
        except Exception as error:
            result = type(error).__name__, str(error)
    return result, [str(w.message).split(" (Triggered")[0] for w in caught]


def part(t, name: str):
    found = t.backends
    for step in PARTS[name].split(".")[1:]:
        found = getattr(found, step)
    return found


def state(t) -> dict:
    found = {name: part(t, name).fp32_precision for name in PARTS}
    allowed = answer(partial(getattr, part(t, "cublas"), "allow_tf32"))
    return {**found, "cublas allows": allowed, "products": answer(t.get_float32_matmul_precision)}


def take(t, step):
    if isinstance(step, str):
        return answer(lambda: t.set_float32_matmul_precision(step))
    return answer(lambda: setattr(part(t, step[0]), *step[1:]))


def test_both_ways_follow_each_other():
    for name in ("cuda", "mkldnn"):
        import_module(f"torch.backends.{name}")
    assert state(narthex) == state(torch)
    for step in STEPS:
        assert take(narthex, step) == take(torch, step), step
        assert state(narthex) == state(torch), step


def test_flags_hold_inside():
    for word in ("tf32", "bf16", "ieee", "none"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with torch.backends.mkldnn.flags(enabled=True, fp32_precision=word):
                with narthex.backends.mkldnn.flags(enabled=True, fp32_precision=word):
                    assert state(narthex) == state(torch), word
        assert state(narthex) == state(torch), word


def test_products_keep_their_numbers():
    a, b = narthex.randn(40, 50), narthex.randn(50, 30)
    expected = a @ b
    narthex.set_float32_matmul_precision("medium")
    assert (a @ b).equal(expected)
    narthex.set_float32_matmul_precision("highest")
