"""torchkbnufft: Fourier transforms at places that are no grid, there and back, with gradients; torchquad: integrals."""

import torch
import torchkbnufft
from torchquad import VEGAS, Boole, MonteCarlo, Simpson, Trapezoid

torch.manual_seed(0)
there = torchkbnufft.KbNufft(im_size=(16, 16))
back = torchkbnufft.KbNufftAdjoint(im_size=(16, 16))
image = torch.randn(1, 1, 16, 16, dtype=torch.complex64, requires_grad=True)
places = (torch.rand(2, 60) - 0.5) * 6
data = there(image, places)
print(data.abs().double().sum().item(), back(data, places).abs().double().sum().item())
data.abs().square().sum().backward()
print(image.grad.abs().double().sum().item())
kernel = torchkbnufft.calc_toeplitz_kernel(places, (16, 16))
print(torchkbnufft.ToepNufft()(image, kernel).abs().double().sum().item())
density = torchkbnufft.calc_density_compensation_function(places, im_size=(16, 16), num_iterations=3)
print(density.double().abs().sum().item())


def f(x):
    return torch.sin(x[:, 0]) + torch.exp(x[:, 1])


for rule in (Trapezoid, Simpson, Boole):
    print(
        rule.__name__,
        rule().integrate(f, dim=2, N=25 * 25, integration_domain=[[0, 1], [-1, 1]], backend="torch").item(),
    )
for rule in (MonteCarlo, VEGAS):
    print(
        rule.__name__,
        rule().integrate(f, dim=2, N=2000, integration_domain=[[0, 1], [-1, 1]], seed=3, backend="torch").item(),
    )
