"""Summaries: one kind of value each, as the messages that TensorBoard reads."""

from __future__ import annotations

import io
import json

import numpy as np
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.compat.proto.types_pb2 import DataType

from ... import Tensor
from ..._absent import getter


def make_np(x) -> np.ndarray:
    """The elements of a tensor, an array, a number or a list of such."""
    if isinstance(x, Tensor):
        return x.detach().cpu().numpy()
    if isinstance(x, (list, np.ndarray)) or np.isscalar(x):
        return np.array([x]) if np.isscalar(x) else np.array(x)
    raise NotImplementedError(f"Got {type(x)}, but numpy array or torch tensor are expected.")


def _one(**fields) -> Summary:
    return Summary(value=[Summary.Value(**fields)])


def _by(plugin: str, content: bytes = b"") -> SummaryMetadata:
    return SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name=plugin, content=content))


def _shape(sizes) -> TensorShapeProto:
    return TensorShapeProto(dim=[TensorShapeProto.Dim(size=int(size)) for size in sizes])


def scalar(name: str, tensor, collections=None, new_style: bool = False, double_precision: bool = False) -> Summary:
    """A number. new_style: as a tensor, with twice the digits where double_precision is true."""
    value = make_np(tensor).squeeze()
    if value.ndim:
        raise AssertionError(f"Tensor should contain one element (0 dimensions). Was given size: {value.size} and "
                             f"{value.ndim} dimensions.")  # fmt: skip
    value = float(value)
    if not new_style:
        return _one(tag=name, simple_value=value)
    kind, field = ("DT_DOUBLE", "double_val") if double_precision else ("DT_FLOAT", "float_val")
    return _one(tag=name, tensor=TensorProto(dtype=kind, **{field: [value]}), metadata=_by("scalars"))


_FIELDS = {
    "float16": ("DT_HALF", "half_val"), "bfloat16": ("DT_BFLOAT16", "half_val"), "float32": ("DT_FLOAT", "float_val"),
    "float64": ("DT_DOUBLE", "double_val"), "int8": ("DT_INT8", "int_val"), "uint8": ("DT_UINT8", "uint32_val"),
    "int16": ("DT_INT16", "int_val"), "int32": ("DT_INT32", "int_val"), "int64": ("DT_INT64", "int64_val"),
    "bool": ("DT_BOOL", "bool_val"), "complex64": ("DT_COMPLEX64", "scomplex_val"),
    "complex128": ("DT_COMPLEX128", "dcomplex_val"),
}  # fmt: skip


def tensor_proto(tag: str, tensor: Tensor) -> Summary:
    """All elements of a tensor."""
    name = str(tensor.dtype).removeprefix("torch.")
    if name not in _FIELDS:
        raise ValueError(f"{tag} has unsupported tensor dtype {tensor.dtype}")
    kind, field = _FIELDS[name]
    flat = tensor.detach().cpu().reshape(-1)
    if field == "half_val":
        from ... import int16

        values = [value & 0xFFFF for value in flat.view(int16).tolist()]
    elif "complex" in field:
        values = [part for value in flat.tolist() for part in (value.real, value.imag)]
    else:
        values = flat.tolist()
    made = TensorProto(dtype=getattr(DataType, kind), tensor_shape=_shape(tensor.shape), **{field: values})
    return _one(tag=tag, tensor=made, metadata=_by("tensor"))


def histogram_raw(name: str, min, max, num, sum, sum_squares, bucket_limits, bucket_counts) -> Summary:  # noqa: A002
    """A histogram that the program has counted."""
    made = HistogramProto(min=min, max=max, num=num, sum=sum, sum_squares=sum_squares, bucket_limit=bucket_limits,
                          bucket=bucket_counts)  # fmt: skip
    return _one(tag=name, histo=made)


def make_histogram(values: np.ndarray, bins, max_bins: int | None = None) -> HistogramProto:
    """Counts values; empty buckets at both ends go, but for one before the first that is not."""
    if values.size == 0:
        raise ValueError("The input has no element.")
    values = values.reshape(-1)
    counts, limits = np.histogram(values, bins=bins)
    if max_bins is not None and len(counts) > max_bins:
        step = len(counts) // max_bins
        counts = np.add.reduceat(counts, np.arange(0, len(counts), step))
        last, limits = limits[-1], limits[:-1:step]
        limits = np.append(limits, last)
    filled = np.flatnonzero(counts)
    if filled.size == 0:
        raise ValueError("The histogram is empty, please file a bug report.")
    first, end = int(filled[0]), int(filled[-1]) + 1
    counts = counts[first - 1 : end] if first else np.append(0, counts[:end])
    return HistogramProto(min=values.min(), max=values.max(), num=len(values), sum=values.sum(),
                          sum_squares=values.dot(values), bucket_limit=limits[first : end + 1].tolist(),
                          bucket=counts.tolist())  # fmt: skip


def histogram(name: str, values, bins, max_bins: int | None = None) -> Summary:
    """Counts of values between limits."""
    return _one(tag=name, histo=make_histogram(make_np(values).astype(float), bins, max_bins))


# ---- images and sounds ----------------------------------------------------------------------------------------------
def _grid(images: np.ndarray, columns: int = 8) -> np.ndarray:
    """Images of N x H x W x C side by side, `columns` in a row."""
    n, height, width, channels = images.shape
    columns = min(n, columns)
    rows = -(-n // columns)
    made = np.zeros((rows * height, columns * width, channels), images.dtype)
    for k, image_ in enumerate(images):
        at = k // columns * height, k % columns * width
        made[at[0] : at[0] + height, at[1] : at[1] + width] = image_
    return made


def convert_to_HWC(tensor: np.ndarray, input_format: str) -> np.ndarray:  # noqa: N802
    """An image, or a grid of images, as rows, columns and three channels."""
    if len(set(input_format)) != len(input_format):
        raise AssertionError(f"You can not use the same dimension shorthand twice. input_format: {input_format}")
    if tensor.ndim != len(input_format):
        raise AssertionError("size of input tensor and input format are different. tensor shape: "
                             f"{tensor.shape}, input_format: {input_format}")  # fmt: skip
    order = input_format.upper()
    if len(order) == 4:
        tensor = _grid(tensor.transpose([order.find(c) for c in "NHWC"]))
    elif len(order) == 3:
        tensor = tensor.transpose([order.find(c) for c in "HWC"])
    else:
        tensor = tensor.transpose([order.find(c) for c in "HW"])[..., None]
    return np.concatenate([tensor] * 3, 2) if tensor.shape[2] == 1 else tensor


def _bytes_of(tensor: np.ndarray) -> np.ndarray:
    scale = 1 if tensor.dtype == np.uint8 else 255
    return (tensor.astype(np.float32) * scale).clip(0, 255).astype(np.uint8)


def _encoded(picture, rescale: float = 1) -> Summary.Image:
    if rescale != 1:
        from PIL import Image

        picture = picture.resize([int(size * rescale) for size in picture.size], Image.Resampling.LANCZOS)
    text = io.BytesIO()
    picture.save(text, format="PNG")
    return Summary.Image(height=picture.height, width=picture.width, colorspace=len(picture.getbands()),
                         encoded_image_string=text.getvalue())  # fmt: skip


def image(tag: str, tensor, rescale: float = 1, dataformats: str = "NCHW") -> Summary:
    """An image, or a grid of several. Floats are from 0 to 1, bytes from 0 to 255."""
    from PIL import Image

    picture = Image.fromarray(_bytes_of(convert_to_HWC(make_np(tensor), dataformats)))
    return _one(tag=tag, image=_encoded(picture, rescale))


def image_boxes(tag: str, tensor_image, tensor_boxes, rescale: float = 1, dataformats: str = "CHW",
                labels=None) -> Summary:  # fmt: skip
    """An image with red boxes, each (left, top, right, bottom)."""
    from PIL import Image, ImageDraw, ImageFont

    picture = Image.fromarray(_bytes_of(convert_to_HWC(make_np(tensor_image).astype(np.float32), dataformats)))
    draw, font = ImageDraw.Draw(picture), ImageFont.load_default()
    for k, (left, top, right, bottom) in enumerate(make_np(tensor_boxes)):
        draw.line([(left, top), (left, bottom), (right, bottom), (right, top), (left, top)], width=2, fill="Red")
        if labels is not None:
            x0, y0, x1, y1 = font.getbbox(labels[k])
            width, height, margin = x1 - x0, y1 - y0, np.ceil(0.05 * (y1 - y0))
            draw.rectangle([(left, bottom - height - 2 * margin), (left + width, bottom)], fill="Red")
            draw.text((left + margin, bottom - height - margin), labels[k], fill="black", font=font)
    return _one(tag=tag, image=_encoded(picture, rescale))


def audio(tag: str, tensor, sample_rate: int = 44100) -> Summary:
    """A sound of one channel, from -1 to 1, as a wav file."""
    import wave

    sound = make_np(tensor).squeeze()
    if abs(sound).max() > 1:
        print("warning: audio amplitude out of range, auto clipped.")
        sound = sound.clip(-1, 1)
    if sound.ndim != 1:
        raise AssertionError("input tensor should be 1 dimensional.")
    text = io.BytesIO()
    with wave.open(text, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(sample_rate)
        file.writeframes((sound * np.iinfo(np.int16).max).astype("<i2").tobytes())
    made = Summary.Audio(sample_rate=sample_rate, num_channels=1, length_frames=len(sound),
                         encoded_audio_string=text.getvalue(), content_type="audio/wav")  # fmt: skip
    return _one(tag=tag, audio=made)


# ---- what plugins read ----------------------------------------------------------------------------------------------
def text(tag: str, text: str) -> Summary:
    """Words, in Markdown."""
    from tensorboard.plugins.text.plugin_data_pb2 import TextPluginData

    made = TensorProto(dtype="DT_STRING", string_val=[text.encode("utf8")], tensor_shape=_shape([1]))
    content = TextPluginData(version=0).SerializeToString()
    return _one(tag=tag + "/text_summary", tensor=made, metadata=_by("text", content))


def custom_scalars(layout: dict) -> Summary:
    """Which scalars stand in one chart: {category: {title: ["Multiline" or "Margin", [tags]]}}."""
    from tensorboard.plugins.custom_scalar import layout_pb2 as parts

    categories = []
    for title, charts in layout.items():
        made = []
        for name, (kind, tags) in charts.items():
            if kind == "Margin":
                if len(tags) != 3:
                    raise AssertionError(f"margin charts should have exactly 3 tags, got {len(tags)}")
                series = parts.MarginChartContent.Series(value=tags[0], lower=tags[1], upper=tags[2])
                made.append(parts.Chart(title=name, margin=parts.MarginChartContent(series=[series])))
            else:
                made.append(parts.Chart(title=name, multiline=parts.MultilineChartContent(tag=tags)))
        categories.append(parts.Category(title=title, chart=made))
    content = parts.Layout(category=categories).SerializeToString()
    made = TensorProto(dtype="DT_STRING", string_val=[content], tensor_shape=TensorShapeProto())
    return _one(tag="custom_scalars__config__", tensor=made, metadata=_by("custom_scalars"))


def compute_curve(labels: np.ndarray, predictions: np.ndarray, num_thresholds: int = 127, weights=1.0) -> np.ndarray:
    """True and false positives, true and false negatives, precision and recall where predictions of at least each of
    the thresholds from 0 to 1 count as positive."""
    number = np.int32(np.floor(predictions * (num_thresholds - 1)))
    counts = [np.histogram(number, bins=num_thresholds, range=(0, num_thresholds - 1), weights=part)[0].astype(float)
              for part in (labels.astype(float) * weights, (1.0 - labels.astype(float)) * weights)]  # fmt: skip
    tp, fp = (np.cumsum(count[::-1])[::-1] for count in counts)
    tn, fn = fp[0] - fp, tp[0] - tp
    least = 1e-7
    return np.stack([tp, fp, tn, fn, tp / np.maximum(least, tp + fp), tp / np.maximum(least, tp + fn)])


def _curve(tag: str, data: np.ndarray, num_thresholds: int) -> Summary:
    from tensorboard.plugins.pr_curve.plugin_data_pb2 import PrCurvePluginData

    content = PrCurvePluginData(version=0, num_thresholds=num_thresholds).SerializeToString()
    made = TensorProto(dtype="DT_FLOAT", float_val=data.reshape(-1).tolist(), tensor_shape=_shape(data.shape))
    return _one(tag=tag, tensor=made, metadata=_by("pr_curves", content))


def pr_curve(tag: str, labels, predictions, num_thresholds: int = 127, weights=None) -> Summary:
    """Precision over recall of predictions between 0 and 1."""
    num_thresholds = min(num_thresholds, 127)
    weights = 1.0 if weights is None else make_np(weights)
    data = compute_curve(make_np(labels), make_np(predictions), num_thresholds, weights)
    return _curve(tag, data, num_thresholds)


def pr_curve_raw(tag: str, tp, fp, tn, fn, precision, recall, num_thresholds: int = 127, weights=None) -> Summary:
    """The same of what the program has counted."""
    return _curve(tag, np.stack([make_np(x) for x in (tp, fp, tn, fn, precision, recall)]), min(num_thresholds, 127))


def mesh(tag: str, vertices, colors, faces, config_dict, display_name=None, description=None) -> Summary:
    """Points in space, N x points x 3, with colours and triangles."""
    from tensorboard.plugins.mesh import metadata
    from tensorboard.plugins.mesh.plugin_data_pb2 import MeshPluginData

    config = json.dumps(config_dict or {}, sort_keys=True)
    kinds = ((vertices, MeshPluginData.VERTEX), (faces, MeshPluginData.FACE), (colors, MeshPluginData.COLOR))
    parts = [(make_np(tensor), kind) for tensor, kind in kinds if tensor is not None]
    components = metadata.get_components_bitmask([kind for _, kind in parts])
    values = []
    for tensor, kind in parts:
        about = metadata.create_summary_metadata(tag, display_name, kind, components, tensor.shape, description,
                                                 json_config=config)  # fmt: skip
        made = TensorProto(dtype="DT_FLOAT", float_val=tensor.reshape(-1).tolist(), tensor_shape=_shape(tensor.shape))
        values.append(Summary.Value(tag=metadata.get_instance_name(tag, kind), tensor=made, metadata=about))
    return Summary(value=values)


def hparams(hparam_dict=None, metric_dict=None, hparam_domain_discrete=None) -> tuple:
    """Three summaries: which settings and results an experiment has, the settings of a run, and that it ended."""
    from google.protobuf import struct_pb2
    from tensorboard.plugins.hparams import api_pb2 as api
    from tensorboard.plugins.hparams import metadata, plugin_data_pb2

    for given in (hparam_dict, metric_dict):
        if not isinstance(given, dict):
            raise TypeError("parameter: hparam_dict and metric_dict should be a dictionary, nothing logged.")
    domains, infos, start = hparam_domain_discrete or {}, [], plugin_data_pb2.SessionStartInfo()
    for name, value in hparam_dict.items():
        if value is None:
            continue
        value = value if isinstance(value, (str, bool, int, float)) else make_np(value)[0].item()
        kind = "string" if isinstance(value, str) else "number"  # of truth values, too
        start.hparams[name].__setattr__(f"{kind}_value", value)
        domain = None
        if name in domains:
            domain = struct_pb2.ListValue(values=[struct_pb2.Value(**{f"{kind}_value": d}) for d in domains[name]])
        shown = "DATA_TYPE_STRING" if kind == "string" else "DATA_TYPE_FLOAT64"
        infos.append(api.HParamInfo(name=name, type=api.DataType.Value(shown), domain_discrete=domain))
    results = [api.MetricInfo(name=api.MetricName(tag=name)) for name in metric_dict]
    whole = plugin_data_pb2.HParamsPluginData
    contents = {
        metadata.EXPERIMENT_TAG: whole(experiment=api.Experiment(hparam_infos=infos, metric_infos=results)),
        metadata.SESSION_START_INFO_TAG: whole(session_start_info=start),
        metadata.SESSION_END_INFO_TAG: whole(
            session_end_info=plugin_data_pb2.SessionEndInfo(status=api.Status.Value("STATUS_SUCCESS"))
        ),
    }
    return tuple(_one(tag=tag, metadata=metadata.create_summary_metadata(data)) for tag, data in contents.items())


__getattr__ = getter("torch.utils.tensorboard.summary")
