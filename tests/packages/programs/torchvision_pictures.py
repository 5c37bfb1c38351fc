"""torchvision without its library of C++, which does not load beside a PyTorch for CPUs: networks, transforms, boxes,
features. The names of two operators are what its import asks for."""

import warnings

import torch

warnings.simplefilter("ignore")
library = torch.library.Library("torchvision", "DEF")
for name in ("nms", "qnms"):
    library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
import PIL.Image  # noqa: E402
from torchvision import models, ops, tv_tensors, utils  # noqa: E402
from torchvision.models.feature_extraction import create_feature_extractor  # noqa: E402
from torchvision.transforms import v2  # noqa: E402


def total(x) -> float:
    return x.detach().double().abs().sum().item()


for name in ("resnet18", "mobilenet_v3_small", "squeezenet1_1", "shufflenet_v2_x0_5", "regnet_y_400mf", "swin_t",
             "convnext_tiny", "maxvit_t", "alexnet"):  # fmt: skip
    torch.manual_seed(0)
    model = models.get_model(name, weights=None).eval()
    result = model(torch.randn(1, 3, 224, 224))
    result.square().mean().backward()
    slopes = sum(total(p.grad) for p in model.parameters() if p.grad is not None)
    print(name, tuple(result.shape), f"{total(result):.5e} {slopes:.4e}")
with torch.no_grad():
    torch.manual_seed(0)
    places = models.get_model("lraspp_mobilenet_v3_large", weights=None, weights_backbone=None).eval()
    print("segmentation", f"{total(places(torch.randn(1, 3, 96, 96))['out']):.5e}")
    video = models.video.r3d_18(weights=None).eval()
    print("video", f"{total(video(torch.randn(1, 3, 4, 32, 32))):.5e}")
    parts = create_feature_extractor(models.resnet18(weights=None).eval(), {"layer1": "a", "layer4": "b"})
    print({key: (tuple(x.shape), f"{total(x):.4e}") for key, x in parts(torch.randn(1, 3, 64, 64)).items()})

image = torch.randint(0, 256, (3, 40, 50), dtype=torch.uint8)
boxes = tv_tensors.BoundingBoxes([[1, 2, 20, 30], [5, 5, 10, 10]], format="XYXY", canvas_size=(40, 50))
mask = tv_tensors.Mask(torch.arange(2000).view(1, 40, 50) % 2)
for transform in (
    v2.RandomResizedCrop(24, antialias=True), v2.RandomHorizontalFlip(1), v2.ColorJitter(0.3, 0.3, 0.3, 0.1),
    v2.RandomRotation(30), v2.RandomAffine(10, (0.1, 0.1), (0.8, 1.2), 5), v2.RandomPerspective(p=1),
    v2.GaussianBlur(5), v2.RandomErasing(p=1), v2.Resize((20, 30)), v2.Pad(3), v2.CenterCrop(20), v2.RandomInvert(1),
    v2.RandomPosterize(3, p=1), v2.RandomAutocontrast(1), v2.RandomEqualize(1), v2.RandomAdjustSharpness(2, p=1),
    v2.ElasticTransform(), v2.Grayscale(), v2.RandomPhotometricDistort(p=1), v2.RandomZoomOut(p=1), v2.RandomIoUCrop(),
    v2.ScaleJitter((30, 30)), v2.Compose([v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.5] * 3, [0.2] * 3)]),
):  # fmt: skip
    torch.manual_seed(1)
    picture, frames, of_mask = transform(tv_tensors.Image(image), boxes, mask)
    print(type(transform).__name__, type(picture).__name__, tuple(picture.shape), f"{total(picture):.5e}",
          type(frames).__name__, frames.tolist(), of_mask.sum().item())  # fmt: skip
for transform in (v2.RandAugment(), v2.TrivialAugmentWide(), v2.AugMix()):
    torch.manual_seed(2)
    print(type(transform).__name__, total(transform(image)))
frames = torch.tensor([[0.0, 0, 10, 10], [1, 1, 11, 11], [20, 20, 30, 30]])
print(ops.box_iou(frames, frames).tolist(), ops.generalized_box_iou(frames, frames).tolist())
print(ops.sigmoid_focal_loss(torch.randn(4), torch.ones(4)).tolist())
print(utils.make_grid(torch.rand(5, 3, 8, 8)).sum().item(), utils.draw_bounding_boxes(image, boxes[:1]).sum().item())
try:
    ops.nms(frames, torch.tensor([0.9, 0.8, 0.7]), 0.5)
except RuntimeError as error:
    print(str(error)[:32])
picture = PIL.Image.fromarray(image.permute(1, 2, 0).numpy())
print(v2.Compose([v2.Resize(16), v2.ToImage(), v2.ToDtype(torch.float32, scale=True)])(picture).sum().item())
