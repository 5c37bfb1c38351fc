"""torchmetrics: scores of classes and of numbers."""

import torch
import torchmetrics as tm

torch.manual_seed(0)
likely, true = torch.randn(50, 5).softmax(-1), torch.randint(5, (50,))
classes = {"task": "multiclass", "num_classes": 5}
for metric in (tm.Accuracy(**classes), tm.F1Score(average="macro", **classes), tm.AUROC(**classes),
               tm.ConfusionMatrix(**classes), tm.CalibrationError(**classes)):  # fmt: skip
    metric.update(likely[:25], true[:25])
    metric.update(likely[25:], true[25:])
    print(type(metric).__name__, metric.compute().tolist())
a = torch.randn(40)
b = a + torch.randn(40) * 0.3
for metric in (tm.MeanSquaredError(), tm.R2Score(), tm.PearsonCorrCoef(), tm.SpearmanCorrCoef()):
    print(type(metric).__name__, metric(a, b).item())
