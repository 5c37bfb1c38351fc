"""normflows: densities by flows of several kinds, trained and drawn from."""

import normflows as nf
import torch


def affine() -> list:
    net = nf.nets.MLP([1, 16, 16, 2], init_zeros=False)
    return [nf.flows.AffineCouplingBlock(net), nf.flows.Permute(2, mode="swap"), nf.flows.ActNorm(2)]


KINDS = {
    "affine": affine,
    "spline": lambda: [nf.flows.AutoregressiveRationalQuadraticSpline(2, 1, 16), nf.flows.LULinearPermute(2)],
    "coupling": lambda: [nf.flows.CoupledRationalQuadraticSpline(2, 1, 16), nf.flows.LULinearPermute(2)],
    "masked": lambda: [nf.flows.MaskedAffineAutoregressive(2, 16, num_blocks=2), nf.flows.Permute(2)],
    "invertible": lambda: [nf.flows.InvertibleAffine(2), nf.flows.AffineConstFlow((2,))],
    "planar": lambda: [nf.flows.Planar((2,)), nf.flows.Radial((2,))],
}
for name, make in KINDS.items():
    torch.manual_seed(0)
    flows = [*make(), *make()]
    base = nf.distributions.base.DiagGaussian(2, trainable=False)
    model, x = nf.NormalizingFlow(base, flows, nf.distributions.TwoMoons()), torch.randn(32, 2)
    optimizer = torch.optim.SGD(model.parameters(), 1e-2)
    for _ in range(3):
        loss = model.reverse_kld(32) if name == "planar" else model.forward_kld(x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(name, f"{loss.item():.5f}")
    drawn, logs = model.sample(4)
    print(f"  {drawn.abs().sum().item():.4f} {logs.abs().sum().item():.4f}")
