"""torch_optimizer: twenty-three optimizers of years ago, three steps each."""

import warnings

import torch
import torch_optimizer

warnings.simplefilter("ignore")
NAMES = (
    "A2GradUni AccSGD AdaBelief AdaBound AdaMod Adafactor Adahessian AdamP AggMo Apollo DiffGrad Lamb MADGRAD NovoGrad "
    "PID QHAdam RAdam Ranger SGDP SGDW SWATS Shampoo Yogi"
)
for name in NAMES.split():
    torch.manual_seed(0)
    layer = torch.nn.Linear(4, 3)
    optimizer = getattr(torch_optimizer, name)(layer.parameters(), lr=1e-2)
    for _ in range(3):
        loss = (layer(torch.ones(5, 4)) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward(create_graph=name == "Adahessian")
        optimizer.step()
    print(name, f"{loss.item():.5f}")
