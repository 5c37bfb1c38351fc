"""torch.utils.checkpoint: a part of a network whose saved tensors are dropped and computed again in backward.

Without reentry: the forward runs as always, but each tensor that it saves becomes an empty _Slot
(saved_tensors_hooks). The first slot that backward asks for runs the function again; the tensors that are saved then,
in the same order, fill the slots. Each backward run does this at most once, and an inner checkpoint keeps its
arguments through the hooks of the outer one, so that nothing of it stays in memory either. With reentry
(use_reentrant=True) an autograd.Function runs the function without recording, and its backward runs it again and a
backward of its own.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from contextlib import ExitStack, contextmanager, nullcontext
from weakref import ref

from .. import _C, amp, random
from .._absent import getter
from .._apart import disable
from ..autograd import _is_checkpoint_valid, backward, enable_grad, no_grad
from ..autograd.function import Function
from ..autograd.graph import _Saved, saved_tensors_hooks
from ._selective_checkpoint import (
    SAC_IGNORED_OPS,
    CheckpointPolicy,
    SelectiveCheckpointContext,
    create_selective_checkpoint_contexts,
)

__all__ = [
    "SAC_IGNORED_OPS",
    "CheckpointError",
    "CheckpointFunction",
    "CheckpointPolicy",
    "DefaultDeviceType",
    "SelectiveCheckpointContext",
    "checkpoint",
    "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "check_backward_validity",
    "detach_variable",
    "get_device_states",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
    "set_device_states",
]


class CheckpointError(RuntimeError):
    """The second run of a checkpointed function did not save what the first one saved."""


class _Enough(Exception):
    """Everything that is needed has been computed again."""


_early_stop = True


class set_checkpoint_early_stop:
    """Whether recomputation ends as soon as the last saved tensor is there; also a context manager."""

    def __init__(self, enable: bool) -> None:
        global _early_stop
        self.before, _early_stop = _early_stop, enable

    def __enter__(self):
        return self

    def __exit__(self, *exception) -> None:
        global _early_stop
        _early_stop = self.before


def set_checkpoint_debug_enabled(enabled) -> None:
    """Raises NotImplementedError when switched on: the trace of operators is not there."""
    if enabled:
        raise NotImplementedError("checkpoint: debug mode is not there yet")


def noop_context_fn():
    """Two contexts that do nothing."""
    return nullcontext(), nullcontext()


def _is_tensor(value) -> bool:
    return isinstance(value, _C.TensorBase)


def detach_variable(inputs) -> tuple:
    """The same values; tensors are leaves that require grad if they did."""
    if not isinstance(inputs, tuple):
        raise RuntimeError(f"Only tuple of tensors is supported. Got Unsupported input type: {type(inputs).__name__}")
    return tuple(x.detach().requires_grad_(x.requires_grad) if _is_tensor(x) else x for x in inputs)


def check_backward_validity(inputs: Iterable) -> None:
    """Warns when no tensor among `inputs` requires grad."""
    if not any(x.requires_grad for x in inputs if _is_tensor(x)):
        warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2)


class _Surroundings:
    """What the first run found and the second must find again: the random numbers' state and autocast."""

    def __init__(self, preserve_rng_state: bool, args) -> None:
        devices = {x.device.type for x in args if _is_tensor(x)} | {"cpu"}
        self.autocast = [
            (name, *_C.autocast_get(name), _C.autocast_cache()) for name in devices if amp.is_autocast_available(name)
        ]
        self.state = random.get_rng_state() if preserve_rng_state else None
        self.others = [
            (generator, generator.get_state()) for generator in (_generators(args) if preserve_rng_state else ())
        ]

    @contextmanager
    def again(self):
        """As it was then; afterwards as it is now."""
        kept = [(generator, generator.get_state()) for generator, _ in self.others]
        with ExitStack() as stack:
            stack.enter_context(random.fork_rng(enabled=self.state is not None))
            if self.state is not None:
                random.set_rng_state(self.state)
            for generator, state in self.others:
                generator.set_state(state)
            for name, enabled, dtype, cache in self.autocast:
                stack.enter_context(amp.autocast(name, dtype=dtype, enabled=enabled, cache_enabled=cache))
            try:
                yield
            finally:
                for generator, state in kept:
                    generator.set_state(state)


# ---- without reentry -------------------------------------------------------------------------------------------------
class _Slot:
    """Where a saved tensor was."""

    __slots__ = ("__weakref__", "frame", "value")

    def __init__(self, frame) -> None:
        self.frame, self.value = frame, None


def _describe(x) -> dict:
    return {"shape": x.shape, "dtype": x.dtype, "device": x.device}


class _Frame:
    """One call of checkpoint."""

    def __init__(
        self, function, args, kwargs, surroundings, recompute_context, is_checked: bool, early_stop: bool
    ) -> None:
        self.function, self.surroundings, self.recompute_context = function, surroundings, recompute_context
        self.args = [_Saved(x) if _is_tensor(x) else x for x in args]
        self.kwargs = {key: _Saved(x) if _is_tensor(x) else x for key, x in kwargs.items()}
        self.slots: list = []  # weakly: a slot goes with the node that saved it
        self.metas: list | None = [] if is_checked else None
        self.early_stop = early_stop
        self.run = 0  # the backward run whose tensors are in the slots
        self.n_again = 0
        self.is_forward_done = False  # else a backward inside of the function asks

    def pack(self, x) -> _Slot:
        """Of the first run."""
        slot = _Slot(self)
        self.slots.append(ref(slot))
        if self.metas is not None:
            self.metas.append(_describe(x))
        return slot

    def unpack(self, slot: _Slot):
        """The tensor of `slot`; computes all of them if this backward has not yet."""
        run = _C.grad_run()[0]
        if self.run != run or run == 0:
            self.recompute(run)
        if slot.value is None:
            raise CheckpointError(
                "torch.utils.checkpoint: Unpack is being triggered for a tensor that was either never recomputed, "
                "or already unpacked once. If you are calling ctx.saved_tensors in backward, make sure to do so only "
                "once. Otherwise please open an issue with details on your use case."
            )
        value, slot.value = slot.value, None
        return value

    def _pack_again(self, x):
        at, self.n_again = self.n_again, self.n_again + 1
        if at >= len(self.slots):
            if self.is_forward_done:
                raise CheckpointError(
                    "torch.utils.checkpoint: trying to save more tensors during recomputation than during the original "
                    "forward pass.\n"
                )
            return x.detach()  # a backward inside of the function: more are to come
        slot = self.slots[at]()
        if self.metas is not None and _describe(x) != self.metas[at]:
            self.mismatches.append((at, self.metas[at], _describe(x)))
        if slot is not None:
            slot.value = x.detach()
        if self.early_stop and self.n_again == len(self.slots):
            raise _Enough
        return x.detach()  # for a backward inside of the function

    def recompute(self, run: int) -> None:
        """Runs the function again and fills the slots."""
        self.run, self.n_again, self.mismatches = run, 0, []
        for slot in filter(None, (weak() for weak in self.slots)):
            slot.value = None
        args = [x.get() if isinstance(x, _Saved) else x for x in self.args]
        kwargs = {key: x.get() if isinstance(x, _Saved) else x for key, x in self.kwargs.items()}
        hooks = saved_tensors_hooks(self._pack_again, lambda packed: packed)
        try:
            with self.surroundings.again(), self.recompute_context, enable_grad(), hooks:
                self.function(*args, **kwargs)
        except _Enough:
            pass
        if self.n_again != len(self.slots) and self.is_forward_done:
            raise CheckpointError(
                "torch.utils.checkpoint: A different number of tensors was saved during the original forward and "
                f"recomputation.\nNumber of tensors saved during forward: {len(self.slots)}\n"
                f"Number of tensors saved during recomputation: {self.n_again}."
            )
        if self.mismatches:
            listed = "\n".join(
                f"tensor at position {at}:\nsaved metadata: {was}\nrecomputed metadata: {now}"
                for at, was, now in self.mismatches
            )
            raise CheckpointError(
                "torch.utils.checkpoint: Recomputed values for the following tensors have different metadata than "
                f"during the forward pass.\n{listed}\n"
            )


def _generators(args) -> list:
    """The default generators of the devices of `args`, the CPU's left out."""
    found = {}
    for x in args:
        if _is_tensor(x) and x.device.type != "cpu":
            found[str(x.device)] = _C.device_generator(x.device)
    return list(found.values())


@disable
def _without_reentry(function, preserve, context_fn, determinism_check, early_stop, args, kwargs):
    forward_context, recompute_context = context_fn()
    surroundings = _Surroundings(preserve, (*args, *kwargs.values()))
    is_checked = {"default": True, "none": False}.get(determinism_check)
    if is_checked is None:
        raise ValueError(f"determinism_check should be one of ('default', 'none') but got {determinism_check}")
    if not _C.is_grad_enabled():
        with forward_context:
            return function(*args, **kwargs)
    frame = _Frame(function, args, kwargs, surroundings, recompute_context, is_checked, early_stop)
    with saved_tensors_hooks(frame.pack, frame.unpack), forward_context:
        result = function(*args, **kwargs)
    frame.is_forward_done = True
    return result


# ---- with reentry ----------------------------------------------------------------------------------------------------
class CheckpointFunction(Function):
    """apply(function, preserve_rng_state, *args)"""

    @staticmethod
    def forward(ctx, run_function, preserve_rng_state, *args):
        """What the function returns, not recorded."""
        check_backward_validity(args)
        ctx.run_function, ctx.surroundings = run_function, _Surroundings(preserve_rng_state, args)
        ctx.others = [None if _is_tensor(x) else x for x in args]
        ctx.save_for_backward(*(x if _is_tensor(x) else None for x in args))
        ctx.is_tensor = [_is_tensor(x) for x in args]
        with no_grad():
            return run_function(*args)

    @staticmethod
    def backward(ctx, *args):
        """Runs the function again, recorded, and its backward."""
        if not _is_checkpoint_valid():
            raise RuntimeError(
                "When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or passing an `inputs` "
                "parameter to .backward(). To resolve this error, you can either set use_reentrant=False, or call "
                ".backward() without passing the `inputs` argument."
            )
        saved = ctx.saved_tensors
        given = detach_variable(
            tuple(x if is_tensor else o for x, o, is_tensor in zip(saved, ctx.others, ctx.is_tensor))
        )
        with ctx.surroundings.again(), enable_grad():
            results = ctx.run_function(*given)
        results = results if isinstance(results, tuple) else (results,)
        pairs = [(r, g) for r, g in zip(results, args) if _is_tensor(r) and r.requires_grad]
        if not pairs:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        backward([r for r, _ in pairs], [g for _, g in pairs])
        return (None, None, *(x.grad if _is_tensor(x) else None for x in given))


# ---- the two together ------------------------------------------------------------------------------------------------
def _choose(use_reentrant, name: str, since: str) -> bool:
    if use_reentrant is None:
        warnings.warn(
            f"torch.utils.{name}: the use_reentrant parameter should be passed explicitly. {since} use_reentrant=False "
            "is recommended, but if you need to preserve the current default behavior, you can pass "
            "use_reentrant=True. Refer to docs for more details on the differences between the two variants.",
            stacklevel=3,
        )
        return True
    return use_reentrant


def _traced(function, use_reentrant: bool, debug: bool, args: tuple, kwargs: dict):
    """In a captured function: what the function computes is marked, for the backward to compute it again."""
    if not use_reentrant:
        set_checkpoint_debug_enabled(debug)
    elif kwargs or debug:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs) if kwargs else _NO_DEBUG)
    elif not any(x.requires_grad for x in args if _is_tensor(x)):
        check_backward_validity(args)
        with no_grad():
            return function(*args)
    before = _C.recompute_begin()
    try:
        return function(*args, **kwargs)
    finally:
        _C.recompute_end(before)


_NO_DEBUG = "Passing `context_fn` or `debug` is only supported when use_reentrant=False."


def checkpoint(
    function,
    *args,
    use_reentrant: bool | None = None,
    context_fn=noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs,
):
    """`function(*args, **kwargs)`, which keeps nothing for backward but its arguments and runs again there.

    Pass `use_reentrant=False`. `preserve_rng_state=False` spares keeping the generators' states, of the CPU and of the
    arguments' devices. Under torch.compile the function stands in the graph, whose backward computes it again; with
    `context_fn` the call is made as it stands, between graphs.
    """
    use_reentrant = _choose(
        use_reentrant,
        "checkpoint",
        "Starting in PyTorch 2.9, calling checkpoint without use_reentrant will raise an exception.",
    )
    preserve = kwargs.pop("preserve_rng_state", True)
    if _C.is_capturing() and not _C.is_grad_enabled():  # nothing is kept for a backward
        return function(*args, **kwargs)
    if context_fn is noop_context_fn and preserve and _C.function_follows():
        return _traced(function, use_reentrant, debug, args, kwargs)
    if not use_reentrant:
        set_checkpoint_debug_enabled(debug)
        stops = early_stop and _early_stop
        return _without_reentry(function, preserve, context_fn, determinism_check, stops, args, kwargs)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    if context_fn is not noop_context_fn or debug:
        raise ValueError(_NO_DEBUG)
    return CheckpointFunction.apply(function, preserve, *args)


def checkpoint_sequential(functions, segments: int, input, use_reentrant: bool | None = None, **kwargs):
    """The modules one after the other, in `segments` checkpoints; the last segment runs as it is."""
    use_reentrant = _choose(
        use_reentrant,
        "checkpoint.checkpoint_sequential",
        "In version 2.9 we will raise an exception if use_reentrant is not passed.",
    )
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    modules = list(functions)

    def part(start: int, end: int):
        def run(x):
            for module in modules[start:end]:
                x = module(x)
            return x

        return run

    size, end = len(modules) // segments, 0
    for start in range(0, size * (segments - 1), size):
        end = start + size
        input = checkpoint(part(start, end), input, use_reentrant=use_reentrant, preserve_rng_state=preserve)
    return part(end, len(modules))(input)


class DefaultDeviceType:
    """The kind of device that is assumed where the arguments are on the CPU alone."""

    _default_device_type = "cpu"

    @staticmethod
    def set_device_type(device: str = "cuda") -> None:
        """The kind from now on."""
        DefaultDeviceType._default_device_type = device

    @staticmethod
    def get_device_type() -> str:
        """The kind that was set last, "cpu" before."""
        return DefaultDeviceType._default_device_type


def get_device_states(*args) -> tuple[list, list]:
    """The devices of the tensors in `args` that keep generators of their own, and the generators' states: none do."""
    return [], []


def set_device_states(devices, states, *, device_type: str | None = None) -> None:
    """Puts back what get_device_states gave."""
    if len(devices) != len(states):
        raise ValueError(f"{len(devices)} devices and {len(states)} states")
    if devices:
        raise NotImplementedError("set_device_states: only the CPU's generator can be kept")


__getattr__ = getter("torch.utils.checkpoint")
