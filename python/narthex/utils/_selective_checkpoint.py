"""Selective checkpointing: which operators of a checkpointed function keep their results, and which are computed again.

Two dispatch modes share a list for each operator. The one of the first run asks the policy of each call and notes its
result or that it is to be computed again; the one of the second run follows the notes in the same order.
"""

from __future__ import annotations

import enum
from collections import defaultdict

from .. import _C
from ._python_dispatch import TorchDispatchMode
from ._pytree import tree_map


class CheckpointPolicy(enum.Enum):
    """What a policy says of a call. PREFER_*: a compiler may decide otherwise; here they are as MUST_*. *_CPU_OFFLOAD
    are a compiler's alone: here such results are computed again."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


class SelectiveCheckpointContext:
    """What a policy is told beside the call."""

    def __init__(self, *, is_recompute: bool, op_output=None) -> None:
        self.is_recompute, self.op_output = is_recompute, op_output


def _ignored() -> frozenset:
    from .. import ops

    return frozenset({ops.aten.detach.default})


SAC_IGNORED_OPS = set(_ignored())  # views that autograd itself takes


class _Kept:
    """A result, and whether it has been written since."""

    def __init__(self, value) -> None:
        is_tensor = isinstance(value, _C.TensorBase)
        self.value = value.detach() if is_tensor else value
        self.version = self.value._version if is_tensor else None

    def get(self, may_be_written: bool):
        """The result."""
        if self.version is not None and not may_be_written and self.value._version != self.version:
            raise RuntimeError("Tensor cached during selective activation checkpoint has been mutated")
        return self.value


_AGAIN, _USED = object(), object()  # in the place of a result: it is computed again; it has been taken
_MISMATCH = "The function does not call the same operators in the same order as in the first run."


class _CachingTorchDispatchMode(TorchDispatchMode):
    """Of the first run."""

    def __init__(self, policy_fn, storage: dict) -> None:
        super().__init__()
        self.policy_fn, self.storage = policy_fn, storage

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if func in SAC_IGNORED_OPS:
            return result
        context = SelectiveCheckpointContext(is_recompute=False, op_output=result)
        said = self.policy_fn(context, func, *args, **kwargs)
        saves = said if isinstance(said, bool) else said in (CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE)
        self.storage[func].append(tree_map(_Kept, result) if saves else _AGAIN)
        return result


class _CachedTorchDispatchMode(TorchDispatchMode):
    """Of the second run."""

    def __init__(self, policy_fn, storage: dict, allow_cache_entry_mutation: bool = False) -> None:
        super().__init__()
        self.storage, self.allow_cache_entry_mutation = storage, allow_cache_entry_mutation
        self.counts: dict = {}

    def __enter__(self):
        self.counts.clear()
        return super().__enter__()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func in SAC_IGNORED_OPS:
            return func(*args, **(kwargs or {}))
        at = self.counts[func] = self.counts.get(func, -1) + 1
        if func not in self.storage:
            raise RuntimeError(f"{func} encountered during backward but not found in storage. {_MISMATCH}")
        notes = self.storage[func]
        if at >= len(notes):
            raise RuntimeError(
                f"{func} invocation index {at} encountered during backward but not found in storage. {_MISMATCH}"
            )
        found = notes[at]
        if found is _AGAIN:
            return func(*args, **(kwargs or {}))
        if found is _USED:
            raise RuntimeError(
                "Trying to backward an extra time. You are only allowed to backward once on any region computed under "
                "selective activation checkpoint."
            )
        notes[at] = _USED
        return tree_map(lambda one: one.get(self.allow_cache_entry_mutation), found)


def create_selective_checkpoint_contexts(policy_fn_or_list, allow_cache_entry_mutation=False) -> tuple:
    """The two contexts for checkpoint's `context_fn`. The policy is a function (context, op, *args, **kwargs) that
    gives a CheckpointPolicy, or a list of the operators of torch.ops whose results are kept."""
    policy = policy_fn_or_list
    if isinstance(policy, list):
        from .._ops import OpOverload

        for op in policy:
            if not isinstance(op, OpOverload):
                extra = (
                    "Please update the OpOverloadPacket to a specific OpOverload." if hasattr(op, "overloads") else ""
                )
                raise ValueError(
                    f"Expected op in `op_list` to be an OpOverload but got: {op} of type {type(op)}. {extra}"
                )
        kept_ops = set(policy)

        def policy(context, op, *args, **kwargs):
            return CheckpointPolicy.MUST_SAVE if op in kept_ops else CheckpointPolicy.PREFER_RECOMPUTE

    elif not callable(policy):
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    kept: dict = defaultdict(list)
    return _CachingTorchDispatchMode(policy, kept), _CachedTorchDispatchMode(policy, kept, allow_cache_entry_mutation)
