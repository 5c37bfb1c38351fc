"""geoopt: manifolds, their tensors and Riemannian optimizers."""
import geoopt
import torch

torch.manual_seed(0)
manifolds = (
    (geoopt.Sphere(), (5,)), (geoopt.PoincareBall(), (4,)), (geoopt.Stiefel(), (5, 3)),
    (geoopt.SymmetricPositiveDefinite(), (3, 3)),
)  # fmt: skip
for manifold, shape in manifolds:
    x = manifold.random(*shape)
    u = manifold.proju(x, torch.randn(shape) * 0.1)
    y = manifold.retr(x, u)
    length = manifold.inner(x, u, u).sum().item()
    print(type(manifold).__name__, f"{x.sum().item():.5f} {length:.6f} {y.sum().item():.5f}")
    try:
        print(f"  {manifold.dist(x, y).sum().item():.6f}")
    except NotImplementedError:
        print("  no distance")
goal = torch.nn.functional.normalize(torch.randn(5, dtype=torch.float64), dim=0)
kinds = ((geoopt.optim.RiemannianSGD, {"lr": 0.1, "momentum": 0.9}), (geoopt.optim.RiemannianAdam, {"lr": 0.05}))
for kind, options in kinds:
    torch.manual_seed(1)
    start = torch.nn.functional.normalize(torch.randn(5, dtype=torch.float64), dim=0)
    point = geoopt.ManifoldParameter(start, manifold=geoopt.Sphere())
    optimizer = kind([point], **options)
    for _ in range(20):
        loss = (point - goal).square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(kind.__name__, f"{loss.item():.6f} {point.norm().item():.6f}")
