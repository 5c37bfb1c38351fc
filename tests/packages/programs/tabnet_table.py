"""pytorch_tabnet: attention over the columns of a table, trained. In float64: the net magnifies last places."""
import torch
from pytorch_tabnet.tab_network import TabNet

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
x = torch.randn(32, 6)
y = x[:, :1] * 2 + x[:, 1:2]
sizes = {"n_d": 4, "n_a": 4, "n_steps": 3, "virtual_batch_size": 8, "group_attention_matrix": torch.eye(6)}
for mask in ("sparsemax", "entmax"):
    net = TabNet(6, 1, cat_idxs=[], cat_dims=[], mask_type=mask, **sizes)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    for _ in range(4):
        found, sparsity = net(x)
        loss = (found - y).square().mean() - 1e-3 * sparsity
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        print(mask, loss.item(), sparsity.item(), norm.item())
    net.eval()
    explained, masks = net.forward_masks(x)
    print(explained.sum(0).tolist(), masks[2].sum(0).tolist(), net(x)[0].sum().item())
