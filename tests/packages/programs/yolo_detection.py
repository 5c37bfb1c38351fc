"""ultralytics: small YOLO networks in training and evaluation, their losses and gradients; boxes are decoded."""
import contextlib
import io
import os
import tempfile
import warnings

warnings.filterwarnings("ignore")
os.environ |= {"YOLO_CONFIG_DIR": tempfile.mkdtemp(), "YOLO_OFFLINE": "true"}
import torch  # noqa: E402

with contextlib.redirect_stdout(io.StringIO()):  # where its settings are
    import ultralytics  # noqa: F401
from ultralytics.nn.tasks import DetectionModel, PoseModel, SegmentationModel  # noqa: E402
from ultralytics.utils import DEFAULT_CFG  # noqa: E402

for name, kind in (("yolov8n.yaml", DetectionModel), ("yolo11n-seg.yaml", SegmentationModel),
                   ("yolo11n-pose.yaml", PoseModel), ("yolov10n.yaml", DetectionModel)):
    torch.manual_seed(0)
    net = kind(name, verbose=False)
    net.args = DEFAULT_CFG
    x = torch.rand(2, 3, 64, 64)
    n = 3
    batch = {"img": x, "batch_idx": torch.tensor([0.0, 0.0, 1.0]), "cls": torch.tensor([[1.0], [2.0], [0.0]]),
             "bboxes": torch.rand(n, 4) * 0.4 + 0.2, "masks": (torch.rand(2, 16, 16) > 0.5).float(),
             "keypoints": torch.rand(n, 17, 3)}
    net.train()
    loss, parts = net(batch)
    loss.sum().backward()
    print(name, f"{loss.sum().item():.3f}", {key: f"{value:.4f}" for key, value in parts.items()}
          if isinstance(parts, dict) else [f"{value:.4f}" for value in parts.tolist()])
    print(f"{sum(p.grad.abs().sum().item() for p in net.parameters() if p.grad is not None):.1f}")
    net.eval()
    made = net(x)
    y = made[0] if isinstance(made, tuple) else made
    y = y[0] if isinstance(y, tuple) else y
    print(tuple(y.shape), f"{y.float().abs().mean().item():.4f}")
