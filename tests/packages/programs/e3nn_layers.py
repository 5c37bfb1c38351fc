"""e3nn: irreducible representations, tensor products, spherical harmonics; turning the input turns the output."""
import torch
from e3nn import o3
from e3nn.nn import BatchNorm, FullyConnectedNet, Gate

torch.manual_seed(0)
x = torch.randn(5, 3)
sh = o3.spherical_harmonics("0e+1o+2e+3o", x, normalize=True, normalization="component")
print(sh.shape, f"{sh.sum().item():.5f}")
irreps = o3.Irreps("4x0e+3x1o+2x2e")
linear = o3.Linear(irreps, irreps)
product = o3.FullyConnectedTensorProduct(irreps, o3.Irreps("0e+1o"), irreps)
v = irreps.randn(5, -1)
y = o3.spherical_harmonics("0e+1o", x, normalize=True)
out = product(linear(v), y)
out.square().sum().backward()
print(out.shape, f"{out.sum().item():.5f}", f"{product.weight.grad.sum().item():.5f}")
rotation = o3.rand_matrix()
a = product(linear(v @ irreps.D_from_matrix(rotation).T), y @ o3.Irreps("0e+1o").D_from_matrix(rotation).T)
b = out @ irreps.D_from_matrix(rotation).T
print(bool(torch.allclose(a, b, atol=1e-4)))
print(f"{o3.wigner_3j(1, 1, 2).abs().sum().item():.5f}", f"{BatchNorm(irreps)(v).sum().item():.5f}")
gate = Gate("4x0e", [torch.tanh], "3x0e", [torch.sigmoid], "3x1o")
print(f"{gate(gate.irreps_in.randn(5, -1)).sum().item():.5f}")
mlp = FullyConnectedNet([3, 8, 4], torch.nn.functional.silu)
print(f"{mlp(x).sum().item():.5f}")
