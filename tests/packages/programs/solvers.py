"""torchode, torchcde, xitorch and pytorch-minimize: equations of motion, roots, eigenvectors and least values."""
import torch
import torchcde
import torchode
import xitorch.integrate
import xitorch.interpolate
import xitorch.linalg
import xitorch.optimize
from torchmin import least_squares, minimize


def total(*tensors) -> float:
    return sum(t.detach().double().abs().sum().item() for t in tensors)


class Field(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 12)

    def forward(self, t, z):
        return self.layer(z).tanh().view(*z.shape[:-1], 4, 3)


torch.manual_seed(3)
torch.set_default_dtype(torch.float64)  # steps that adapt themselves repeat only what has no rounding to speak of
points = torch.randn(2, 10, 3)
path = torchcde.CubicSpline(torchcde.hermite_cubic_coefficients_with_backward_differences(points))
print(total(path.evaluate(torch.tensor(0.3)), path.derivative(torch.tensor(0.4))))
print(total(torchcde.natural_cubic_coeffs(points)))
for adjoint in (False, True):
    field = Field()
    z = torchcde.cdeint(X=path, func=field, z0=torch.zeros(2, 4), t=path.interval, adjoint=adjoint)
    z.square().sum().backward()
    print(total(z), total(*(p.grad for p in field.parameters())))
times = torch.stack((torch.linspace(0, 5, 10), torch.linspace(3, 4, 10)))
problem = torchode.InitialValueProblem(y0=torch.tensor([[1.2], [5.0]]), t_eval=times)
term = torchode.ODETerm(lambda t, y: -0.5 * y)
controller = torchode.IntegralController(atol=1e-6, rtol=1e-3, term=term)
solver = torchode.AutoDiffAdjoint(torchode.Dopri5(term=term), controller)
for solve in (solver.solve, torch.compile(solver, backend="eager").solve):
    solution = solve(problem)
    print({name: n.tolist() for name, n in solution.stats.items()}, total(solution.ys))
a = torch.randn(5, 5)
a = (a @ a.T + 5 * torch.eye(5)).requires_grad_()
operator = xitorch.LinearOperator.m(a, is_hermitian=True)
for method in ("exacteig", "davidson"):
    a.grad = None
    values, vectors = xitorch.linalg.symeig(operator, neig=2, method=method)
    values.sum().backward()
    print(method, total(values, vectors, a.grad))
a.grad = None
found = xitorch.linalg.solve(operator, torch.ones(5, 2), method="cg")
found.sum().backward()
print("cg", total(found, a.grad))
a.grad = None
root = xitorch.optimize.rootfinder(lambda y, a: a @ y.tanh() + 0.1 * y - 1, torch.zeros(5, 1), (a,), method="broyden1")
root.sum().backward()
print("broyden1", total(root, a.grad))
rate = torch.tensor(0.5, requires_grad=True)
given = (torch.linspace(0, 1, 4), torch.ones(2), (rate,))
ends = xitorch.integrate.solve_ivp(lambda t, y, a: -a * y, *given, method="rk45")
ends.sum().backward()
print("rk45", total(ends, rate.grad))
print("quad", xitorch.integrate.quad(lambda x, a: torch.exp(-a * x), 0.0, 1.0, params=(rate,)).item())


def valley(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


for method in ("bfgs", "l-bfgs", "cg", "newton-cg", "newton-exact", "trust-ncg", "trust-exact"):
    result = minimize(valley, torch.tensor([1.0, 8.0]), method=method, max_iter=20)
    print(method, result.fun.item(), result.nit)
result = least_squares(lambda x: torch.stack([10 * (x[1] - x[0] ** 2), 1 - x[0]]), torch.tensor([1.0, 8.0]))
print(total(result.x))
