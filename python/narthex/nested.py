"""torch.nested: tensors whose parts differ in size are not there. Sequences are padded (nn.utils.rnn.pad_sequence) or
packed (pack_padded_sequence)."""

from ._absent import getter
from ._later import names

_NAMES = (
    "as_nested_tensor", "masked_select", "narrow", "nested_tensor", "nested_tensor_from_jagged", "to_padded_tensor",
)  # fmt: skip
globals().update(names("torch.nested", "pad with nn.utils.rnn.pad_sequence", _NAMES))
__all__ = list(_NAMES)

__getattr__ = getter("torch.nested")
