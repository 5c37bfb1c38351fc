"""torch_geometric: graph layers, batches of graphs and a network for nodes trained on a small made graph."""
import torch
import torch.nn.functional as F
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import (
    GATConv,
    GCNConv,
    GINConv,
    GraphConv,
    MessagePassing,
    SAGEConv,
    TransformerConv,
    global_add_pool,
    global_max_pool,
    global_mean_pool,
)
from torch_geometric.utils import add_self_loops, degree, softmax, to_dense_adj, to_dense_batch

torch.manual_seed(0)
edges = torch.randint(0, 12, (2, 40))
x = torch.randn(12, 8)
layers = {
    "gcn": GCNConv(8, 6), "gat": GATConv(8, 3, heads=2), "sage": SAGEConv(8, 6), "graph": GraphConv(8, 6),
    "gin": GINConv(torch.nn.Linear(8, 6)), "transformer": TransformerConv(8, 3, heads=2),
}
for name, layer in layers.items():
    out = layer(x, edges)
    out.square().sum().backward()
    grads = sum(p.grad.abs().sum().item() for p in layer.parameters() if p.grad is not None)
    print(f"{name}: {out.shape} {out.sum().item():.5f} {grads:.4f}")


class Mine(MessagePassing):
    def __init__(self):
        super().__init__(aggr="max")
        self.linear = torch.nn.Linear(16, 5)

    def forward(self, x, edge_index):
        return self.propagate(edge_index, x=x)

    def message(self, x_i, x_j):
        return self.linear(torch.cat([x_i, x_j - x_i], -1))


print(f"edge: {Mine()(x, edges).sum().item():.5f}")
print(degree(edges[0], 12).tolist(), softmax(torch.ones(40), edges[1])[:4].tolist())
print(add_self_loops(edges)[0].shape, to_dense_adj(edges).sum().item())
graphs = [
    Data(x=torch.randn(n, 8), edge_index=torch.randint(0, n, (2, 2 * n)), y=torch.tensor([n % 2])) for n in (3, 5, 4)
]
batch = Batch.from_data_list(graphs)
for pool in (global_add_pool, global_mean_pool, global_max_pool):
    print(pool.__name__, f"{pool(batch.x, batch.batch).sum().item():.5f}")
print(to_dense_batch(batch.x, batch.batch)[0].shape)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two, self.head = GCNConv(8, 16), GATConv(16, 16), torch.nn.Linear(16, 2)

    def forward(self, data):
        h = F.relu(self.one(data.x, data.edge_index))
        h = F.elu(self.two(h, data.edge_index))
        return self.head(global_mean_pool(h, data.batch))


net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for _ in range(3):
    for part in DataLoader(graphs, batch_size=2):
        loss = F.cross_entropy(net(part), part.y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.5f}")
