"""gluonts: DeepAR, a feed-forward and a transformer-like model of its torch part: losses, gradients, samples."""
import numpy as np
import torch
from gluonts.torch.distributions import NegativeBinomialOutput, NormalOutput, StudentTOutput
from gluonts.torch.model.deepar.module import DeepARModel
from gluonts.torch.model.simple_feedforward.module import SimpleFeedForwardModel
from gluonts.torch.model.tft.module import TemporalFusionTransformerModel

torch.manual_seed(0)
for output in (StudentTOutput(), NormalOutput(), NegativeBinomialOutput()):
    net = SimpleFeedForwardModel(4, context_length=12, hidden_dimensions=[16, 16], distr_output=output)
    past = torch.rand(8, 12) * 4
    (args, loc, scale) = net(past)
    target = torch.randint(0, 5, (8, 4)).float()
    loss = -net.distr_output.distribution(args, loc=loc, scale=scale).log_prob(target).mean()
    loss.backward()
    print(type(output).__name__, loss.item(), sum(p.grad.double().abs().sum().item() for p in net.parameters()))
net = DeepARModel(freq="D", context_length=8, prediction_length=4, num_feat_dynamic_real=1, num_feat_static_real=1,
                  num_feat_static_cat=1, cardinality=[3], hidden_size=8, lags_seq=[1, 2, 3], dropout_rate=0.1)
past = net._past_length
inputs = {
    "feat_static_cat": torch.tensor([[0], [1], [2]]), "feat_static_real": torch.randn(3, 1),
    "past_time_feat": torch.randn(3, past, 1), "past_target": torch.randn(3, past),
    "past_observed_values": torch.ones(3, past), "future_time_feat": torch.randn(3, 4, 1),
}
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
future = torch.randn(3, 4)
for _ in range(3):
    loss = net.loss(**inputs, future_target=future, future_observed_values=torch.ones(3, 4)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
net.eval()
print(net(**inputs, num_parallel_samples=5).mean(1).tolist())
tft = TemporalFusionTransformerModel(
    context_length=8, prediction_length=4, d_feat_static_real=[1], c_feat_static_cat=[3], d_feat_dynamic_real=[2],
    d_hidden=8, d_var=8, num_heads=2,
)  # fmt: skip
rows, category = torch.randn(3, 8), torch.tensor([[0], [1], [2]])
found = tft(rows, torch.ones(3, 8), torch.randn(3, 1), category, torch.randn(3, 12, 2))
print([round(float(np.sum(part.detach().numpy() ** 2)), 4) for part in (*found[0], *found[1:])])
