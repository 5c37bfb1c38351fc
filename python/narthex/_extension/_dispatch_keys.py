"""torch._C.DispatchKey and sets of them: names by which packages register kernels and leave them out. Of Narthex's own
dispatch they are no part; a guard that leaves out autocast's keys stops autocast."""

from __future__ import annotations

from enum import Enum

_BACKENDS = "CPU CUDA HIP XLA MPS IPU XPU HPU VE Lazy MTIA MAIA PrivateUse1 PrivateUse2 PrivateUse3 Meta".split()
_ALONE = (
    "Undefined Dense Quantized Sparse SparseCsr NestedTensor BackendSelect Python FuncTorchDynamicLayerBackMode "
    "Functionalize Conjugate Negative ZeroTensor ADInplaceOrView AutogradOther AutogradFunctionality "
    "AutogradNestedTensor AutocastCPU AutocastXPU AutocastIPU AutocastHPU AutocastMPS AutocastCUDA "
    "AutocastPrivateUse1 FuncTorchBatched FuncTorchVmapMode FuncTorchGradWrapper PythonTLSSnapshot "
    "FuncTorchDynamicLayerFrontMode PreDispatch PythonDispatcher"
).split()
_COMPOSITE = (
    "Autograd CompositeImplicitAutograd CompositeImplicitAutogradNestedTensor CompositeExplicitAutograd "
    "CompositeExplicitAutogradNonFunctional FuncTorchBatchedDecomposition"
).split()
_FAMILIES = ("", "Quantized", "Sparse", "SparseCsr", "NestedTensor", "Autograd")
_NAMES = [*_ALONE, *(kind + backend for kind in _FAMILIES for backend in _BACKENDS), *_COMPOSITE]

DispatchKey = Enum("DispatchKey", _NAMES, module="torch._C", start=0)
DispatchKey.__str__ = lambda key: f"DispatchKey.{key.name}"
DispatchKey.__int__ = lambda key: key.value


class DispatchKeySet:
    """A set of keys; `|` joins, `&` keeps what both have."""

    __module__ = "torch._C"

    def __init__(self, *keys: DispatchKey) -> None:
        self._keys = frozenset(keys)

    def __or__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(*(self._keys | other._keys))

    def __and__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(*(self._keys & other._keys))

    def add(self, key: DispatchKey) -> DispatchKeySet:
        """A set with the key as well."""
        return DispatchKeySet(*(self._keys | {key}))

    def remove(self, key: DispatchKey) -> DispatchKeySet:
        """A set without the key."""
        return DispatchKeySet(*(self._keys - {key}))

    def has(self, key: DispatchKey) -> bool:
        """Whether the key is in it."""
        return key in self._keys

    def __eq__(self, other) -> bool:
        return isinstance(other, DispatchKeySet) and self._keys == other._keys

    def __hash__(self) -> int:
        return hash(self._keys)

    def __repr__(self) -> str:
        last = len(_ALONE)  # in PyTorch's order devices' keys come first
        order = sorted(self._keys, key=lambda key: (key.value < last, key.value))
        return f"DispatchKeySet({', '.join(key.name for key in order)})"


class _ExcludeDispatchKeyGuard:
    """A context in which what the keys do is left out: autocast. Keys of other kinds raise NotImplementedError."""

    __module__ = "torch._C"

    def __init__(self, keys: DispatchKeySet) -> None:
        others = sorted(key.name for key in keys._keys if not key.name.startswith("Autocast"))
        if others:
            raise NotImplementedError(f"_ExcludeDispatchKeyGuard: {', '.join(others)}: autocast's keys alone are known")
        self._off = DispatchKey.AutocastCPU in keys._keys

    def __enter__(self) -> None:
        from ..amp import autocast

        self._autocast = autocast("cpu", enabled=False) if self._off else None
        if self._autocast is not None:
            self._autocast.__enter__()

    def __exit__(self, *error) -> None:
        if self._autocast is not None:
            self._autocast.__exit__(*error)
