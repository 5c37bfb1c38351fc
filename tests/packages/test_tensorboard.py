"""torch.utils.tensorboard: the files that a program writes, message by message as PyTorch writes them."""

from __future__ import annotations

from pathlib import Path

import narthex as nt
import numpy as np
import pytest
import torch

pytest.importorskip("tensorboard", reason="make test-packages installs it")
pytest.importorskip("PIL", reason="make test-packages installs it")
pytest.importorskip("torch.utils.tensorboard")
NUMBERS = np.random.RandomState(0)
PICTURE, PICTURES = NUMBERS.rand(3, 4, 5).astype(np.float32), NUMBERS.rand(11, 3, 4, 4).astype(np.float32)
VALUES, BYTES = NUMBERS.randn(100).astype(np.float32), NUMBERS.randint(0, 255, (4, 5)).astype(np.uint8)
CALLS = {
    "scalar": lambda w, t: w.add_scalar("a/b", t(VALUES[:1]), 3),
    "scalar_new": lambda w, t: w.add_scalar("a", 0.1, 3, new_style=True),
    "scalar_double": lambda w, t: w.add_scalar("a", 0.1, 3, new_style=True, double_precision=True),
    "scalars": lambda w, t: w.add_scalars("a/b", {"x": 1.0, "y": t(VALUES)[3]}, 2),
    "tensor": lambda w, t: w.add_tensor("t", t(PICTURE), 1),
    "tensor_whole": lambda w, t: w.add_tensor("t", t(BYTES), 1),
    "histogram": lambda w, t: w.add_histogram("h", t(VALUES), 1),
    "histogram_zeros": lambda w, t: w.add_histogram("h", t(VALUES) * 0, 1),
    "histogram_numpy": lambda w, t: w.add_histogram("h", np.arange(7), 1, bins="auto"),
    "histogram_bins": lambda w, t: w.add_histogram("h", t(VALUES), 1, bins=[-1.0, -0.5, 0.0, 1.0], max_bins=3),
    "histogram_raw": lambda w, t: w.add_histogram_raw("h", 0.0, 2.0, 3, 4.0, 5.0, [1.0, 2.0], [2, 1], 1),
    "image": lambda w, t: w.add_image("i", t(PICTURE), 1),
    "image_gray": lambda w, t: w.add_image("i", t(BYTES), 1, dataformats="HW"),
    "image_hwc": lambda w, t: w.add_image("i", PICTURE.transpose(1, 2, 0), 1, dataformats="HWC"),
    "images": lambda w, t: w.add_images("i", t(PICTURES), 1),
    "boxes": lambda w, t: w.add_image_with_boxes("i", t(PICTURES)[0].repeat(1, 8, 8), t(np.array([[2.0, 3, 9, 9]])), 1),
    "text": lambda w, t: w.add_text("t", "**hello**", 1),
    "audio": lambda w, t: w.add_audio("a", t(VALUES) / 4, 1, 8000),
    "pr_curve": lambda w, t: w.add_pr_curve("p", t(VALUES > 0), t(np.tanh(VALUES) / 2 + 0.5), 1, 7),
    "pr_curve_weights": lambda w, t: w.add_pr_curve(
        "p", t(VALUES > 0), t(PICTURES.ravel()[:100]), 1, weights=np.abs(VALUES)
    ),
    "mesh": lambda w, t: w.add_mesh("m", t(PICTURE[:1, :, :3]), faces=t(np.array([[[0, 1, 2]]])), global_step=1),
    "custom_scalars": lambda w, t: w.add_custom_scalars(
        {"c": {"x": ["Multiline", ["a", "b"]], "y": ["Margin", ["a", "b", "c"]]}}
    ),
    "hparams": lambda w, t: w.add_hparams(
        {"lr": 0.1, "n": 3, "name": "x", "on": True}, {"acc": 0.5}, {"n": [1, 3]}, "run", 4
    ),
    "embedding": lambda w, t: w.add_embedding(t(VALUES).reshape(10, 10), list("abcdefghij"), t(PICTURES[:10]), 2, "e"),
    "embedding_header": lambda w, t: w.add_embedding(
        t(VALUES[:4]).reshape(2, 2), [["a", 1], ["b", 2]], metadata_header=["x", "y"]
    ),
}  # fmt: skip


def written(folder: Path) -> dict:
    """By file: its messages, or its bytes."""
    from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
    from tensorboard.compat.proto import event_pb2
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    found: dict = {}
    for path in sorted(folder.rglob("*")):
        place = str(path.relative_to(folder).parent)
        if "tfevents" not in path.name:
            found[f"{place}/{path.name}"] = path.read_bytes() if path.is_file() else None
            continue
        for raw in RawEventFileLoader(str(path)).Load():
            event = event_pb2.Event.FromString(raw)
            event.ClearField("wall_time")
            event.ClearField("source_metadata")
            for value in event.summary.value:  # a map in it has no order
                plugin = value.metadata.plugin_data
                if plugin.plugin_name == "hparams":
                    found.setdefault(place, []).append(HParamsPluginData.FromString(plugin.content))
                    plugin.content = b""
            found.setdefault(place, []).append(event)
    return found


@pytest.mark.parametrize("name", CALLS)
def test_files_are_pytorchs(name: str, tmp_path: Path) -> None:
    for m in (nt, torch):
        from_numpy = m.from_numpy
        with m.utils.tensorboard.SummaryWriter(tmp_path / m.__name__) as writer:
            CALLS[name](writer, from_numpy)
    mine, theirs = (written(tmp_path / m.__name__) for m in (nt, torch))
    assert mine == theirs and sum(len(each or "") for each in mine.values()) > 1


def test_figures_and_purged_steps(tmp_path: Path) -> None:
    plots = pytest.importorskip("matplotlib.figure")
    for m in (nt, torch):
        with m.utils.tensorboard.SummaryWriter(tmp_path / m.__name__, purge_step=3) as writer:
            figures = [plots.Figure(figsize=(1, 1), dpi=30) for _ in range(2)]
            for figure in figures:
                figure.subplots().plot([1, 2, 1])
            writer.add_figure("one", figures[0], 1, close=False)
            writer.add_figure("two", figures, 2, close=False)
            assert str(writer.get_logdir()) == str(tmp_path / m.__name__)
    mine, theirs = (written(tmp_path / m.__name__) for m in (nt, torch))
    assert mine == theirs


def test_graphs(tmp_path: Path) -> None:
    from tensorboard.compat.proto.graph_pb2 import GraphDef

    model = nt.nn.Sequential(nt.nn.Linear(3, 4), nt.nn.ReLU(), nt.nn.Linear(4, 2))
    with nt.utils.tensorboard.SummaryWriter(tmp_path) as writer:
        writer.add_graph(model, nt.ones(5, 3))
    (event,) = (event for event in written(tmp_path)["."] if event.graph_def)
    nodes = GraphDef.FromString(event.graph_def).node
    assert [node.op for node in nodes].count("aten.addmm.default") == 2 and "aten.relu.default" in {n.op for n in nodes}
    (relu,) = (node for node in nodes if node.op == "aten.relu.default")
    assert [dim.size for dim in relu.attr["_output_shapes"].list.shape[0].dim] == [5, 4] and len(relu.input) == 1


def test_what_is_refused(tmp_path: Path) -> None:
    for m in (nt, torch):
        with m.utils.tensorboard.SummaryWriter(tmp_path / m.__name__) as writer:
            with pytest.raises(ValueError, match="see the document"):
                writer.add_histogram_raw("h", 0, 1, 1, 1, 1, [1], [1, 2])
            with pytest.raises(TypeError, match="should be dictionary"):
                writer.add_hparams([], {})
            with pytest.raises(NotImplementedError, match="numpy array or torch tensor are expected"):
                writer.add_histogram("h", {}, 1)
            with pytest.raises(AssertionError, match="size of input tensor and input format are different"):
                writer.add_image("i", m.ones(3, 3))
            with pytest.raises(AssertionError, match="#labels should equal with #data points"):
                writer.add_embedding(m.ones(2, 2), ["a"])
    with nt.utils.tensorboard.SummaryWriter(tmp_path) as writer, pytest.raises(NotImplementedError, match="films"):
        writer.add_video("v", nt.ones(1, 2, 3, 4, 4))
