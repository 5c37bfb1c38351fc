"""torchair's configuration, torch_npu's names, backends."""

import warnings

import narthex as nt
import pytest
from narthex.compat import torch_npu, torchair


def test_config_options():
    config = torchair.CompilerConfig()
    assert config.mode == "max-autotune" and config.debug.aclgraph.static_capture_size_limit == 64
    config.mode = "reduce-overhead"
    config.debug.graph_dump.type = "py"
    assert config.mode == "reduce-overhead" and config.debug.graph_dump.type == "py"
    assert torchair.CompilerConfig().debug.graph_dump.type is None


@pytest.mark.parametrize("path", ["mod", "debug.graph_dumb", "experimental_config.frozen"])
def test_unknown_option(path):
    group, _, name = ("config." + path).rpartition(".")
    with pytest.raises(AttributeError, match="has no option"):
        setattr(eval(group, {"config": torchair.CompilerConfig()}), name, 1)


def test_wrong_and_later_values():
    config = torchair.CompilerConfig()
    with pytest.raises(ValueError, match="must be one of 'max-autotune', 'reduce-overhead'"):
        config.mode = "fast"
    with pytest.raises(ValueError, match="must be a int"):
        config.debug.aclgraph.static_capture_size_limit = "many"
    with pytest.raises(NotImplementedError, match="export.export_mode"):
        config.export.export_mode = True
    config.export.export_mode = False
    with pytest.warns(UserWarning, match="changes nothing"):
        config.experimental_config.frozen_parameter = True


def test_option_of_the_other_mode_warns():
    config = torchair.CompilerConfig()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        config.debug.aclgraph.clone_input = False
    with pytest.warns(UserWarning, match="belongs to mode 'reduce-overhead'"):
        config.warn_about_mode()


def test_npu_names():
    assert nt.npu.is_available() and nt.npu.device_count() >= 1 and nt.npu.current_device() == 0
    x = nt.tensor([1.0, 2.0]).npu()
    assert x.is_npu and str(x.device) == "npu:0" and x.npu() is x and repr(x) == "tensor([1., 2.], device='npu:0')"
    module = nt.nn.Identity()
    module.register_buffer("b", nt.tensor([1.0]))
    assert str(module.npu().b.device) == "npu:0"
    nt.npu.synchronize()
    assert isinstance(torch_npu.fallbacks(), dict)
    with pytest.raises(NotImplementedError, match="later release"):
        torch_npu.npu_fast_gelu(x)
    with pytest.raises(TypeError, match="can't convert npu:0 device type tensor to numpy"):
        x.numpy()


def test_backend_names():
    names = nt._dynamo.list_backends(exclude_tags=())
    assert {"narthex", "inductor", "eager", "aot_eager", "npu"} <= set(names)
    with pytest.raises(RuntimeError, match="Invalid backend: 'fastest'"):
        nt.compile(lambda x: x, backend="fastest")
    with pytest.raises(RuntimeError, match="Unrecognized mode=fast"):
        nt.compile(lambda x: x, mode="fast")
    with pytest.raises(RuntimeError, match="Either mode or options"):
        nt.compile(lambda x: x, mode="default", options={})
    assert nt.compile(len, disable=True) is len


@pytest.mark.parametrize("mode", ["max-autotune", "reduce-overhead"])
def test_only_the_first_run_passes_through_python(mode, monkeypatch):
    calls = []
    original = torchair.npu_fx_compiler._NpuFxCompiler.__call__
    monkeypatch.setattr(
        torchair.npu_fx_compiler._NpuFxCompiler,
        "__call__",
        lambda self, *inputs: calls.append(1) or original(self, *inputs),
    )
    config = torchair.CompilerConfig()
    config.mode = mode
    added = nt.compile(lambda a, b: a + b, backend=torchair.get_npu_backend(compiler_config=config))
    for number in (1.0, 2.0, 3.0):
        a, b = nt.tensor([number]).npu(), nt.tensor([10.0]).npu()
        assert added(a, b).tolist() == [number + 10.0]
    assert len(calls) == 1


@pytest.mark.parametrize("mode", ["max-autotune", "reduce-overhead", "eagerly"])
def test_training_through_the_backend(mode):
    config = torchair.CompilerConfig()
    if mode == "eagerly":
        config.debug.run_eagerly = True
    else:
        config.mode = mode

    def loss(x, w):
        return (x @ w.t() * 2).sum()

    def gradients(function):
        nt.manual_seed(2)
        x, w = nt.randn(3, 4).npu(), nt.randn(5, 4).npu().requires_grad_()
        function(x, w).backward()
        return w.grad.tolist()

    assert gradients(nt.compile(loss, backend=torchair.get_npu_backend(compiler_config=config))) == gradients(loss)


def test_graph_dump(tmp_path):
    config = torchair.CompilerConfig()
    config.debug.graph_dump.type = "txt"
    config.debug.graph_dump.path = str(tmp_path)
    nt.compile(lambda a: a + 1, backend=torchair.get_npu_backend(compiler_config=config))(nt.tensor([1.0]).npu())
    (file,) = tmp_path.iterdir()
    assert "aten::add.Tensor" in file.read_text()
