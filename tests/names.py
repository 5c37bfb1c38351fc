"""PyTorch's public names, module by module, and which of them Narthex has.

`python -m tests.names` writes those that are not there into docs/names.md, with the reason of each;
tests/front/test_names.py holds the two together. A module is added by a row of SPACES.
"""

from __future__ import annotations

import importlib
import re
import sys
import types
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parent.parent / "docs" / "names.md"
# What is compared: modules by their names (a class after a colon).
SPACES = tuple(
    """
    torch torch:Tensor torch.special torch.sparse torch.linalg torch.fft torch.signal.windows torch.masked
    torch.serialization
    torch.nn torch.nn:Module torch.nn.functional torch.nn.init torch.nn.parameter torch.nn.attention
    torch.nn.modules.module torch.nn.modules.utils torch.nn.parallel
    torch.nn.utils torch.nn.utils.clip_grad torch.nn.utils.fusion torch.nn.utils.parametrizations
    torch.nn.utils.parametrize torch.nn.utils.prune torch.nn.utils.rnn torch.nn.utils.stateless
    torch.optim torch.optim:Optimizer torch.optim.lr_scheduler torch.optim.optimizer torch.optim.swa_utils
    torch.distributions torch.distributions.constraints torch.distributions.constraint_registry
    torch.distributions.kl torch.distributions.transforms torch.distributions.utils
    torch.autograd torch.autograd.forward_ad torch.autograd.function torch.autograd.functional
    torch.autograd.grad_mode torch.autograd.gradcheck torch.autograd.graph torch.autograd.profiler
    torch.utils torch.utils._pytree torch.utils.benchmark torch.utils.checkpoint torch.utils.data
    torch.utils.data.dataset
    torch.utils.data.distributed torch.utils.data.sampler torch.utils.data._utils.collate torch.utils.dlpack
    torch.utils.hooks torch.utils.model_zoo
    torch.func torch.hub torch.quasirandom torch.random torch.testing torch.futures
    torch.export torch.compiler torch._dynamo
    """.split()
)
# Why a name is not there: the first pattern that matches it whole.
REASONS = (
    (r"unflatten|UnflattenedModule|FlatArgsAdapter", "a graph knows no submodules"),
    (r".*[sS]emi_?[sS]tructured.*", "another device"),
    (
        r"(to_)?sparse.*|.*_sparse(_.*)?|.*sparse_.*|spmm|smm|hspmm|hsmm|dsmm|saddmm|sspaddmm|crow_.*|ccol_.*"
        r"|(row|col|crow|ccol)_indices_copy|indices_copy|values_copy",
        "sparse tensors",
    ),
    (
        r".*quant.*|q_.*|qint.*|quint.*|qscheme|per_.*affine.*|per_(tensor|channel).*|fbgemm.*|int_repr|choose_.*",
        "quantised",
    ),
    (
        r"cudnn.*|miopen.*|mkldnn.*|to_mkldnn|xpu|ipu|mtia|mps|vulkan|is_vulkan.*|cuda.*|hip.*|.*CUDA.*",
        "another device",
    ),
    (r"u?int[1-7]|bits.*|bit|float4.*|float8_e8.*", "a dtype that PyTorch only stores"),
    (
        r"[A-Z]\w*(Type|Stmt|Value|Module|Graph|Method|Function|Error|Base|Iter|Unit|Observer|Logger|Range|Pool|Ser)"
        r"|parse_.*|import_ir.*|merge_type.*|unify_.*|fork|wait|.*jit.*|script.*",
        "TorchScript",
    ),
    (r".*_copy(_)?", "forms that copy what a view gives"),
    (r"(eig|symeig|lstsq|solve|reinforce)", "removed from PyTorch, where it raises"),
    (r"sym_.*|Sym.*", "sizes that are not known yet"),
    (r"intrinsic|qat|ScalingType|SwizzleType|scaled_.*|grouped_mm", "quantised"),
    (
        r".*DataPipe.*|DataChunk|functional_datapipe|argument_validation|runtime_validation.*|non_deterministic"
        r"|guaranteed_datapipes_.*",
        "data pipes, which PyTorch no longer develops",
    ),
    (
        r"BroadcastingList.|boolean_dispatch|assert_int_or_pair|handle_torch_function|has_torch_function.*"
        r"|factory_kwargs|backcompat|set_module|.*DatasetKind|FlattenFn|UnflattenFn|.*DumpableContext.*",
        "machinery of PyTorch's own, which no page of it describes",
    ),
    (
        r".*privateuse1.*|backend_registration|.*cpp_backtrace|ThroughputBenchmark|throughput_benchmark|.*[cC]allgrind.*|FunctionCounts?"
        r"|.*_flash_attention_impl.*|WARN_FOR_.*|emit_.*|.*nvprof.*|.*stream.*|replicate|scatter|gather"
        r"|parallel_apply|DLDeviceType|GraphExecGroup",
        "about devices or builds of PyTorch",
    ),
)
OTHER = "not there yet"


def theirs(space: str) -> Any:
    """PyTorch's object of the space."""
    module, _, member = space.partition(":")
    found = importlib.import_module(module)
    return getattr(found, member) if member else found


def public(space: str) -> list[str]:
    """PyTorch's names without an underscore in front: those that `__all__` lists, or that belong to PyTorch."""
    found = theirs(space)
    if names := getattr(found, "__all__", None):
        return sorted(name for name in names if not name.startswith("_"))
    names = [name for name in dir(found) if not name.startswith("_")]
    if isinstance(found, type) or space in ("torch", "torch.special"):
        return names
    return [name for name in names if belongs(getattr(found, name), name)]


def belongs(value: Any, name: str) -> bool:
    """Whether a value of a module without `__all__` is PyTorch's. Modules below it are there once something has
    imported them, so that they do not count: SPACES names those that are compared."""
    if isinstance(value, types.ModuleType):
        return False
    home = getattr(value, "__module__", None) or getattr(value, "__name__", "")
    return home.startswith("torch") and name != "Tensor"


def has(ours: Any, name: str) -> bool:
    try:
        value = getattr(ours, name)
    except (AttributeError, NotImplementedError):
        return False
    from narthex._later import Later

    later = isinstance(value, type) and (value.__doc__ or "").startswith("Not there yet: ")
    return not (later or type(value) is Later)


def of(space: str) -> Any:
    """Narthex's object of the space; None where there is none."""
    module, _, member = space.partition(":")
    try:
        found = importlib.import_module(module.replace("torch", "narthex", 1))
    except ImportError:
        return None
    return getattr(found, member, None) if member else found


def absent(space: str) -> list[str]:
    """PyTorch's public names of the space that Narthex does not have."""
    ours = of(space)
    return [name for name in public(space) if ours is None or not has(ours, name)]


def reason(name: str) -> str:
    return next((text for pattern, text in REASONS if re.fullmatch(pattern, name)), OTHER)


def page() -> str:
    """The document: counts, and for each space the names by reason."""
    lines = ["# PyTorch's public names that Narthex does not have", "",
             "`python -m tests.names` writes this page from a count on both sides.", "",
             "| of | PyTorch has | Narthex has |", "|---|---|---|"]  # fmt: skip
    gone = {space: absent(space) for space in SPACES}
    for space, names in gone.items():
        total = len(public(space))
        lines.append(f"| `{space.replace(':', '.')}` | {total} | {total - len(names)} |")
    for space, names in gone.items():
        if not names:
            continue
        lines += ["", f"## `{space.replace(':', '.')}`"]
        for why in dict.fromkeys(map(reason, names)):
            listed = [f"`{name}`" for name in names if reason(name) == why]
            lines += ["", f"**{why}**: "]
            row = ""
            for word in listed:
                if len(row) + len(word) > 118:
                    lines.append(row.rstrip())
                    row = ""
                row += word + " "
            lines.append(row.rstrip())
    return "\n".join(line.rstrip() for line in lines) + "\n"


if __name__ == "__main__":
    importlib.import_module("narthex")
    PAGE.write_text(page())
    sys.stdout.write("\n".join(page().splitlines()[4:12]) + "\n")
