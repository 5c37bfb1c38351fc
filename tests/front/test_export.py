"""torch.export: one graph with its weights, run again and written as a model file."""

import subprocess

import narthex as torch
import pytest
from narthex import nn

C_PROGRAM = r"""
#include <narthex/narthex.h>
#include <stdio.h>
int main(int argc, char **argv) {
    nx_session *session;
    nx_tensor *x, *out[1] = {NULL};
    nx_status status = nx_session_new(NX_CPU, &session);
    if (status == NX_OK) status = nx_session_load(session, 1, argv[1]);
    if (status == NX_OK) status = nx_tensor_new(NX_F32, 2, (int64_t[]){2, 3}, NX_CPU, &x);
    for (int i = 0; status == NX_OK && i < 6; i++) ((float *)nx_tensor_array(x)->data)[i] = (float)i;
    if (status == NX_OK) status = nx_session_run(session, 1, NULL, (nx_tensor *[]){x}, 1, out, 1);
    if (status != NX_OK) return fprintf(stderr, "%s\\n", nx_error_message()), 1;
    for (int i = 0; i < 8; i++) printf("%.6g ", ((const float *)nx_tensor_array(out[0])->data)[i]);
    nx_tensor_unref(out[0]);
    nx_tensor_unref(x);
    nx_session_free(session);
    return 0;
}
"""


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.LayerNorm(4), nn.Linear(4, 4, bias=False))


def test_the_graph_is_the_module():
    layers, x = model(), torch.arange(6.0).view(2, 3)
    program = torch.export.export(layers, (x,))
    assert [node.op for node in program.graph.nodes].count("placeholder") == 1
    (result,) = program.graph_module(x + 1)
    assert result.tolist() == layers(x + 1).tolist()
    assert program.module()(x).tolist() == layers(x).tolist()
    assert "torch.layer_norm" in str(program)


def test_the_weights_are_the_modules_own():
    layers, x = model(), torch.arange(6.0).view(2, 3)
    program = torch.export.export(layers, (x,))
    with torch.no_grad():
        layers[3].weight.mul_(2.0)
    assert program.graph_module(x)[0].tolist() == layers(x).tolist()


def test_a_c_program_runs_the_file(tmp_path):
    layers, x = model(), torch.arange(6.0).view(2, 3)
    torch.export.save(torch.export.export(layers, (x,)), tmp_path / "model.nxm")
    (tmp_path / "run.c").write_text(C_PROGRAM)
    linked = [f"-I{torch.include_dir()}", f"-L{torch.lib_dir()}", f"-Wl,-rpath,{torch.lib_dir()}", "-lnarthex"]
    subprocess.run(["cc", tmp_path / "run.c", *linked, "-o", tmp_path / "run"], check=True)
    text = subprocess.run([tmp_path / "run", tmp_path / "model.nxm"], capture_output=True, text=True, check=True).stdout
    expected = layers(x).view(-1).tolist()
    assert max(abs(float(a) - b) for a, b in zip(text.split(), expected)) < 1e-5 and len(text.split()) == 8


def test_several_inputs_and_results():
    class Pair(nn.Module):
        def forward(self, x, pair, *, scale):
            return {"product": pair[1] * scale * x, "sum": x + pair[0]}

    x, y, z, scale = (torch.full((2,), k) for k in (1.0, 2.0, 3.0, 4.0))
    program = torch.export.export(Pair(), (x, (y, z)), {"scale": scale})
    assert [t.tolist() for t in program.graph_module(x, y, z, scale)] == [[12.0, 12.0], [3.0, 3.0]]
    assert program.module()(x, (y, z), scale=scale)["product"].tolist() == [12.0, 12.0]


def test_what_is_refused(tmp_path):
    x = torch.ones(2)

    def breaks(x):
        print(x.sum().item())
        return x

    with pytest.raises(RuntimeError, match="how to mend it"):
        torch.export.export(breaks, (x,))
    with pytest.raises(RuntimeError, match="must be used"):
        torch.export.export(lambda x, y: x + 1, (x, torch.ones(3)))
    with pytest.raises(RuntimeError, match="nothing was computed"):
        torch.export.export(lambda x: x, (x,))
    with pytest.raises(TypeError, match="tuple"):
        torch.export.export(torch.relu, x)
    with pytest.raises(NotImplementedError, match="dynamic_shapes"):
        torch.export.export(lambda x: x + 1, (x,), dynamic_shapes={"x": {0: 1}})
    with pytest.raises(TypeError, match="ExportedProgram"):
        torch.export.save(x, tmp_path / "x")
    with pytest.raises(NotImplementedError, match="writes into its inputs"):
        torch.export.save(torch.export.export(lambda x: x.add_(1) * 2, (x.clone(),)), tmp_path / "x")
    with pytest.raises(OSError, match="cannot be created"):
        torch.export.save(torch.export.export(lambda x: x + 1, (x,)), tmp_path / "none" / "x")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(NotImplementedError, match="nx_session_load"):
        torch.export.load("x")
