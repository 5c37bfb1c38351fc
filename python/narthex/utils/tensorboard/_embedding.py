"""The files that TensorBoard's projector reads: points, labels, one picture of small images, and a list of all."""

from __future__ import annotations

import math
import os

import numpy as np

from .summary import _bytes_of, _grid, make_np


def _sprite(images: np.ndarray, path: str) -> None:
    from PIL import Image

    side = math.ceil(math.sqrt(len(images)))
    images = np.concatenate([images, np.zeros((side**2 - len(images), *images.shape[1:]), images.dtype)])
    Image.fromarray(_bytes_of(_grid(images.transpose(0, 2, 3, 1), side))).save(path)


def write_points(folder: str, mat: np.ndarray, metadata, label_img, global_step, tag: str, header) -> None:
    """See SummaryWriter.add_embedding()."""
    from google.protobuf import text_format
    from tensorboard.plugins.projector.projector_config_pb2 import EmbeddingInfo

    if mat.ndim != 2:
        raise AssertionError("mat should be 2D, where mat.size(0) is the number of data points")
    step = f"{global_step or 0:05d}"
    place = os.path.join(step, tag.replace("/", "%%").replace("\\", "%%"))
    target = os.path.join(folder, place)
    os.makedirs(target, exist_ok=True)
    info = EmbeddingInfo(tensor_name=f"{tag}:{step}", tensor_path=os.path.join(place, "tensors.tsv"))
    if metadata is not None:
        if len(metadata) != len(mat):
            raise AssertionError("#labels should equal with #data points")
        lines = [header, *metadata] if header else metadata
        rows = ["\t".join(map(str, line)) if header else str(line) for line in lines]
        with open(os.path.join(target, "metadata.tsv"), "w", encoding="utf8") as file:
            file.write("\n".join(rows) + "\n")
        info.metadata_path = os.path.join(place, "metadata.tsv")
    if label_img is not None:
        images = make_np(label_img)
        if len(images) != len(mat):
            raise AssertionError("#images should equal with #data points")
        _sprite(images, os.path.join(target, "sprite.png"))
        info.sprite.image_path = os.path.join(place, "sprite.png")
        info.sprite.single_image_dim.extend([images.shape[3], images.shape[2]])
    with open(os.path.join(target, "tensors.tsv"), "w", encoding="utf8") as file:
        file.writelines("\t".join(str(value) for value in row) + "\n" for row in mat.tolist())
    entry = text_format.MessageToString(info)
    with open(os.path.join(folder, "projector_config.pbtxt"), "a", encoding="utf8") as file:
        file.write("embeddings {\n" + "".join(f"  {line}\n" for line in entry.splitlines()) + "}\n")
