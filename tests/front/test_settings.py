"""Names that programs ask before they start: answers as of a PyTorch without CUDA."""

import subprocess
import sys
import warnings

import narthex as nt
import pytest
import torch


def test_version():
    assert nt.__version__ == torch.__version__.partition("+")[0] == nt.version.__version__
    assert nt.version.cuda is None and nt.version.hip is None
    run = subprocess.run([sys.executable, "-m", "narthex", "--version"], capture_output=True, text=True)
    assert run.stdout == f"narthex {nt.narthex_version}\n"


QUESTIONS = [
    "is_available()", "device_count()", "is_initialized()", "is_bf16_supported()", "memory_allocated()",
    "max_memory_allocated()", "empty_cache()", "manual_seed(3)", "manual_seed_all(3)", "current_device()",
    "get_device_name()", "get_device_properties(0)", "get_device_capability()", "synchronize()", "init()",
]  # fmt: skip


@pytest.mark.parametrize("question", QUESTIONS)
def test_cuda(question):
    answers = []
    for module in (nt, torch):
        try:
            answers.append(eval(f"cuda.{question}", {"cuda": module.cuda}))
        except AssertionError as error:
            answers.append(str(error)[:36])
    assert answers[0] == answers[1]
    assert not nt.device("cpu").type == "cuda" and "cuda" if nt.cuda.is_available() else "cpu"


@pytest.mark.parametrize("name", ["OutOfMemoryError", "AcceleratorError"])
def test_errors_that_programs_catch(name):
    for module in (nt, torch):
        error = getattr(module.cuda, name)
        assert error is getattr(module, name) and issubclass(error, RuntimeError)


def test_backends():
    for name in ("cuda.is_built()", "cudnn.is_available()", "cudnn.version()", "mps.is_available()", "mps.is_built()"):
        assert eval(f"b.{name}", {"b": nt.backends}) == eval(f"b.{name}", {"b": torch.backends}), name
    for place, name in (("cuda.matmul", "allow_tf32"), ("cudnn", "allow_tf32"), ("cudnn", "benchmark")):
        mine, theirs = eval(place, vars(nt.backends)), eval(place, vars(torch.backends))
        assert getattr(mine, name) == getattr(theirs, name)
    nt.backends.cudnn.benchmark = True
    assert nt.backends.cudnn.benchmark
    nt.backends.cudnn.benchmark = False
    nt.backends.cuda.enable_flash_sdp(False)
    assert not nt.backends.cuda.flash_sdp_enabled()
    nt.backends.cuda.enable_flash_sdp(True)


def test_scaler_and_autocast_that_are_off():
    w = nt.nn.Parameter(nt.tensor([1.0]))
    optimizer = nt.optim.SGD([w], lr=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scaler = nt.amp.GradScaler(enabled=False)
        with nt.amp.autocast("cpu", dtype=nt.bfloat16, enabled=False):
            scaler.scale((w * 2).sum()).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    assert w.tolist() == [0.0] and scaler.get_scale() == 1.0 and scaler.state_dict() == {}
    with pytest.warns(UserWarning, match="CUDA is not available"):
        assert not nt.cuda.amp.GradScaler().is_enabled()
    with pytest.warns(UserWarning, match="CUDA is not available"):
        nt.autocast("cuda")


def test_settings():
    nt.set_float32_matmul_precision("high")
    assert nt.get_float32_matmul_precision() == "high"
    nt.set_float32_matmul_precision("highest")
    with pytest.warns(UserWarning, match="low is not one of"):
        nt.set_float32_matmul_precision("low")
    assert nt.get_float32_matmul_precision() == "highest"
    nt.use_deterministic_algorithms(True)
    assert nt.are_deterministic_algorithms_enabled()
    nt.use_deterministic_algorithms(False)
    nt.set_default_device("cpu")
    assert nt.get_default_device() == nt.device("cpu")
    try:
        nt.set_default_device("meta")
        assert nt.ones(2).is_meta and nt.tensor([1]).is_meta and nt.randn(2).is_meta
        assert not nt.ones(2, device="cpu").is_meta
    finally:
        nt.set_default_device(None)
    assert nt.ones(2).device.type == "cpu"
    nt.set_default_dtype(nt.float64)
    assert nt.tensor([1.0]).dtype is nt.float64 and nt.get_default_dtype() is nt.float64
    nt.set_default_dtype(nt.float32)


def test_run_sees_them():
    """The names under torch's own, as `narthex run` gives them."""
    code = """
from narthex.cli import use_as_torch
use_as_torch()
import torch, torch.nn.functional as F, torch.optim as optim
from torch.optim.lr_scheduler import CosineAnnealingLR
from torch.utils.data import Dataset, TensorDataset
from torch.nn import init
import torch.backends.cudnn as cudnn
import torch.cuda.amp, torch.version, torch.nn.utils
print(torch.__version__, torch.optim.SGD is optim.SGD, torch.nn.init is init, torch.backends.cudnn is cudnn)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.stdout == "2.13.0 True True True\n", run.stderr
