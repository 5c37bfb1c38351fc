"""torch.ao.quantization.quantize_fx: graphs are not made over integers; the names of its functions are there."""

from ..._later import names

_NAMES = ("convert_fx", "convert_to_reference_fx", "fuse_fx", "prepare_fx", "prepare_qat_fx")
globals().update(names("torch.ao.quantization.quantize_fx", "models compute in floats", _NAMES))
__all__ = list(_NAMES)
