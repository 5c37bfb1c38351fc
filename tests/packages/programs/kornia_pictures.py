"""kornia: filters, colours, geometry with gradients, augmentations, features and losses of pictures."""

import warnings

import torch

warnings.simplefilter("ignore")
import kornia as K  # noqa: E402
import kornia.augmentation as A  # noqa: E402


def total(x) -> str:
    return f"{x.detach().double().abs().sum().item():.5e}"


torch.manual_seed(0)
x = torch.rand(2, 3, 24, 32, requires_grad=True)
for name, made in {
    "blur": K.filters.gaussian_blur2d(x, (5, 5), (1.5, 1.5)), "sobel": K.filters.sobel(x),
    "median": K.filters.median_blur(x, (3, 3)), "bilateral": K.filters.bilateral_blur(x, (5, 5), 0.1, (1.5, 1.5)),
    "laplacian": K.filters.laplacian(x, 3), "lab": K.color.rgb_to_lab(x), "hsv": K.color.rgb_to_hsv(x),
    "equal": K.enhance.equalize_clahe(x.detach()), "sharp": K.enhance.sharpness(x, 0.5),
    "turned": K.geometry.rotate(x, torch.tensor([20.0, -35.0])), "scaled": K.geometry.resize(x, (12, 20)),
    "pyramid": K.geometry.pyrdown(x), "dilated": K.morphology.dilation(x, torch.ones(3, 3)),
}.items():  # fmt: skip
    print(name, tuple(made.shape), total(made))
    if made.requires_grad:
        x.grad = None
        made.square().sum().backward()
        print("  gradient", total(x.grad))
there = torch.tensor([[[0.0, 0], [31, 2], [29, 23], [1, 20]]]).repeat(2, 1, 1)
here = torch.tensor([[[0.0, 0], [31, 0], [31, 23], [0, 23]]]).repeat(2, 1, 1)
homography = K.geometry.get_perspective_transform(here, there)
print("warp", total(homography), total(K.geometry.warp_perspective(x, homography, (24, 32))))
axis = torch.tensor([[0.1, 0.5, -0.3]])
turn = K.geometry.axis_angle_to_rotation_matrix(axis)
print("rotation", total(turn), K.geometry.rotation_matrix_to_axis_angle(turn).tolist())
steps = A.AugmentationSequential(
    A.RandomHorizontalFlip(p=1.0), A.RandomAffine(15.0, p=1.0), A.ColorJiggle(0.1, 0.1, 0.1, 0.1, p=1.0),
    A.RandomErasing(p=1.0), data_keys=["input", "mask"],
)  # fmt: skip
torch.manual_seed(4)
print("augmented", *(total(made) for made in steps(x.detach(), (x.detach()[:, :1] > 0.5).float())))
print("corners", total(K.feature.harris_response(x.detach())), total(K.feature.gftt_response(x.detach())))
torch.manual_seed(5)
print("descriptor", total(K.feature.SIFTDescriptor(32)(torch.rand(4, 1, 32, 32))))
print("losses", K.losses.ssim_loss(x, x.flip(0), 5).item(), K.losses.total_variation(x).tolist(),
      K.losses.focal_loss(torch.randn(2, 3, 4, 5), torch.randint(0, 3, (2, 4, 5)), 0.5, reduction="mean").item(),
      K.losses.dice_loss(torch.randn(2, 3, 4, 5), torch.randint(0, 3, (2, 4, 5))).item())  # fmt: skip
