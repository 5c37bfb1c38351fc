"""`narthex scan`: names of torch that a tree of sources uses and that are not there, with file and line."""

import subprocess
import sys

SOURCE = """\
import torch
import torch.nn as nn
from torch.nn import functional as F
from torch.no_such_module import thing
import torch.jit as jit

class Net(nn.Module):
    def forward(self, x):
        x = F.relu(F.no_such_function(x)).no_method_is_asked_for()
        return torch.nn.functional.gelu(nn.NoSuchLayer(3)(x), approximate=torch.__version__)

try:
    from torch.perhaps import something
except ImportError:
    something = torch.nothing_here
try:
    torch.unexpected
except ValueError:
    pass
torch.set_here = 1
torch.Tensor.no_such_method
torch.distributed.fsdp.FullyShardedDataParallel
"""


def scan(*paths):
    done = subprocess.run([sys.executable, "-m", "narthex", "scan", *map(str, paths)], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def test_what_is_missing_is_named_with_its_line(tmp_path):
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside/net.py").write_text(SOURCE)
    (tmp_path / "good.py").write_text(
        "from torch import nn, Tensor as T\nnn.Linear(2, 3); T.add_; nn.utils.clip_grad_norm_\n"
    )
    (tmp_path / "broken.py").write_text("import torch\nprint('\n")
    (tmp_path / "notes.txt").write_text("import torch.nowhere")
    status, out, err = scan(tmp_path)
    found = [line.removeprefix(f"{tmp_path}/") for line in out.splitlines()]
    assert status == 1 and err == ""
    assert found == [
        "inside/net.py:4: torch.no_such_module is not there",
        "inside/net.py:9: torch.nn.functional.no_such_function is not there",
        "inside/net.py:10: torch.nn.NoSuchLayer is not there",
        "inside/net.py:13: torch.perhaps is not there (a try block expects that)",
        "inside/net.py:15: torch.nothing_here is not there",
        "inside/net.py:17: torch.unexpected is not there",
        "inside/net.py:21: torch.Tensor.no_such_method is not there",
        "inside/net.py:22: torch.distributed.fsdp.FullyShardedDataParallel is there for imports alone and raises when"
        " it is used",
        "broken.py: could not be read: unterminated string literal (detected at line 2)",
        "3 sources; 7 names are missing in 1 of them",
    ]
    assert scan(tmp_path / "good.py") == (0, "1 sources; every name of torch is there\n", "")


def test_wrong_calls():
    assert scan() == (2, "", "narthex scan: name a file or folder\n")
    assert scan("/no/such/place") == (2, "", "narthex scan: /no/such/place: no such file or folder\n")
