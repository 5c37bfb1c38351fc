"""Modules that programs import and seldom use: older places of quantisation, torch.package, nested, monitor and their
like, operators of other devices. They are there, and work or raise where they are used."""

from datetime import datetime, timedelta
from importlib import import_module

import narthex as nt
import pytest
import torch
from both import LIBS, both, close

# By module: a name that is there and raises where it is used.
RAISE = {
    "ao.nn.qat": "Linear", "ao.nn.quantizable": "LSTM", "ao.nn.quantized": "Conv2d",
    "ao.nn.quantized.dynamic": "Linear", "ao.nn.quantized.functional": "linear", "ao.quantization": "prepare",
    "ao.quantization.fake_quantize": "FakeQuantize", "ao.quantization.observer": "MinMaxObserver",
    "ao.quantization.qconfig": "default_qconfig", "ao.quantization.qconfig_mapping": "QConfigMapping",
    "ao.quantization.quantize_fx": "prepare_fx", "nested": "nested_tensor", "nn.intrinsic.qat": "ConvReLU2d",
    "nn.intrinsic.quantized": "ConvReLU2d", "nn.qat": "Conv2d", "nn.qat.dynamic": "Linear", "nn.qat.modules": "Linear",
    "nn.quantizable": "LSTM", "nn.quantized": "Linear", "nn.quantized.dynamic": "LSTM",
    "nn.quantized.functional": "conv2d", "nn.quantized.modules": "Linear", "package": "PackageExporter",
    "package.importer": "sys_importer", "package.package_exporter": "PackageExporter",
    "package.package_importer": "PackageImporter", "quantization": "quantize_dynamic",
    "utils.mobile_optimizer": "optimize_for_mobile",
}  # fmt: skip


@pytest.mark.parametrize("module", RAISE)
@pytest.mark.filterwarnings("ignore")
def test_names_that_raise_where_they_are_used(module):
    theirs, mine = (import_module(f"{lib.__name__}.{module}") for lib in (torch, nt))
    name = RAISE[module]
    assert hasattr(theirs, name)
    with pytest.raises(NotImplementedError, match=f"torch.*{name} is not there yet"):
        getattr(mine, name)(nt.ones(2))
    with pytest.raises(AttributeError):
        mine.of_no_module  # noqa: B018


@pytest.mark.filterwarnings("ignore")
def test_rows_of_layers_and_operators_that_are_observed():
    for place in ("ao.nn", "nn"):
        found = []
        for m in LIBS:
            intrinsic, quantized = (import_module(f"{m.__name__}.{place}.{n}") for n in ("intrinsic", "quantized"))
            m.manual_seed(0)
            row = intrinsic.ConvBnReLU2d(m.nn.Conv2d(2, 3, 3), m.nn.BatchNorm2d(3), m.nn.ReLU())
            x, observed = m.randn(2, 2, 5, 5), quantized.FloatFunctional()
            assert isinstance(row, m.nn.Sequential) and type(row).__name__ == "ConvBnReLU2d"
            y = observed.add_relu(row(x), observed.mul_scalar(row(x), -0.5))
            found.append([observed.cat([observed.add(y, y), observed.mul(y, y)], 1), observed.add_scalar(y, 2)])
            with pytest.raises(AssertionError, match="Incorrect types for input modules: Linear and ReLU"):
                intrinsic.ConvReLU2d(m.nn.Linear(2, 2), m.nn.ReLU())
            with pytest.raises(RuntimeError, match="not intended to use the 'forward'"):
                observed(x)
        for mine, theirs in zip(*found):
            close(mine, theirs)


def test_operators_of_other_devices():
    x, vector = {m: m.ones(2, 3, 4, 4) for m in LIBS}, {m: m.ones(3) for m in LIBS}
    calls = [
        lambda m: m.batch_norm_stats(x[m], 1e-5), lambda m: m.q_scale(x[m]), lambda m: x[m].q_scale(),
        lambda m: m.cudnn_convolution(x[m], x[m], [0, 0], [1, 1], [1, 1], 1, False, False, False),
        lambda m: m.miopen_batch_norm(x[m], vector[m], vector[m], None, None, True, 0.1, 1e-5),
        lambda m: m.mkldnn_max_pool2d(x[m], 2), lambda m: m.quantized_max_pool2d(x[m], 2),
        lambda m: x[m].to_padded_tensor(0.0), lambda m: x[m].int_repr(), lambda m: x[m].qscheme(),
    ]  # fmt: skip
    for call in calls:
        mine, theirs = both(call)
        assert type(mine) is type(theirs) is NotImplementedError
        first = str(theirs).partition(" backend. ")[0]
        assert str(mine).startswith(first + " backend")
    for m in LIBS:
        assert not m.is_vulkan_available() and not m.cudnn_is_acceptable(x[m]) and not m.mtia.is_available()
        assert [kind.name for kind in (m.SUM, m.AVG)] == ["SUM", "AVG"] and m.AggregationType.AVG == m.AVG
        assert isinstance(m.per_tensor_affine, m.qscheme) and repr(m.per_tensor_affine) == "torch.per_tensor_affine"
        with pytest.raises(TypeError, match="cannot create 'torch.qscheme' instances"):
            m.qscheme()
        with pytest.raises(TypeError, match="must be Tensor, not int"):
            m.cudnn_is_acceptable(3)
        assert m.wait(m.fork(lambda a: a + 1, 2)) == 3 if m is nt else m.fork
        assert issubclass(m.JITException, Exception) and m.JITException is m.jit.Error and m.FatalError("x").args
    weight = {nt: nt.arange(54.0).view(2, 3, 3, 3), torch: torch.arange(54.0).view(2, 3, 3, 3)}
    close(*both(lambda m: m.mkldnn_convolution(x[m], weight[m], None, [1, 1], [2, 2], [1, 1], 1)))


def test_operators_by_other_names():
    for m in LIBS:
        prims, refs = import_module(f"{m.__name__}._prims"), import_module(f"{m.__name__}._refs")
        x = m.tensor([[0.5, -2.0]])
        assert prims.convert_element_type(x, m.int64).tolist() == [[0, -2]]
        assert prims.broadcast_in_dim(x[0], (3, 2), (1,)).shape == (3, 2) and prims.transpose(x, (1, 0)).shape == (2, 1)
        assert prims.abs(x).tolist() == refs.abs(x).tolist() == [[0.5, 2.0]] and refs.linalg.norm(x).dim() == 0
        assert refs.nn.functional.relu(x).tolist() == [[0.5, 0.0]] and prims.erf_inv(x[:, :1]).shape == (1, 1)
        assert set(m.functional.__all__) <= set(dir(m)) | {"lu"}
    with pytest.raises(AttributeError, match="_prims"):
        nt._prims.inductor_seed  # noqa: B018
    for m in LIBS:
        with pytest.warns(UserWarning, match="torch.lu is deprecated"):
            factors, pivots, info = m.lu(m.tensor([[1.0, 2.0], [3.0, 4.0]]), get_infos=True)
        assert pivots.tolist() == [2, 2] and info.item() == 0 and factors[0].tolist() == [3.0, 4.0]
        assert m.jit._builtins._find_builtin(m.relu) == "aten::relu" and m.jit._builtins._find_builtin(print) is None


def test_events():
    for m in LIBS:
        monitor, seen = import_module(f"{m.__name__}.monitor"), []
        handle = monitor.register_event_handler(lambda event, seen=seen: seen.append((event.name, dict(event.data))))
        event = monitor.Event("a", datetime.now(), {"x": 1, "y": 2.5, "s": "q"})
        monitor.log_event(event)
        kinds = [getattr(monitor.Aggregation, name) for name in ("SUM", "MEAN", "COUNT", "MAX", "MIN")]
        stat = monitor.Stat("st", kinds, timedelta(hours=1), 3)
        assert stat.get() == dict.fromkeys(kinds, 0.0) and stat.name == "st"
        for number in (1, 5):
            stat.add(number)
        assert stat.count == 2 and stat.get()[kinds[0]] == 0.0
        stat.add(2)
        assert stat.count == 0 and stat.get()[kinds[1]] == pytest.approx(8 / 3)
        monitor.unregister_event_handler(handle)
        monitor.log_event(event)
        assert seen[0] == ("a", {"x": 1, "y": 2.5, "s": "q"}) and len(seen) == 2
        assert seen[1][0] == "torch.monitor.Stat"
        assert seen[1][1] == pytest.approx({"st.sum": 8, "st.mean": 8 / 3, "st.count": 3, "st.max": 5, "st.min": 1})
        with pytest.raises(TypeError):
            monitor.Event("a", datetime.now(), {"x": [1]})


def test_masks_that_begin_in_a_corner():
    for m in LIBS:
        bias = import_module(f"{m.__name__}.nn.attention.bias")
        upper, lower = bias.causal_upper_left(2, 4), bias.causal_lower_right(2, 4)
        assert isinstance(upper, m.Tensor) and lower.variant is bias.CausalVariant.LOWER_RIGHT
        q, k = m.arange(16.0).view(1, 1, 2, 8).sin(), m.arange(32.0).view(1, 1, 4, 8).cos()
        for mask, seen in ((upper, 0), (lower, 2)):
            wanted = m.ones(2, 4, dtype=m.bool).tril(seen)
            assert m.equal(mask._materialize(), wanted)
            got = m.nn.functional.scaled_dot_product_attention(q, k, k, attn_mask=mask)
            assert m.allclose(got, m.nn.functional.scaled_dot_product_attention(q, k, k, attn_mask=wanted), atol=1e-6)
        with pytest.raises(ValueError, match="should not be used with causal=True"):
            m.nn.functional.scaled_dot_product_attention(q, k, k, attn_mask=lower, is_causal=True)


def test_a_device_as_a_mode():
    for m in LIBS:
        device = import_module(f"{m.__name__}.utils._device")
        with device.DeviceContext(m.device("meta")):
            assert m.ones(2).device.type == "meta" and m.zeros(2, device="cpu").device.type == "cpu"
        assert device.set_device("meta")(lambda m=m: m.rand(3))().device.type == "meta"
        assert m.ones in device._device_constructors() and m.ones(1).device.type == "cpu"
        assert import_module(f"{m.__name__}.utils.deterministic").fill_uninitialized_memory is True
    with pytest.raises(NotImplementedError, match="_per_sample_grad"):
        import_module("narthex.nn.utils._expanded_weights").ExpandedWeight(nt.ones(1))
