"""deepxde with its PyTorch backend: Poisson's equation learned by a network, by Adam and by L-BFGS."""

import os

os.environ["DDE_BACKEND"] = "pytorch"
import deepxde as dde
import numpy as np
import torch

dde.config.set_random_seed(0)


def residual(x, y):
    return dde.grad.hessian(y, x) + np.pi**2 * torch.sin(np.pi * x)


def solution(x):
    return np.sin(np.pi * x)


line = dde.geometry.Interval(-1, 1)
ends = dde.icbc.DirichletBC(line, solution, lambda _, on_boundary: on_boundary, 0)
data = dde.data.PDE(line, residual, ends, 16, 2, solution=solution, num_test=20)
model = dde.Model(data, dde.nn.FNN([1, 20, 20, 1], "tanh", "Glorot uniform"))
model.compile("adam", lr=1e-3, metrics=["l2 relative error"], verbose=0)
history, _ = model.train(iterations=20, display_every=10, verbose=0)
print([[float(f"{loss:.4f}") for loss in row] for row in history.loss_train])
dde.optimizers.set_LBFGS_options(maxiter=3)
model.compile("L-BFGS", verbose=0)
history, _ = model.train(display_every=1000, verbose=0)
print(f"{float(np.sum(history.loss_train[-1])):.2f}")
