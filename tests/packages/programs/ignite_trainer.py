"""ignite: a trainer and an evaluator with events, metrics, a schedule, early stopping and checkpoints."""
import tempfile

import torch
from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
from ignite.handlers import Checkpoint, EarlyStopping, LRScheduler, ModelCheckpoint
from ignite.metrics import Accuracy, ConfusionMatrix, Loss, Precision, Recall, RunningAverage
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(96, 6)
y = (x[:, 0] * x[:, 1] > 0).long()
loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
model = torch.nn.Sequential(torch.nn.Linear(6, 32), torch.nn.Tanh(), torch.nn.Linear(32, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
loss = torch.nn.CrossEntropyLoss()
trainer = create_supervised_trainer(model, optimizer, loss)
RunningAverage(output_transform=lambda out: out).attach(trainer, "loss")
metrics = {"accuracy": Accuracy(), "loss": Loss(loss), "precision": Precision(average=True), "recall": Recall(),
           "confusion": ConfusionMatrix(2)}
evaluator = create_supervised_evaluator(model, metrics=metrics)
schedule = LRScheduler(torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.9))
trainer.add_event_handler(Events.ITERATION_COMPLETED(every=6), schedule)
stop = EarlyStopping(patience=3, score_function=lambda e: -e.state.metrics["loss"], trainer=trainer)
evaluator.add_event_handler(Events.COMPLETED, stop)
with tempfile.TemporaryDirectory() as folder:
    score = lambda e: e.state.metrics["accuracy"]  # noqa: E731
    keep = ModelCheckpoint(folder, "best", n_saved=2, score_function=score, score_name="acc")
    evaluator.add_event_handler(Events.COMPLETED, keep, {"model": model})

    @trainer.on(Events.EPOCH_COMPLETED)
    def report(engine):
        evaluator.run(loader)
        m = evaluator.state.metrics
        recall = [round(v, 4) for v in m["recall"].tolist()]
        print(f"{engine.state.epoch}: running {engine.state.metrics['loss']:.5f} loss {m['loss']:.5f}")
        print(f"accuracy {m['accuracy']:.4f} precision {m['precision']:.4f} recall {recall}")

    trainer.run(loader, max_epochs=5)
    state = torch.load(keep.last_checkpoint)
    print(evaluator.state.metrics["confusion"].tolist(), sorted(state))
    Checkpoint.load_objects({"model": model}, state)
    print(f"lr {optimizer.param_groups[0]['lr']:.6f}")
