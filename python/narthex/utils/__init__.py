"""torch.utils: what stands beside models. `data` feeds them."""

from .._absent import absent

_SUBMODULES = (
    "_device", "_pytree", "_triton", "benchmark", "checkpoint", "collect_env", "cpp_extension", "data", "deterministic",
    "dlpack", "flop_counter", "hooks", "mobile_optimizer", "model_zoo", "module_tracker", "tensorboard",
    "throughput_benchmark", "weak",
)  # fmt: skip


def set_module(obj, mod) -> None:
    """Gives an object another `__module__`, to print with."""
    if not isinstance(mod, str):
        raise TypeError("The mod argument should be a string")
    obj.__module__ = mod


def swap_tensors(t1, t2) -> None:
    """The two objects become each other, with class and attributes; nobody else may hold either."""
    import copyreg
    import weakref

    from .. import _C

    for name, one in (("t1", t1), ("t2", t2)):
        if weakref.getweakrefs(one):
            raise RuntimeError(f"Cannot swap {name} because it has weakref associated with it")
    slots = set(copyreg._slotnames(type(t1)))
    if slots != set(copyreg._slotnames(type(t2))):
        raise RuntimeError("Cannot swap t1 and t2 if they have different slots")
    _C.swap_tensors(t1, t2)
    missing = object()
    for name in ("__class__", *slots):
        one, other = getattr(t1, name, missing), getattr(t2, name, missing)
        for of, value in ((t1, other), (t2, one)):
            if value is not missing:
                setattr(of, name, value)
            elif getattr(of, name, missing) is not missing:
                delattr(of, name)


def __getattr__(name: str):
    if name in _SUBMODULES:
        from importlib import import_module

        return import_module(f"{__name__}.{name}")
    if name == "ThroughputBenchmark":
        from .throughput_benchmark import ThroughputBenchmark

        return ThroughputBenchmark
    raise absent("torch.utils", name)
