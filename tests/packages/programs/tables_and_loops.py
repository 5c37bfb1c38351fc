"""rtdl's networks for tables, loralib, pytorch_warmup, fast_pytorch_kmeans and torch_lr_finder."""

import loralib
import pytorch_warmup
import torch
from fast_pytorch_kmeans import KMeans
from rtdl_num_embeddings import PeriodicEmbeddings, PiecewiseLinearEmbeddings, compute_bins
from rtdl_revisiting_models import MLP, FTTransformer, ResNet
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch_lr_finder import LRFinder

torch.manual_seed(0)
numbers, kinds, wanted = (
    torch.randn(32, 4),
    torch.stack([torch.randint(0, k, (32,)) for k in (3, 5)], 1),
    torch.randn(32, 1),
)
transformer = FTTransformer(n_cont_features=4, cat_cardinalities=[3, 5], d_out=1, **FTTransformer.get_default_kwargs())
resnet = ResNet(
    d_in=4, d_out=1, n_blocks=2, d_block=16, d_hidden=None, d_hidden_multiplier=2.0, dropout1=0.1, dropout2=0.0
)
mlp = nn.Sequential(
    PeriodicEmbeddings(4, 8, lite=False), nn.Flatten(), MLP(d_in=32, d_out=1, n_blocks=2, d_block=16, dropout=0.1)
)
pieces = nn.Sequential(
    PiecewiseLinearEmbeddings(compute_bins(numbers, n_bins=6), 8, activation=False, version="B"),
    nn.Flatten(),
    nn.Linear(32, 1),
)
low = nn.Sequential(loralib.Linear(4, 16, r=2, lora_alpha=4), nn.ReLU(), loralib.Linear(16, 1, r=2))
loralib.mark_only_lora_as_trainable(low)
for name, net, call in (
    ("transformer", transformer, lambda: transformer(numbers, kinds)),
    ("resnet", resnet, lambda: resnet(numbers)),
    ("mlp", mlp, lambda: mlp(numbers)),
    ("pieces", pieces, lambda: pieces(numbers)),
    ("low rank", low, lambda: low(numbers)),
):
    groups = net.make_parameter_groups() if name == "transformer" else [p for p in net.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(groups, lr=1e-2, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=5)
    warmup = pytorch_warmup.UntunedLinearWarmup(optimizer)
    for _ in range(4):
        loss = (call() - wanted).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with warmup.dampening():
            schedule.step()
        print(name, loss.item(), optimizer.param_groups[0]["lr"])
low.eval()
print(low(numbers).double().sum().item(), sorted(loralib.lora_state_dict(low)))
means = KMeans(n_clusters=3, mode="euclidean", init_method="random")
print(means.fit_predict(numbers).tolist(), means.centroids.double().sum().item())
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
finder = LRFinder(net, torch.optim.SGD(net.parameters(), 1e-4), nn.MSELoss(), device="cpu")
finder.range_test(DataLoader(TensorDataset(numbers, wanted), 8), end_lr=1, num_iter=10)
print(finder.history)
