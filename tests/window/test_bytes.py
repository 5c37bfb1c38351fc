"""Images of bytes are resized to PyTorch's bytes."""

from itertools import product

import narthex as nt
import pytest
import torch

SIZES = [
    ((2, 3, 40, 50), (20, 30)), ((1, 1, 17, 23), (40, 9)), ((1, 4, 12, 12), (30, 31)), ((2, 5, 33, 20), (7, 20)),
    ((1, 3, 9, 9), (9, 4)), ((1, 2, 1, 1), (3, 2)), ((1, 3, 5, 5), (5, 5)),
]  # fmt: skip
MODES = [("bilinear", True, False), ("bicubic", True, False), ("lanczos", True, False),
         ("bilinear", False, False), ("bicubic", False, False),
         ("bilinear", False, True), ("bicubic", False, True)]  # fmt: skip


@pytest.mark.parametrize(("mode", "antialias", "align"), MODES)
def test_resized_bytes_are_pytorchs(mode: str, antialias: bool, align: bool) -> None:
    for (shape, size), layout in product(SIZES, ("contiguous_format", "channels_last")):
        torch.manual_seed(0)
        made = torch.randint(0, 256, shape, dtype=torch.uint8)
        results = []
        for m, x in ((torch, made), (nt, nt.tensor(made.numpy()))):
            x = x.contiguous(memory_format=getattr(m, layout))
            results.append(m.nn.functional.interpolate(x, size, mode=mode, antialias=antialias, align_corners=align))
        assert results[1].tolist() == results[0].tolist(), (shape, size, layout)
        assert results[1].stride() == results[0].stride()


@pytest.mark.parametrize("factor", [0.37, 1.5, (0.5, 2.3)])
def test_by_a_factor(factor) -> None:
    made = torch.randint(0, 256, (1, 3, 31, 18), dtype=torch.uint8)
    for mode, antialias, recompute in product(("bilinear", "bicubic"), (True, False), (True, False)):
        options = {"scale_factor": factor, "mode": mode, "antialias": antialias, "recompute_scale_factor": recompute}
        mine, theirs = (m.nn.functional.interpolate(x, **options) for m, x in
                        ((nt, nt.tensor(made.numpy())), (torch, made)))  # fmt: skip
        assert mine.tolist() == theirs.tolist(), options


def test_compiled_on_another_device_and_empty() -> None:
    x = nt.arange(240, dtype=nt.uint8).view(1, 3, 8, 10)
    resize = lambda x: nt.nn.functional.interpolate(x, (5, 4), mode="bilinear", antialias=True)  # noqa: E731
    assert nt.equal(nt.compile(resize, fullgraph=True)(x), resize(x))
    assert resize(x[:0]).shape == (0, 3, 5, 4) and resize(x.to("meta")).shape == (1, 3, 5, 4)
    for mode, image in (("linear", x[0]), ("trilinear", x[None])):
        for m in (nt, torch):
            given = image if m is nt else torch.tensor(image.numpy())
            with pytest.raises(NotImplementedError, match="not implemented for 'Byte'"):
                m.nn.functional.interpolate(given, 3, mode=mode)
