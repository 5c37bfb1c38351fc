"""fairscale: a checkpointed part with dropout, parameters in one flat tensor."""
import torch
from fairscale.nn import FlattenParamsWrapper, checkpoint_wrapper

torch.manual_seed(0)
part = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.2), torch.nn.ReLU())
net = torch.nn.Sequential(checkpoint_wrapper(part), FlattenParamsWrapper(torch.nn.Linear(8, 2)))
optimizer = torch.optim.SGD(net.parameters(), 0.1)
x = torch.randn(8, 4)
for _ in range(3):
    loss = net(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
print(net[1].flat_param.tolist()[:3], sorted(net.state_dict()))
