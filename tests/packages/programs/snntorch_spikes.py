"""snntorch: spiking neurons and a network trained through surrogate gradients."""
import snntorch as snn
import torch
from snntorch import functional as SF
from snntorch import spikegen, surrogate, utils

torch.manual_seed(0)
x = torch.rand(6, 10)
spikes = spikegen.rate(x, num_steps=8)
print(spikes.shape, spikes.sum().item(), spikegen.latency(x, num_steps=8, normalize=True, linear=True).sum().item())
neuron = snn.Leaky(beta=0.9)
mem = neuron.reset_mem()
for step in spikes:
    spk, mem = neuron(step, mem)
print(spk.sum().item(), f"{mem.sum().item():.5f}")
net = torch.nn.Sequential(
    torch.nn.Linear(10, 16), snn.Leaky(beta=0.9, init_hidden=True, spike_grad=surrogate.fast_sigmoid(slope=25)),
    torch.nn.Linear(16, 3), snn.Leaky(beta=0.9, init_hidden=True, output=True, spike_grad=surrogate.atan()))
optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
loss_fn = SF.ce_rate_loss()
targets = torch.tensor([0, 1, 2, 0, 1, 2])
for _ in range(4):
    utils.reset(net)
    out = torch.stack([net(step)[0] for step in spikes])
    loss = loss_fn(out, targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.5f} {SF.accuracy_rate(out, targets):.3f}")
