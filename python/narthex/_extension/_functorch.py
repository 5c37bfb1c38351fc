"""torch._C._functorch, for those who ask whether a tensor is torch.vmap's: none is, vmap goes slice by slice."""

from __future__ import annotations


def is_batchedtensor(tensor) -> bool:
    """False: inside of vmap there are slices."""
    return False


is_gradtrackingtensor = is_functionaltensor = is_functorch_wrapped_tensor = is_legacy_batchedtensor = is_batchedtensor


def maybe_get_bdim(tensor) -> int:
    """-1: no dimension of a tensor is hidden."""
    return -1


maybe_get_level = maybe_get_bdim


def peek_interpreter_stack() -> None:
    """None: there are no levels."""


def _refuse(name: str):
    def refuse(*args, **kwargs):
        raise NotImplementedError(f"{name}: torch.vmap goes slice by slice; no tensor has hidden dimensions")

    return refuse


_NAMES = ("_add_batch_dim", "_remove_batch_dim", "_vmap_increment_nesting", "_vmap_decrement_nesting", "get_unwrapped",
          "_wrap_for_grad", "_unwrap_for_grad", "_grad_increment_nesting", "_grad_decrement_nesting")  # fmt: skip
for _name in _NAMES:
    globals()[_name] = _refuse(_name)
