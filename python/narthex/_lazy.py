"""torch._lazy: lazy tensors are not there yet."""

from ._later import names

globals().update(names("torch._lazy", "use torch.compile", ("mark_step", "sync_multi", "wait_device_ops", "to_cpu")))
