"""pytorch_forecasting: a frame of series as a data set; a temporal fusion transformer, N-BEATS and DeepAR on it."""
import warnings

import numpy as np
import pandas as pd
import torch
from pytorch_forecasting import DeepAR, NBeats, TemporalFusionTransformer, TimeSeriesDataSet
from pytorch_forecasting.metrics import QuantileLoss

warnings.filterwarnings("ignore")
torch.manual_seed(0)
np.random.seed(0)
length = 40
frame = pd.concat([
    pd.DataFrame({"time": np.arange(length), "group": str(g), "value": np.sin(np.arange(length) / 3 + g) + g,
                  "seen": np.cos(np.arange(length) / 3)})
    for g in range(3)
], ignore_index=True)
common = {"time_idx": "time", "target": "value", "group_ids": ["group"], "max_encoder_length": 12,
          "min_encoder_length": 12, "max_prediction_length": 4}
rich = TimeSeriesDataSet(frame, static_categoricals=["group"], time_varying_known_reals=["time", "seen"],
                         time_varying_unknown_reals=["value"], add_relative_time_idx=True, **common)
plain = TimeSeriesDataSet(frame, time_varying_unknown_reals=["value"], **common)
models = {
    "tft": (rich, TemporalFusionTransformer.from_dataset(rich, hidden_size=8, attention_head_size=2, dropout=0.1,
                                                         hidden_continuous_size=4, loss=QuantileLoss())),
    "nbeats": (plain, NBeats.from_dataset(plain, widths=[16, 32], backcast_loss_ratio=0.1)),
    "deepar": (rich, DeepAR.from_dataset(rich, hidden_size=8, rnn_layers=2, dropout=0.1)),
}
for name, (data, model) in models.items():
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    x, y = next(iter(data.to_dataloader(train=False, batch_size=16, num_workers=0)))
    for _ in range(3):
        found = model(x)
        more = {"encoder_target": x["encoder_target"]} if name == "nbeats" else {}
        loss = model.loss(found["prediction"], y, **more)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(name, loss.item())
    print(sum(p.grad.double().abs().sum().item() for p in model.parameters() if p.grad is not None))
