"""The C example that runs one model file with several sizes: its own graph, and one that was captured from Python."""

import os
import pathlib
import re
import shlex
import shutil
import subprocess

import narthex
import narthex as torch
import pytest

SOURCE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "c" / "sizes.c"
COMPILER = shlex.split(os.environ.get("CC", "")) or [found for found in map(shutil.which, ("cc", "gcc")) if found][:1]
SIZES = [(batch, length) for batch in (1, 3, 8) for length in (5, 20)]
LINE = re.compile(
    r"batch (\d+), length (\d+): (\d+) results, sum (\S+)  \((\d+) launches, (\d+) bytes of weights, (\d+) of"
)

pytestmark = pytest.mark.skipif(not COMPILER, reason="no C compiler")


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    target, lib = tmp_path_factory.mktemp("c") / "sizes", narthex.lib_dir()
    linked = [f"-I{narthex.include_dir()}", f"-L{lib}", "-lnarthex", f"-Wl,-rpath,{lib}"]
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([*COMPILER, *flags, SOURCE, *linked, "-o", target], check=True)
    return target


def lines(program, model):
    done = subprocess.run(
        [program, model], capture_output=True, text=True, check=True, env={"PATH": os.environ["PATH"]}
    )
    return [LINE.match(line).groups() for line in done.stdout.splitlines()]


def batch_of(batch, length):
    return ((torch.arange(batch * length * 8) % 13 - 6) / 8).view(batch, length, 8)


def capture(module, *examples):
    """The graph of module(*examples) whose sizes are open, weights constants."""
    taken = []

    def backend(graph, example_inputs):
        taken.append(graph)
        return lambda *values: (taken.append(values), graph(*values))[1]

    with torch.no_grad():
        torch.compile(module, backend=backend, dynamic=True, fullgraph=True)(*examples)
    graph, values = taken
    places = [next((k for k, example in enumerate(examples) if example is value), None) for value in values]
    return graph.graph._c.with_constants([value.detach() if k is None else k for k, value in zip(places, values)])


def test_a_graph_built_in_c(program, tmp_path):
    rows = lines(program, tmp_path / "own.nxm")
    assert [(int(row[0]), int(row[1])) for row in rows] == SIZES
    for (batch, length), row in zip(SIZES, rows):
        assert int(row[2]) == batch * 4
        assert float(row[3]) == pytest.approx((batch_of(batch, length) * 0.5).tanh().sum().item(), abs=1e-3)
    assert rows == lines(program, tmp_path / "own.nxm")  # now there, and read


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down, self.norm = torch.nn.Linear(8, 32), torch.nn.Linear(32, 8), torch.nn.LayerNorm(8)

    def forward(self, x):
        batch, length, width = x.shape
        heads = x.view(batch, length, 2, width // 2).transpose(1, 2)
        mixed = torch.nn.functional.scaled_dot_product_attention(heads, heads, heads, is_causal=True)
        x = self.norm(x + mixed.transpose(1, 2).reshape(batch, length, width))
        return (x + self.down(torch.relu(self.up(x)))).sum(1) / length


def test_a_captured_module(program, tmp_path):
    torch.manual_seed(0)
    net, model = Net(), tmp_path / "net.nxm"
    graph = capture(net, batch_of(2, 7))
    graph.open_size(0, 0, 1, 8)
    graph.open_size(0, 1, 2, 64)
    graph.save_model(str(model), torch.device("cpu"))
    rows = lines(program, model)
    for (batch, length), row in zip(SIZES, rows):
        with torch.no_grad():
            assert float(row[3]) == pytest.approx(net(batch_of(batch, length)).double().sum().item(), abs=1e-4)
    assert len({row[5] for row in rows}) == 1 and int(rows[0][5]) >= 4 * (8 * 32 * 2 + 40 + 16)  # weights lie once
    assert int(rows[-1][6]) > int(rows[0][6])


def test_bounds_are_refused_by_name(program, tmp_path):
    net, model = Net(), tmp_path / "net.nxm"
    graph = capture(net, batch_of(2, 7))
    graph.open_size(0, 1, 6, 64)
    graph.save_model(str(model), torch.device("cpu"))
    done = subprocess.run([program, model], capture_output=True, text=True, env={"PATH": os.environ["PATH"]})
    assert done.returncode == 1
    assert re.search(
        r"input 0 \(l_\w*x_\) has size 5 in dimension 1, and the graph takes 6 to 64 there", done.stderr
    ), done.stderr
    with pytest.raises(ValueError, match="is 7, which is not from 8"):
        graph.open_size(0, 1, 8)
    with pytest.raises(IndexError, match="no input 3"):
        graph.open_size(3, 0)
    with pytest.raises(ValueError, match="must rise"):
        graph.set_gears(0, 1, [7, 6])


def test_an_exported_program_with_open_sizes(program, tmp_path):
    torch.manual_seed(0)
    net, batch = Net(), torch.export.Dim("batch", min=1, max=8)
    shapes = ({0: batch, 1: torch.export.Dim.DYNAMIC},)
    exported = torch.export.export(net, (batch_of(2, 7),), dynamic_shapes=shapes)
    torch.model_file.save(exported, tmp_path / "net.nxm", dynamic_shapes=shapes)
    for (batch, length), row in zip(SIZES, lines(program, tmp_path / "net.nxm")):
        with torch.no_grad():
            assert float(row[3]) == pytest.approx(net(batch_of(batch, length)).double().sum().item(), abs=1e-4)
    torch.model_file.save(exported, tmp_path / "net.nxm", {"x": {0: torch.export.Dim("batch", max=4)}})
    done = subprocess.run([program, tmp_path / "net.nxm"], capture_output=True, text=True)
    assert done.returncode == 1 and "has size 8 in dimension 0, and the graph takes 0 to 4 there" in done.stderr
    with pytest.raises(Exception, match="not in range"):
        torch.model_file.save(exported, tmp_path / "net.nxm", {"x": {0: torch.export.Dim("batch", min=3)}})


def test_gears_are_the_only_sizes(program, tmp_path):
    net, shapes = Net(), {"x": {0: torch.export.Dim("batch", min=1), 1: torch.export.Dim.DYNAMIC}}
    exported = torch.export.export(net, (batch_of(3, 5),), dynamic_shapes=shapes)
    torch.model_file.save(exported, tmp_path / "net.nxm", shapes, gears={0: {0: [1, 3, 8], 1: [5, 20]}})
    assert [(int(row[0]), int(row[1])) for row in lines(program, tmp_path / "net.nxm")] == SIZES
    torch.model_file.save(exported, tmp_path / "net.nxm", shapes, gears={0: {0: [1, 3, 8], 1: [5, 6]}})
    done = subprocess.run([program, tmp_path / "net.nxm"], capture_output=True, text=True)
    assert done.returncode == 1 and "has size 20 in dimension 1, and the graph takes [5, 6] alone there" in done.stderr
