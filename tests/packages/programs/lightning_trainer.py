"""lightning's Trainer: a network on random data, fitted, validated, saved, tested and asked, on the CPU."""

import logging
import tempfile
import warnings

import torch
from lightning import LightningModule, Trainer, seed_everything

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
warnings.filterwarnings("ignore")


class Network(LightningModule):
    def __init__(self, width=32):
        super().__init__()
        self.save_hyperparameters()
        self.layers = torch.nn.Sequential(torch.nn.Linear(8, width), torch.nn.ReLU(), torch.nn.Linear(width, 3))
        self.losses = []

    def forward(self, x):
        return self.layers(x)

    def training_step(self, batch, index):
        loss = torch.nn.functional.cross_entropy(self(batch[0]), batch[1])
        self.log("loss", loss)
        self.losses.append(float(loss))
        return loss

    def validation_step(self, batch, index):
        self.log("held_out", torch.nn.functional.cross_entropy(self(batch[0]), batch[1]))

    test_step = validation_step

    def predict_step(self, batch, index):
        return self(batch[0]).argmax(-1)

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), 1e-2)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)]


def batches(n):
    x = torch.randn(n, 8)
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, x[:, :3].argmax(-1)), 16, shuffle=n > 64)


seed_everything(0, verbose=False)
network, train, held_out = Network(), batches(128), batches(64)
with tempfile.TemporaryDirectory() as folder:
    quiet = {"accelerator": "cpu", "logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    trainer = Trainer(max_epochs=3, default_root_dir=folder, gradient_clip_val=0.5, **quiet)
    trainer.fit(network, train, held_out)
    print(network.losses)
    print({name: float(value) for name, value in trainer.callback_metrics.items()})
    again = Network.load_from_checkpoint(trainer.checkpoint_callback.best_model_path)
    print(trainer.test(again, held_out, verbose=False))
    print(torch.cat(trainer.predict(again, held_out)).tolist())
    more = Trainer(max_epochs=4, default_root_dir=folder, accumulate_grad_batches=2, **quiet)
    more.fit(network, train, ckpt_path=trainer.checkpoint_callback.best_model_path)
    print(network.losses[-8:], more.global_step)
