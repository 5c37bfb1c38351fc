"""mode="max-autotune" times the engine's choices: results are eager's, a report is there, other modes time nothing."""

import subprocess
import sys

import narthex as torch
import pytest


def net(x, w):
    return (torch.nn.functional.gelu(x @ w) * x + x.tanh()).softmax(-1).exp().sum(-1)


def captured(function, *examples):
    graphs = []
    torch.compile(function, backend=lambda graph, inputs: (graphs.append(graph), graph.forward)[1])(*examples)
    return graphs[0].graph._c


@pytest.mark.parametrize("threads", [1, 2])
def test_results_are_eagers(threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    x, w = torch.randn(64, 200, requires_grad=True), torch.randn(200, 200, requires_grad=True)
    expected = torch.autograd.grad(net(x, w).sum(), (x, w))
    compiled = torch.compile(net, mode="max-autotune")
    assert torch.equal(compiled(x, w), net(x, w))
    for a, b in zip(torch.autograd.grad(compiled(x, w).sum(), (x, w)), expected):
        torch.testing.assert_close(a, b)
    torch.set_num_threads(before)


def test_what_is_measured():
    graph = captured(lambda x: (x * 2 + 1).tanh().sum(-1), torch.randn(100, 1000))
    report = graph.aot(False).compile("max-autotune", None, True).measured()
    assert report.startswith("measured on ") and "aten::tanh" in report and "% of the roofline" in report
    assert graph.aot(False).compile("max-autotune").measured() == ""
    assert graph.aot(False).compile("reduce-overhead", None, True).measured() == ""


def test_the_seed_is_not_touched():
    def draw(x):
        return torch.nn.functional.dropout(x, 0.5) * 2

    x = torch.ones(4000)
    torch.manual_seed(3)
    expected = draw(x)
    torch.manual_seed(3)
    assert torch.equal(torch.compile(draw, mode="max-autotune")(x), expected)


PROGRAM = """
import torch
f = torch.compile(lambda x: (x * 2 + 1).tanh().sum(-1), mode="max-autotune")
f(torch.ones(100, 1000))
"""


def test_explain_and_the_file(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "narthex", "explain", str(tmp_path / "program.py")]
    told = []
    for _ in range(2):
        done = subprocess.run(command, capture_output=True, text=True, env={"NARTHEX_CACHE": str(tmp_path / "cache")})
        assert done.returncode == 0, done.stderr
        told.append([line.split(";")[0] for line in done.stdout.splitlines() if " us" in line and "guards" not in line])
    assert len(told[0]) >= 2 and told[0] == told[1]  # the second run finds the times of the first
    assert (tmp_path / "cache" / "measured").exists()
