"""torch.nn.utils.rnn: sequences of different lengths, padded to one tensor or packed step by step."""

from collections import namedtuple

from ... import _C
from ..._absent import absent

__all__ = [
    "PackedSequence", "invert_permutation", "pack_padded_sequence", "pack_sequence", "pad_packed_sequence",
    "pad_sequence", "unpack_sequence", "unpad_sequence",
]  # fmt: skip


class PackedSequence_(namedtuple("PackedSequence", ("data", "batch_sizes", "sorted_indices", "unsorted_indices"))):
    """The fields of a PackedSequence."""

    __slots__ = ()


class PackedSequence(PackedSequence_):
    """Sequences step by step: `data` holds the elements of all first steps, then of all second ones, …; `batch_sizes`
    says how many sequences have each step, `sorted_indices` which they are, longest first (None: they came so)."""

    def __new__(cls, data, batch_sizes=None, sorted_indices=None, unsorted_indices=None):
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes is None:  # the two as one argument
            if not isinstance(data, (list, tuple)) or len(data) != 2:
                raise AssertionError("Expected data to be a list or tuple of length 2")
            data, batch_sizes = data
        elif batch_sizes.device.type != "cpu":
            raise ValueError(
                "batch_sizes should always be on CPU. Instances of PackedSequence should never be created manually. "
                "They should be instantiated by functions like pack_sequence and pack_padded_sequences in "
                "nn.utils.rnn. https://pytorch.org/docs/stable/nn.html#torch.nn.utils.rnn.pack_sequence"
            )
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def _map(self, data):
        """The same with other data; the indices go to its device."""
        if data is self.data:
            return self
        indices = (self.sorted_indices, self.unsorted_indices)
        moved = [None if i is None else i.to(data.device) for i in indices]
        return type(self)(data, self.batch_sizes, *moved)

    def to(self, *args, **kwargs):
        """`data.to(...)`, packed."""
        return self._map(self.data.to(*args, **kwargs))

    def pin_memory(self):
        """`data` in pinned memory."""
        return self._map(self.data.pin_memory())

    def cpu(self, *args, **kwargs):
        """On the CPU; otherwise as `to`."""
        return self.to(*args, device="cpu", **kwargs)

    def cuda(self, *args, **kwargs):
        """Raises, as tensors do: there is no CUDA."""
        return self._map(self.data.cuda(*args, **kwargs))

    def double(self):
        """As float64."""
        return self.to(dtype=_C.float64)

    def float(self):
        """As float32."""
        return self.to(dtype=_C.float32)

    def half(self):
        """As float16."""
        return self.to(dtype=_C.float16)

    def long(self):
        """As int64."""
        return self.to(dtype=_C.int64)

    def int(self):
        """As int32."""
        return self.to(dtype=_C.int32)

    def short(self):
        """As int16."""
        return self.to(dtype=_C.int16)

    def char(self):
        """As int8."""
        return self.to(dtype=_C.int8)

    def byte(self):
        """As uint8."""
        return self.to(dtype=_C.uint8)

    @property
    def is_cuda(self) -> bool:
        """Whether `data` is on CUDA."""
        return self.data.is_cuda

    def is_pinned(self) -> bool:
        """Whether `data` is in pinned memory."""
        return self.data.is_pinned()


def invert_permutation(permutation):
    """The permutation that undoes `permutation`; None of None."""
    if permutation is None:
        return None
    n = permutation.numel()
    return _C.empty_like(permutation).scatter_(0, permutation, _C.arange(0, n, device=permutation.device))


def _checked_lengths(lengths, input, batch_dim: int):
    if lengths.dim() != 1 or lengths.dtype != _C.int64 or lengths.device.type != "cpu":
        kind = {"torch.int64": "Long", "torch.int32": "Int", "torch.float32": "Float", "torch.float64": "Double"}
        raise RuntimeError(
            f"'lengths' argument should be a 1D CPU int64 tensor, but got {lengths.dim()}D {lengths.device.type} "
            f"{kind.get(str(lengths.dtype), str(lengths.dtype))} tensor"
        )
    if input.numel() == 0:
        raise RuntimeError("Cannot pack empty tensors.")
    if lengths.numel() != input.size(batch_dim):
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {lengths.numel()} "
            f"(batch_size={input.size(batch_dim)})"
        )
    return lengths.tolist()


def pack_padded_sequence(input, lengths, batch_first: bool = False, enforce_sorted: bool = True):
    """The first `lengths[k]` steps of sequence k of (steps, batch, ...), packed.

    With `enforce_sorted` the lengths must not grow, else the sequences are sorted first.
    """
    if not isinstance(lengths, _C.TensorBase):
        lengths = _C.tensor(lengths, dtype=_C.int64)
    order = None
    if not enforce_sorted:
        lengths, order = lengths.to("cpu").sort(descending=True)
        order = order.to(input.device)
        input = input.index_select(0 if batch_first else 1, order)
    steps = _checked_lengths(lengths, input, 0 if batch_first else 1)
    input = input.transpose(0, 1) if batch_first else input
    if steps[-1] <= 0:
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0"
        )
    if any(a < b for a, b in zip(steps, steps[1:], strict=False)):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
            "`enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this requirement if "
            "you do not need ONNX exportability."
        )
    parts, sizes, done = [], [], 0
    for k in range(len(steps) - 1, -1, -1):  # as long as sequence k lasts, 0 .. k are there
        if steps[k] > done:
            part = input[done : steps[k], : k + 1]
            parts.append(part.reshape(part.size(0) * (k + 1), *input.shape[2:]))
            sizes += [k + 1] * (steps[k] - done)
            done = steps[k]
    return PackedSequence(_C.cat(parts), _C.tensor(sizes, dtype=_C.int64), order, None)


def pad_packed_sequence(sequence, batch_first: bool = False, padding_value: float = 0.0, total_length=None):
    """(the sequences as one padded tensor, their lengths): the way back from pack_padded_sequence."""
    sizes = sequence.batch_sizes.tolist()
    length = len(sizes)
    if total_length is not None:
        if total_length < length:
            raise ValueError(
                "Expected total_length to be at least the length of the longest sequence in input, but got "
                f"total_length={total_length} and max sequence length being {length}"
            )
        length = total_length
    data, rows = sequence.data, []
    lengths = [sum(1 for n in sizes if n > k) for k in range(sizes[0])]
    missing = _C.full((1, *data.shape[1:]), padding_value, dtype=data.dtype, device=data.device)
    first = [0]
    for n in sizes:
        first.append(first[-1] + n)
    for t in range(length):
        n = sizes[t] if t < len(sizes) else 0
        rows += [first[t] + k if k < n else data.size(0) for k in range(sizes[0])]
    padded = _C.cat([data, missing]).index_select(0, _C.tensor(rows, dtype=_C.int64, device=data.device))
    padded = padded.view(length, sizes[0], *data.shape[1:])
    padded = padded.transpose(0, 1) if batch_first else padded
    lengths = _C.tensor(lengths, dtype=_C.int64)
    back = sequence.unsorted_indices
    if back is not None:
        return padded.index_select(0 if batch_first else 1, back), lengths[back.cpu()]
    return padded, lengths


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


def unpad_sequence(padded_sequences, lengths, batch_first: bool = False) -> list:
    """The sequences of a padded tensor: the way back from pad_sequence."""
    rows = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [row[: int(n)] for row, n in zip(rows, lengths, strict=True)]


def pack_sequence(sequences, enforce_sorted: bool = True):
    """A list of sequences, each (n, ...), packed."""
    lengths = _C.tensor([sequence.size(0) for sequence in sequences], dtype=_C.int64)
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences) -> list:
    """The sequences that were packed."""
    return unpad_sequence(*pad_packed_sequence(packed_sequences, batch_first=True), batch_first=True)


def __getattr__(name: str):
    raise absent("torch.nn.utils.rnn", name, f"it has {', '.join(__all__)} so far")
