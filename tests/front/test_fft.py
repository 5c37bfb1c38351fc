"""torch.fft, torch.stft and torch.istft: PyTorch's numbers, gradients and failures; the same bits for all threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import narthex as nt
import numpy as np
import pytest
import torch

# Powers of two, products of small primes, primes that are transformed as convolutions, and what is made of both.
LENGTHS = [1, 2, 3, 4, 5, 7, 8, 12, 16, 22, 23, 29, 30, 37, 46, 58, 64, 97, 128, 210, 243, 509, 1000, 1024, 1155]


def given(*size: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(*size, generator=torch.Generator().manual_seed(3), dtype=dtype)


def over(tensor: torch.Tensor) -> Any:
    return nt.from_dlpack(tensor.detach())


def back(tensor: Any) -> torch.Tensor:
    return torch.from_dlpack(tensor.detach())


def exact_fft(x: torch.Tensor) -> torch.Tensor:
    """By the definition, with more digits."""
    n = x.shape[-1]
    at = np.arange(n)
    angle = -2 * np.pi * (np.outer(at, at) % n).astype(np.longdouble) / n
    wide = x.numpy().astype(np.clongdouble) @ np.exp(1j * angle.astype(np.clongdouble))
    return torch.from_numpy(wide.astype(np.complex128))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("length", LENGTHS)
def test_lengths(length: int, dtype: torch.dtype) -> None:
    """To the last digits: errors grow with the logarithm of the length alone."""
    x = given(3, length, dtype=torch.complex128)
    exact = exact_fft(x)
    bound = 4 * torch.finfo(dtype).eps * max(1.0, torch.tensor(float(length)).log2().item())
    scale = exact.abs().max()
    low = x.to(torch.complex64 if dtype == torch.float32 else torch.complex128)
    assert (back(nt.fft.fft(over(low))) - exact).abs().max() <= bound * scale
    assert (back(nt.fft.ifft(nt.fft.fft(over(low)))) - x).abs().max() <= 2 * bound * x.abs().max() * 2
    real = x.real.to(dtype)
    half = exact_fft(x.real)[..., : length // 2 + 1]
    assert (back(nt.fft.rfft(over(real))) - half).abs().max() <= bound * scale
    there = nt.fft.irfft(nt.fft.rfft(over(real)), length)
    assert (back(there) - x.real).abs().max() <= 4 * bound * x.abs().max()


def test_a_long_line_and_a_line_of_large_numbers() -> None:
    x = given(1 << 16, dtype=torch.float32)
    torch.testing.assert_close(back(nt.fft.rfft(over(x))), torch.fft.rfft(x), rtol=1e-4, atol=1e-3)
    y = given(4, 100003 // 7, dtype=torch.float32)
    torch.testing.assert_close(back(nt.fft.fft(over(y))), torch.fft.fft(y), rtol=1e-4, atol=1e-3)
    torch.testing.assert_close(back(nt.fft.fft(over(y * 1e30))), torch.fft.fft(y * 1e30), rtol=1e-4, atol=1e27)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
@pytest.mark.parametrize("lines", [1, 3, 16, 20])
@pytest.mark.parametrize("length", [256, 360, 499, 511, 998, 1022, 1152, 4096, 20000])
def test_few_lines_and_many(length: int, lines: int, dtype: torch.dtype) -> None:
    """Blocks of lines and lines that are split, along either dimension; two real numbers make a complex one."""
    x = given(lines, length, dtype=torch.complex128).to(dtype)
    real = x.real.contiguous()
    for dim, turned in ((1, lambda one: one), (0, lambda one: one.t().contiguous())):
        for found, expected in (
            (nt.fft.fft(over(turned(x)), dim=dim), torch.fft.fft(x.to(torch.complex128))),
            (nt.fft.ifft(over(turned(x)), dim=dim), torch.fft.ifft(x.to(torch.complex128))),
            (nt.fft.rfft(over(turned(real)), dim=dim), torch.fft.rfft(real.double())),
            (nt.fft.fft(over(turned(real)), dim=dim), torch.fft.fft(real.double())),
            (nt.fft.irfft(over(turned(x)), length, dim=dim), torch.fft.irfft(x.to(torch.complex128), length)),
            (nt.fft.ihfft(over(turned(real)), dim=dim), torch.fft.ihfft(real.double())),
        ):
            error = (turned(back(found)) if dim == 0 else back(found)) - expected
            digits = 8 if dtype == torch.complex64 else 300  # PyTorch's own error where primes are large
            assert error.abs().max() <= digits * torch.finfo(dtype).eps * expected.abs().max()


def test_lines_do_not_meet() -> None:
    x = given(20, 24, dtype=torch.float32)
    x[7] = float("nan")
    found = back(nt.fft.rfft(over(x)))
    assert found[7].isnan().all() and not found[:7].isnan().any() and not found[8:].isnan().any()


@pytest.mark.parametrize("length", [149, 499, 1018, 4093])
def test_large_primes_in_single_precision(length: int) -> None:
    """As a convolution in float32: no further off than PyTorch's, whose errors are of the same kind."""
    x = given(40, length, dtype=torch.complex128)
    exact, low = torch.fft.fft(x), x.to(torch.complex64)
    far = [(found - exact).abs().square().mean() for found in (back(nt.fft.fft(over(low))), torch.fft.fft(low))]
    assert far[0] <= 1.2 * far[1]


@pytest.mark.parametrize(
    "size, dim",
    [((300, 64), 1), ((64, 300), 0), ((50, 37), 1), ((6, 10000), 1), ((2, 4096), 1), ((300, 499), 1), ((300, 256), 1)],
)
def test_the_same_bits_for_any_number_of_threads(size: tuple[int, int], dim: int) -> None:
    x, found, before = over(given(*size, dtype=torch.float32)), [], nt.get_num_threads()
    try:
        for threads in (1, 2, 3, 7):
            nt.set_num_threads(threads)
            found.append([back(one) for one in (nt.fft.fft(x, dim=dim), nt.fft.rfft(x, dim=dim), nt.fft.fft2(x))])
    finally:
        nt.set_num_threads(before)
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(other, found[0], strict=True))


@pytest.mark.parametrize("n", [0, 1, 4, 5])
@pytest.mark.parametrize("name", ["fftfreq", "rfftfreq"])
def test_frequencies(name: str, n: int) -> None:
    for options in ({}, {"d": 0.25}, {"dtype": "float64"}):
        mine = {**options, **({"dtype": nt.float64} if "dtype" in options else {})}
        theirs = {**options, **({"dtype": torch.float64} if "dtype" in options else {})}
        found, wanted = getattr(nt.fft, name)(n, **mine), getattr(torch.fft, name)(n, **theirs)
        torch.testing.assert_close(back(found), wanted, equal_nan=True)
    with pytest.raises(RuntimeError, match=f"{name} requires a floating point or complex dtype"):
        getattr(nt.fft, name)(n, dtype=nt.int32)


SPECTRA: list[dict[str, Any]] = [
    {"n_fft": 16},
    {"n_fft": 16, "hop_length": 5, "center": False},
    {"n_fft": 16, "hop_length": 4, "win_length": 12, "window": True, "normalized": True},
    {"n_fft": 15, "hop_length": 3, "window": True, "onesided": False},
    {"n_fft": 16, "win_length": 10, "pad_mode": "constant"},
    {"n_fft": 16, "hop_length": 4, "win_length": 10, "window": True, "center": False, "align_to_window": True},
]


@pytest.mark.parametrize("size", [(64,), (3, 70)], ids=str)
@pytest.mark.parametrize("options", SPECTRA, ids=str)
def test_stft(options: dict[str, Any], size: tuple[int, ...]) -> None:
    grads = []
    x = given(*size)
    results = []
    for module, signal, move in ((torch, x.clone(), lambda t: t), (nt, over(x.clone()), over)):
        signal.requires_grad_()
        window = move(torch.hann_window(options.get("win_length", options["n_fft"]), dtype=torch.float64))
        settings = {**options, "window": window if options.get("window") else None}
        found = module.stft(signal, **settings, return_complex=True)
        (found.real * found.imag + found.abs()).sum().backward()
        grads.append(signal.grad)
        results.append((found, module.stft(signal, **settings, return_complex=False)))
    for mine, theirs in zip(results[1], results[0], strict=True):
        assert tuple(mine.shape) == tuple(theirs.shape)
        torch.testing.assert_close(back(mine), theirs.detach())
    torch.testing.assert_close(back(grads[1]), grads[0])


@pytest.mark.parametrize("length", [None, 50, 80])
@pytest.mark.parametrize("options", [SPECTRA[0], {**SPECTRA[0], "onesided": False}, SPECTRA[3]], ids=str)
@pytest.mark.filterwarnings("ignore")
def test_istft(options: dict[str, Any], length: int | None) -> None:
    x = given(2, 64)
    window = torch.hann_window(options.get("win_length", options["n_fft"]), dtype=torch.float64)
    settings = {key: value for key, value in options.items() if key not in ("window", "pad_mode")}
    spectra = torch.stft(x, **settings, window=window, return_complex=True)
    results = []
    for module, move in ((torch, lambda t: t), (nt, over)):
        leaf, weights = (move(one.clone()).requires_grad_() for one in (spectra, window))
        found = module.istft(leaf, **settings, window=weights, length=length)
        found.square().sum().backward()
        results.append((found, leaf.grad, weights.grad))
    for mine, theirs in zip(results[1], results[0], strict=True):
        torch.testing.assert_close(back(mine), theirs.detach())


FAILURES: list[Callable[..., Any]] = [
    lambda m, x: m.stft(x, 16),
    lambda m, x: m.stft(x, 100, center=False, return_complex=True),
    lambda m, x: m.stft(x, 16, -1, return_complex=True),
    lambda m, x: m.stft(x, 16, win_length=20, return_complex=True),
    lambda m, x: m.stft(x, 16, window=x[:5], return_complex=True),
    lambda m, x: m.stft(x.view(2, 2, 16), 16, center=False, return_complex=True),
    lambda m, x: m.stft(x, 16, center=True, align_to_window=True, return_complex=True),
    lambda m, x: m.istft(x, 16),
    lambda m, x: m.istft(m.complex(x, x).view(8, 8), 16),
    lambda m, x: m.istft(m.complex(x, x).view(1, 64), 0),
    lambda m, x: m.istft(m.complex(x, x)[:63].view(9, 7), 16, window=x[:5]),
    lambda m, x: m.istft(m.complex(x, x)[:63].view(9, 7), 16, window=x[:16] * 0),
    lambda m, x: m.fft.fft(x, norm="wrong"),
    lambda m, x: m.fft.fftn(x.view(8, 8), s=(2,), dim=(0, 1)),
    lambda m, x: m.fft.irfft(x[:1]),
    lambda m, x: m.fft.fft(x[0]),
    lambda m, x: m.fft.fft(x, dim=4),
]


@pytest.mark.parametrize("number", range(len(FAILURES)))
def test_failures(number: int) -> None:
    x, said = given(64), []
    for module, signal in ((torch, x), (nt, over(x))):
        with pytest.raises((RuntimeError, IndexError)) as caught:
            FAILURES[number](module, signal)
        said.append((type(caught.value), str(caught.value)))
    assert said[0][0] is said[1][0] and said[0][1].rstrip(".") in said[1][1]
