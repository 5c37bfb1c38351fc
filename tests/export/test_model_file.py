"""narthex.model_file: an exported program with its weights, as a file that C programs load."""

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


def test_a_c_program_runs_the_file(tmp_path):
    layers, x = model(), torch.arange(6.0).view(2, 3)
    torch.model_file.save(torch.export.export(layers, (x,)), tmp_path / "model.nxm")
    (tmp_path / "run.c").write_text(C_PROGRAM)
    linked = [f"-I{torch.include_dir()}", f"-L{torch.lib_dir()}", f"-Wl,-rpath,{torch.lib_dir()}", "-lnarthex"]
    subprocess.run(["cc", tmp_path / "run.c", *linked, "-o", tmp_path / "run"], check=True)
    text = subprocess.run([tmp_path / "run", tmp_path / "model.nxm"], capture_output=True, text=True, check=True).stdout
    expected = layers(x).view(-1).tolist()
    assert max(abs(float(a) - b) for a, b in zip(text.split(), expected)) < 1e-5 and len(text.split()) == 8


def test_a_program_of_open_sizes_is_written_for_those_of_its_example(tmp_path):
    layers, x = model(), torch.arange(6.0).view(2, 3)
    program = torch.export.export(layers, (x,), dynamic_shapes=({0: torch.export.Dim("n")},))
    torch.model_file.save(program, tmp_path / "open.nxm")
    torch.model_file.save(torch.export.export(layers, (x,)), tmp_path / "closed.nxm")
    assert (tmp_path / "open.nxm").read_bytes() == (tmp_path / "closed.nxm").read_bytes()


class Call(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def test_what_is_refused(tmp_path):
    x = torch.ones(2)

    def save(function, *args, to=tmp_path / "x"):
        torch.model_file.save(torch.export.export(Call(function), args), to)

    with pytest.raises(RuntimeError, match="must be used"):
        save(lambda x, y: x + 1, x, torch.ones(3))
    with pytest.raises(RuntimeError, match="nothing was computed"):
        save(lambda x: x, x)
    with pytest.raises(TypeError, match="ExportedProgram"):
        torch.model_file.save(x, tmp_path / "x")
    with pytest.raises(NotImplementedError, match="writes into its inputs"):
        save(lambda x: x.add_(1) * 2, x.clone())
    with pytest.raises(OSError, match="cannot be created"):
        save(lambda x: x + 1, x, to=tmp_path / "none" / "x")
    assert list(tmp_path.iterdir()) == []
