"""torch.stft and torch.istft: signals as spectra of the windows that lie in them, and back."""

import warnings

from . import _C
from ._shells import shells_of_module
from .amp.autocast_mode import in_float32
from .nn.functional import fold, pad

_KINDS = {_C.float32: "Float", _C.float64: "Double", _C.complex64: "ComplexFloat", _C.complex128: "ComplexDouble",
          _C.int64: "Long", _C.int32: "Int", _C.float16: "Half", _C.bfloat16: "BFloat16", _C.bool: "Bool"}  # fmt: skip


def _kind(tensor) -> str:
    return f"torch.{_KINDS.get(tensor.dtype, tensor.dtype)}Tensor"


def _told(start: str, options: dict) -> str:
    """The call, as failures name it."""
    said = {key: int(value) if isinstance(value, bool) else value for key, value in options.items()}
    if said["window"] is not None:
        said["window"] = f"{_kind(said['window'])}{{{list(said['window'].shape)}}}"
    return f"{start}, {', '.join(f'{key}={value}' for key, value in said.items())})"


def _warn(text: str) -> None:
    """Of the caller's call; a graph that is being captured says nothing."""
    if not _C.is_capturing():
        warnings.warn(text, stacklevel=3)


def _whole_window(window, n_fft: int, win_length: int):
    """With zeros on both sides, as long as a transform."""
    before = (n_fft - win_length) // 2
    return window if win_length == n_fft else pad(window, (before, n_fft - win_length - before))


def _transformed(frames, normalized: bool, onesided):
    mode = "ortho" if normalized else "backward"
    functions = _C.functions
    if frames.dtype.is_complex:
        if onesided:
            raise RuntimeError("Cannot have onesided output if window or input is complex")
        return functions["torch._C._fft.fft_fft"](frames, norm=mode)
    half = onesided is None or onesided
    return functions["torch._C._fft.fft_rfft" if half else "torch._C._fft.fft_fft"](frames, norm=mode)


def _check_stft(said: str, signal, n_fft: int, hop_length: int, win_length: int, window) -> None:
    size = signal.shape[-1]
    if n_fft <= 0 or n_fft > size:
        raise RuntimeError(f"{said}: expected 0 < n_fft < {size}, but got n_fft={win_length}")
    if hop_length <= 0:
        raise RuntimeError(f"{said}: expected hop_length > 0, but got hop_length={hop_length}")
    if win_length <= 0 or win_length > n_fft:
        raise RuntimeError(f"{said}: expected 0 < win_length <= n_fft, but got win_length={win_length}")
    if window is not None and (window.ndim != 1 or window.shape[0] != win_length):
        raise RuntimeError(
            f"{said}: expected a 1D window tensor of size equal to win_length={win_length}, but got window with size "
            f"{list(window.shape)}"
        )


@in_float32
def stft(
    input, n_fft: int, hop_length: int | None = None, win_length: int | None = None, window=None, center: bool = True,
    pad_mode: str = "reflect", normalized: bool = False, onesided: bool | None = None,
    return_complex: bool | None = None, align_to_window: bool | None = None,
):  # fmt: skip
    """The spectra of windows of `n_fft` samples, `hop_length` apart; frequencies along the last but one dimension."""
    if center and align_to_window is not None:
        raise RuntimeError("stft align_to_window should only be set when center = false")
    hop_length = n_fft // 4 if hop_length is None else hop_length
    win_length = n_fft if win_length is None else win_length
    is_complex = input.dtype.is_complex or (window is not None and window.dtype.is_complex)
    if not (is_complex or return_complex):
        if return_complex is None:
            raise RuntimeError(
                "stft requires the return_complex parameter be given for real inputs, and will further require that "
                "return_complex=True in a future PyTorch release."
            )
        _warn(
            "stft with return_complex=False is deprecated. In a future pytorch release, stft will return complex "
            "tensors for all inputs, and return_complex=False will raise an error."
        )
    signal = input
    if center and input.ndim in (1, 2):
        signal = pad(input.view([1] * (3 - input.ndim) + list(input.shape)), (n_fft // 2, n_fft // 2), pad_mode)
        signal = signal.view(list(signal.shape)[-input.ndim :])
    given = {"n_fft": n_fft, "hop_length": hop_length, "win_length": win_length, "window": window}
    given |= {"normalized": normalized, "onesided": onesided, "return_complex": bool(return_complex or is_complex)}
    said = _told(f"stft({_kind(input)}{list(signal.shape)}", given | {"align_to_window": align_to_window}) + " "
    if not (input.dtype.is_floating_point or input.dtype.is_complex):
        raise RuntimeError(f"{said}: expected a tensor of floating point or complex values")
    if input.ndim not in (1, 2):
        raise RuntimeError(f"{said}: expected a 1D or 2D tensor")
    signal = signal.unsqueeze(0) if input.ndim == 1 else signal
    if not center and align_to_window:
        before = (n_fft - win_length) // 2
        signal = pad(signal, (before, n_fft - win_length - before))
    _check_stft(said, signal, n_fft, hop_length, win_length, window)
    frames = _framed(signal, n_fft, hop_length)
    if window is None and win_length < n_fft:
        window = _C.ones([win_length], dtype=input.dtype, device=input.device)
    if window is not None:
        frames = frames * _whole_window(window, n_fft, win_length)
    found = _transformed(frames, normalized, onesided).transpose(1, 2)
    found = found.squeeze(0) if input.ndim == 1 else found
    return found if return_complex or (return_complex is None and is_complex) else _C.view_as_real(found)


def _framed(signal, size: int, hop_length: int):
    """The frames of a signal, along a new last dimension."""
    if signal.dtype.is_complex:
        return _C.complex(*(part.unfold(-1, size, hop_length) for part in (signal.real, signal.imag)))
    return signal.unfold(-1, size, hop_length)


def _overlapped(frames, n_samples: int, hop_length: int):
    """The sum of frames [batch, frame, sample] that lie `hop_length` apart."""
    if frames.dtype.is_complex:
        return _C.complex(*(_overlapped(part, n_samples, hop_length) for part in (frames.real, frames.imag)))
    size = frames.shape[-1]
    return fold(frames.transpose(1, 2), (1, n_samples), (1, size), stride=(1, hop_length)).reshape(-1, n_samples)


def _check_istft(said: str, input, n_fft: int, hop_length: int, win_length: int, window, onesided: bool) -> None:
    if input.numel() == 0:
        raise RuntimeError(f"{said}: input tensor cannot be empty.")
    if input.ndim not in (2, 3):
        raise RuntimeError(f"{said}: expected a tensor with 3 or 4 dimensions, but got {input.ndim + 1}")
    wanted, text = (n_fft // 2 + 1, "n_fft / 2 + 1") if onesided else (n_fft, "n_fft")
    if input.shape[-2] != wanted:
        raise RuntimeError(
            f"{said}: expected the frequency dimension (3rd to the last) of the input tensor to match {text} when "
            f"onesided={onesided}, but got {input.shape[-2]}"
        )
    if not 0 < hop_length <= win_length:
        raise RuntimeError(f"{said}: expected 0 < hop_length <= win_length")
    if not 0 < win_length <= n_fft:
        raise RuntimeError(f"{said}: expected 0 < win_length <= n_fft")
    if window is not None and (window.ndim != 1 or window.shape[0] != win_length):
        raise RuntimeError(f"{said}: Invalid window shape. window has to be 1D and length of `win_length`")


def istft(
    input, n_fft: int, hop_length: int | None = None, win_length: int | None = None, window=None, center: bool = True,
    normalized: bool = False, onesided: bool | None = None, length: int | None = None, return_complex: bool = False,
):  # fmt: skip
    """The signal whose spectra `stft` gives: windows laid over each other, divided by the sum of their squares."""
    if not input.dtype.is_complex:
        raise RuntimeError(
            "istft requires a complex-valued input tensor matching the output from stft with return_complex=True."
        )
    hop_length = n_fft // 4 if hop_length is None else hop_length
    win_length = n_fft if win_length is None else win_length
    given = {"n_fft": n_fft, "hop_length": hop_length, "win_length": win_length, "window": window, "center": center}
    given |= {"normalized": normalized, "onesided": onesided, "length": length, "return_complex": return_complex}
    said = _told(f"istft(CPU{_KINDS[input.dtype]}Type{list(input.shape)}", given) + " "
    onesided = (input.ndim < 2 or input.shape[-2] != n_fft) if onesided is None else onesided
    _check_istft(said, input, n_fft, hop_length, win_length, window, onesided)
    if window is None:
        real = _C.float64 if input.dtype == _C.complex128 else _C.float32
        window = _C.ones([win_length], dtype=real, device=input.device)
    window = _whole_window(window, n_fft, win_length)
    spectra = (input.unsqueeze(0) if input.ndim == 2 else input).transpose(1, 2)
    mode = "ortho" if normalized else "backward"
    if return_complex:
        if onesided:
            raise RuntimeError("Cannot have onesided output if window or input is complex")
        frames = _C.functions["torch._C._fft.fft_ifft"](spectra, norm=mode)
    else:
        if window.dtype.is_complex:
            raise RuntimeError("Complex windows are incompatible with return_complex=False")
        half = spectra if onesided else spectra.narrow(-1, 0, n_fft // 2 + 1)
        frames = _C.functions["torch._C._fft.fft_irfft"](half, n_fft, norm=mode)
    n_frames = frames.shape[1]
    n_samples = n_fft + hop_length * (n_frames - 1)
    start = n_fft // 2 if center else 0
    end = start + length if length is not None else n_samples - n_fft // 2 if center else n_samples
    size = max(min(end, n_samples) - start, 0)
    signal = _overlapped(frames * window, n_samples, hop_length).narrow(-1, start, size)
    weights = (window * window).expand(1, n_frames, n_fft)
    envelope = _overlapped(weights, n_samples, hop_length).narrow(-1, start, size)
    if not _C.is_capturing() and not envelope._is_fake and envelope.numel() and not envelope.abs().min() > 1e-11:
        raise RuntimeError(f"{said}window overlap add min: 1\n[ CPUBoolType{{}} ]")
    signal = signal / envelope
    signal = signal.squeeze(0) if input.ndim == 2 else signal
    if end > n_samples:
        _warn(
            "The length of signal is shorter than the length parameter. Result is being padded with zeros in the tail. "
            "Please check your center, length and hop_length settings."
        )
        signal = pad(signal, (0, end - n_samples))
    return signal


shells_of_module(globals())
