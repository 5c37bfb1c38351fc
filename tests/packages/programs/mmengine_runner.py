"""mmengine: a Runner trains a model with hooks, schedules and a checkpoint, and the registry finds its parts."""
import tempfile
import warnings

import torch
from mmengine.config import Config
from mmengine.evaluator import BaseMetric
from mmengine.model import BaseModel, ExponentialMovingAverage, revert_sync_batchnorm
from mmengine.registry import METRICS, MODELS
from mmengine.runner import Runner

warnings.filterwarnings("ignore")


@MODELS.register_module()
class Net(BaseModel):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(6, 16, bias=False), torch.nn.BatchNorm1d(16), torch.nn.GELU())
        self.head = torch.nn.Linear(16, 3)

    def forward(self, x, y, mode="loss"):
        scores = self.head(self.body(x))
        if mode == "loss":
            return {"loss": torch.nn.functional.cross_entropy(scores, y)}
        return scores, y


@METRICS.register_module()
class Accuracy(BaseMetric):
    def process(self, data_batch, data_samples):
        scores, y = data_samples
        self.results.append({"size": len(y), "right": (scores.argmax(1) == y).sum().item()})

    def compute_metrics(self, results):
        return {"accuracy": sum(r["right"] for r in results) / sum(r["size"] for r in results)}


torch.manual_seed(0)
x = torch.randn(96, 6)
data = list(zip(x, x[:, :3].argmax(1)))
loader = {"batch_size": 16, "num_workers": 0, "sampler": {"type": "DefaultSampler", "shuffle": True}, "dataset": data,
          "collate_fn": {"type": "default_collate"}}
with tempfile.TemporaryDirectory() as folder:
    runner = Runner(
        model={"type": "Net"}, work_dir=folder, train_dataloader=loader,
        val_dataloader={**loader, "sampler": {"type": "DefaultSampler", "shuffle": False}},
        train_cfg={"by_epoch": True, "max_epochs": 3, "val_interval": 1}, val_cfg={},
        val_evaluator={"type": "Accuracy"},
        optim_wrapper={"optimizer": {"type": "AdamW", "lr": 0.01}, "clip_grad": {"max_norm": 1.0},
                       "accumulative_counts": 2},
        param_scheduler=[{"type": "LinearLR", "start_factor": 0.1, "by_epoch": False, "end": 5},
                         {"type": "CosineAnnealingLR", "by_epoch": True, "T_max": 3}],
        custom_hooks=[{"type": "EMAHook"}], randomness={"seed": 0}, log_level="ERROR",
        default_hooks={"checkpoint": {"type": "CheckpointHook", "interval": 1, "save_best": "accuracy"}},
    )
    runner.train()
    print(f"{sum(p.abs().sum().item() for p in runner.model.parameters()):.3f}", runner.iter, runner.epoch)
    print(runner.message_hub.get_scalar("val/accuracy").current())
    model = Net()
    state = torch.load(f"{folder}/epoch_3.pth", weights_only=False)
    model.load_state_dict(state["state_dict"])
    print(f"{sum(p.abs().sum().item() for p in model.parameters()):.3f}")
print(Config({"a": {"b": 1}}).a.b, type(revert_sync_batchnorm(torch.nn.SyncBatchNorm(2))).__name__)
average = ExponentialMovingAverage(model, momentum=0.1)
average.update_parameters(Net())
print(f"{sum(p.abs().sum().item() for p in average.module.parameters()):.3f}")
