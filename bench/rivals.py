"""Other ways to run a PyTorch network for inference that `make bench-models` measures: ONNX Runtime and OpenVINO."""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import side

Step = Callable[[], Any]


def onnxruntime(torch: Any, module: Any, inputs: tuple, half: bool) -> Step:
    """A session of float32; it has no limit to AVX2."""
    import onnxruntime

    if half or side.level():
        raise NotImplementedError("ONNX Runtime: float32 alone, and no limit to a level")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = side.threads(), 1
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        path = str(Path(folder) / "network.onnx")
        torch.onnx.export(module, inputs, path, dynamo=True, verbose=False)
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    fed = {given.name: x.numpy() for given, x in zip(session.get_inputs(), inputs, strict=True)}
    return lambda: session.run(None, fed)


def openvino(torch: Any, module: Any, inputs: tuple, half: bool) -> Step:
    """A compiled model whose sums are float32, or bfloat16 where that is asked for."""
    import openvino

    precision = "bf16" if half else "f32"
    config = {"INFERENCE_NUM_THREADS": side.threads(), "INFERENCE_PRECISION_HINT": precision}
    model = openvino.convert_model(module, example_input=inputs if len(inputs) > 1 else inputs[0])
    request = openvino.Core().compile_model(model, "CPU", config).create_infer_request()
    fed = [x.numpy() for x in inputs]
    return lambda: request.infer(fed)


RIVALS: dict[str, Callable[..., Step]] = {"onnxruntime": onnxruntime, "openvino": openvino}
