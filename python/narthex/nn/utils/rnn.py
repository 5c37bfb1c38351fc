"""torch.nn.utils.rnn: sequences of different lengths as one tensor. Packed sequences are not there yet."""

from ... import _C
from ..._absent import absent

__all__ = ["pad_sequence"]


def pad_sequence(sequences, batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"):
    """(length, batch, ...), or (batch, length, ...) with `batch_first`: each (n, ...) and `padding_value` behind it."""
    if not hasattr(sequences, "__iter__"):
        raise RuntimeError(
            f"pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences)}"
        )
    sequences = list(sequences)
    if not sequences:
        raise RuntimeError("received an empty list of sequences")
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"Expected padding_side to be one of left or right, but got {padding_side}.")
    length, first = max(sequence.size(0) for sequence in sequences), sequences[0]
    rows = []
    for sequence in sequences:
        if sequence.shape[1:] != first.shape[1:]:
            raise RuntimeError(
                f"pad_sequence: the sizes behind the length must be alike, got {list(first.shape)} and "
                f"{list(sequence.shape)}"
            )
        missing = length - sequence.size(0)
        padding = _C.full((missing, *first.shape[1:]), padding_value, dtype=first.dtype, device=first.device)
        rows.append(_C.cat([padding, sequence] if padding_side == "left" else [sequence, padding]))
    return _C.stack(rows, 0 if batch_first else 1)


def __getattr__(name: str):
    raise absent("torch.nn.utils.rnn", name, f"it has {', '.join(__all__)} so far")
