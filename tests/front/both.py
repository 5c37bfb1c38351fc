"""The same thing in Narthex and in PyTorch: moving tensors over and comparing them."""

import narthex as nt
import pytest
import torch

LIBS = (nt, torch)


def both(call) -> list:
    """What `call` gives of either library, or the error."""
    found = []
    for lib in LIBS:
        try:
            found.append(call(lib))
        except Exception as error:
            found.append(error)
    return found


def over(value):
    """A PyTorch tensor with the elements of a Narthex tensor, or the other way round; a copy."""
    if isinstance(value, nt.Tensor):
        return torch.from_dlpack(value.detach()).clone()
    return nt.from_dlpack(value.detach()).clone()


def close(mine, theirs, rtol: float = 1e-5, atol: float = 1e-6) -> None:
    """Same shape, dtype and, nearly, elements. NaNs are equal."""
    assert tuple(mine.shape) == tuple(theirs.shape) and str(mine.dtype) == str(theirs.dtype)
    torch.testing.assert_close(over(mine), theirs.detach(), rtol=rtol, atol=atol, equal_nan=True)


def same(mine, theirs) -> None:
    """Same shape, dtype and elements, bit for bit."""
    close(mine, theirs, 0, 0)


def needs(module, *names):
    """Skips a test while a name that it is about is not there."""
    missing = [name for name in names if not hasattr(module, name)]
    return pytest.mark.skipif(bool(missing), reason=f"{module.__name__}: not there yet: {', '.join(missing)}")
