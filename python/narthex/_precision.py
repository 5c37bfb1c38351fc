"""How kernels of other libraries may compute float32: kept in the two ways that PyTorch has; products stay float32.

The older way is one word for all products; the newer one is a word for each backend and kind of operator, where "none"
says that what holds for the whole backend decides.
"""

import warnings

_PLACES = {"highest": ("ieee", "ieee"), "high": ("tf32", "tf32"), "medium": ("tf32", "bf16")}  # of CUDA, of oneDNN
_KNOWN = {"mkldnn": ("none", "ieee", "tf32", "bf16"), "cuda": ("none", "ieee", "tf32")}
_words: dict[tuple[str, str], str] = {}
_kept = {"products": "highest"}
_MIXED = "Current status indicate that you have used mix of the legacy and new APIs to set the "
_PAGE = "See also: https://pytorch.org/docs/main/notes/cuda.html#tensorfloat-32-tf32-on-ampere-and-later-devices"


def word(backend: str, kind: str) -> str:
    """What holds for operators of this kind."""
    own = _words.get((backend, kind), "none")
    return own if own != "none" else _words.get((backend, "all"), "none")


def set_word(backend: str, kind: str, precision: str) -> str:
    """Sets it in the newer way, and gives what stood there."""
    if not isinstance(precision, str):
        raise TypeError(f"fp32_precision must be a str, not {type(precision).__name__}")
    if precision not in _KNOWN["mkldnn"]:
        raise RuntimeError(f"Unknown precision: {precision}")
    if precision not in _KNOWN[backend]:
        raise RuntimeError(f"backend '{backend}' does not support precision '{precision}'")
    before = _words.get((backend, kind), "none")
    _words[backend, kind] = precision
    return before


def set_products(precision: str, stacklevel: int = 3) -> None:
    """Sets it in the older way; the newer one follows."""
    if precision not in _PLACES:
        text = f"{precision} is not one of 'highest', 'high', or 'medium'; the current"
        warnings.warn(f"{text}setFloat32MatmulPrecision call has no effect.", stacklevel=stacklevel)
        return
    _kept["products"] = precision
    _words["cuda", "matmul"], _words["mkldnn", "matmul"] = _PLACES[precision]


def products() -> str:
    """What was set in the older way; an error where the newer one has been given something else since."""
    kept, of_cuda, of_mkldnn = _kept["products"], word("cuda", "matmul"), word("mkldnn", "matmul")
    other = {"highest": ("tf32", "bf16"), "high": ("bf16",), "medium": ("tf32",)}[kept]
    if of_mkldnn in other or (kept == "highest" and of_cuda == "tf32"):
        raise RuntimeError(
            f"PyTorch is checking the matmul precision without a specific backend name,{_MIXED}matmul precision. "
            f"We suggest only using the new API for matmul precision. {_PAGE}"
        )
    return kept


def allows_tf32() -> bool:
    """Of CUDA's products."""
    allowed = _kept["products"] != "highest"
    if allowed != (word("cuda", "matmul") == "tf32"):
        raise RuntimeError(
            f"PyTorch is checking whether allow_tf32_new is enabled for cuBlas matmul,{_MIXED}TF32 status for cublas "
            f"matmul. We suggest only using the new API to set the TF32 flag. {_PAGE}"
        )
    return allowed


def allow_tf32(allowed: bool) -> None:
    """Sets it in the older way; oneDNN's products keep their word."""
    if not isinstance(allowed, bool):
        raise RuntimeError(f"set_allow_tf32_cublas expects a bool, but got {type(allowed).__name__}")
    _kept["products"] = "high" if allowed else "highest"
    _words["cuda", "matmul"] = "tf32" if allowed else "ieee"


class Kind:
    """The word for one kind of operators of a backend, as `fp32_precision`; it has no other attributes."""

    def __init__(self, backend: str, kind: str) -> None:
        self.__dict__.update(backend=backend, op=kind)

    def __getattr__(self, name: str):
        if name == "fp32_precision":
            return word(self.backend, self.op)
        raise AttributeError(f"Unknown attribute {name}")

    def __setattr__(self, name: str, value) -> None:
        if name != "fp32_precision":
            raise AttributeError(f"Unknown attribute {name}")
        set_word(self.backend, self.op, value)


class Products(Kind):
    """Of CUDA's products: `allow_tf32` beside it, and settings that are kept."""

    def __init__(self, **kept) -> None:
        super().__init__("cuda", "matmul")
        self.__dict__["_kept"] = kept

    def __getattr__(self, name: str):
        if name == "allow_tf32":
            return allows_tf32()
        return self._kept[name] if name in self._kept else super().__getattr__(name)

    def __setattr__(self, name: str, value) -> None:
        if name == "allow_tf32":
            allow_tf32(value)
        elif name in self._kept:
            self._kept[name] = value
        else:
            super().__setattr__(name, value)
