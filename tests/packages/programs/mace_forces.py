"""mace: energies and forces of a small random model over e3nn, whose layers are scripts; some steps of training."""
import warnings

import numpy as np
import torch
from e3nn import o3
from mace import data, modules, tools
from mace.tools import torch_geometric

warnings.filterwarnings("ignore")

torch.manual_seed(0)
torch.set_default_dtype(torch.float32)
table = tools.AtomicNumberTable([1, 8])
model = modules.ScaleShiftMACE(
    r_max=5.0, num_bessel=4, num_polynomial_cutoff=3, max_ell=2, num_interactions=2, num_elements=2,
    interaction_cls=modules.interaction_classes["RealAgnosticResidualInteractionBlock"],
    interaction_cls_first=modules.interaction_classes["RealAgnosticInteractionBlock"],
    hidden_irreps=o3.Irreps("8x0e + 8x1o"), MLP_irreps=o3.Irreps("8x0e"), gate=torch.nn.functional.silu,
    atomic_energies=np.array([-1.0, -3.0]), avg_num_neighbors=2, atomic_numbers=table.zs, correlation=2,
    atomic_inter_scale=1.0, atomic_inter_shift=0.0,
)
water = np.array([[0.0, -2.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.5]])
configs = [data.Configuration(atomic_numbers=np.array([8, 1, 1]), positions=water * k, properties={"energy": -1.5 * k},
                              property_weights={"energy": 1.0}) for k in (1.0, 1.1)]
batch = next(iter(torch_geometric.dataloader.DataLoader(
    [data.AtomicData.from_config(c, z_table=table, cutoff=3.0) for c in configs], batch_size=2, shuffle=False)))
found = model(batch.to_dict(), training=True)
print([f"{x:.4f}" for x in found["energy"].tolist()], [[f"{x:.4f}" for x in row] for row in found["forces"].tolist()])
optimizer = torch.optim.Adam(model.parameters(), 0.01, amsgrad=True)
for _ in range(3):
    optimizer.zero_grad()
    found = model(batch.to_dict(), training=True)
    loss = (found["energy"] - batch.energy).square().mean() + found["forces"].square().mean()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.4f}")
