"""tensordict: dicts of tensors that are indexed, stacked, moved and mapped as one, and modules over them."""

import torch
from tensordict import LazyStackedTensorDict, TensorDict, tensorclass
from tensordict.nn import (
    InteractionType,
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
    TensorDictModule,
    TensorDictSequential,
    set_interaction_type,
)
from torch import nn

torch.manual_seed(0)
data = TensorDict({"a": torch.randn(4, 3), "in": {"b": torch.randn(4, 2, 2)}}, batch_size=[4])
print(data)
print(
    data[1:3]["in", "b"].double().sum().item(), torch.stack([data, data], 1).shape, torch.cat([data, data])["a"].shape
)
data["c"] = data["a"].sum(1)
print(sorted(data.keys(include_nested=True), key=str), data.apply(lambda x: x * 2)["c"].tolist(), data.view(2, 2).shape)
flat = data.flatten_keys(".")
print(
    sorted(flat.keys()),
    (data + 1)["a"].double().sum().item(),
    data.split(2)[1]["c"].tolist(),
    data.exclude("c").select("a").is_empty(),
)
lazy = LazyStackedTensorDict(*data.unbind(0), stack_dim=0)
print(lazy.shape, lazy["a"].double().sum().item(), data.permute(0).shape, data.unsqueeze(0).expand(3, 4)["a"].shape)


@tensorclass
class Seen:
    image: torch.Tensor
    label: torch.Tensor


seen = Seen(image=torch.rand(3, 2, 2), label=torch.arange(3), batch_size=[3])
print(seen[1].label.item(), seen.reshape(3, 1).image.shape, torch.stack([seen, seen]).label.tolist())
first = TensorDictModule(nn.Linear(3, 4), in_keys=["a"], out_keys=["h"])
second = TensorDictModule(nn.Linear(4, 2), in_keys=["h"], out_keys=["logits"])
net = TensorDictSequential(first, second)
optimizer = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(3):
    loss = net(data.clone())["logits"].square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
params = TensorDict.from_module(net)
with params.data.zero_().to_module(net):
    print(net(data.clone())["logits"].abs().sum().item())
policy = ProbabilisticTensorDictSequential(
    TensorDictModule(nn.Linear(3, 2), in_keys=["a"], out_keys=["logits"]),
    ProbabilisticTensorDictModule(
        in_keys=["logits"],
        out_keys=["action"],
        distribution_class=torch.distributions.Categorical,
        return_log_prob=True,
    ),
)
with set_interaction_type(InteractionType.RANDOM):
    out = policy(data.clone())
print(out["action"].tolist(), [k for k in out.keys() if "log_prob" in str(k)])
nets = [nn.Linear(3, 2) for _ in range(3)]
stacked = TensorDict.from_modules(*nets, as_module=True)
base = nn.Linear(3, 2, device="meta")


def call(x, p):
    with p.to_module(base):
        return base(x)


print(torch.vmap(call, (None, 0))(data["a"], stacked).double().sum().item())
