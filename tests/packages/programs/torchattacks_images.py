"""torchattacks: images that a network takes for others, by gradients."""

import numpy
import torch
import torchattacks
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(
    nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 5)
)
images, labels = torch.rand(4, 3, 12, 12), torch.randint(0, 5, (4,))
for name, options in {
    "FGSM": {},
    "PGD": {"steps": 3},
    "BIM": {"steps": 3},
    "CW": {"steps": 4},
    "MIFGSM": {"steps": 3},
    "DIFGSM": {"steps": 3},
    "TIFGSM": {"steps": 2},
    "DeepFool": {"steps": 4},
    "APGD": {"steps": 4},
    "Square": {"n_queries": 20},
    "SparseFool": {"steps": 2},
    "TPGD": {"steps": 3},
    "EOTPGD": {"steps": 2},
    "Jitter": {"steps": 2},
    "FAB": {"steps": 3, "n_classes": 5},
    "NIFGSM": {"steps": 2},
    "SINIFGSM": {"steps": 2},
    "VMIFGSM": {"steps": 2},
    "PGDL2": {"steps": 3},
    "Pixle": {"restarts": 2},
    "OnePixel": {"steps": 2, "popsize": 3},
    "GN": {},
    "RFGSM": {"steps": 2},
    "FFGSM": {},
    "UPGD": {"steps": 2},
    "EADL1": {"max_iterations": 10, "binary_search_steps": 2},
}.items():
    torch.manual_seed(1), numpy.random.seed(1)
    attack = getattr(torchattacks, name)(net, **options)
    changed = attack(images, labels)
    print(name, changed.double().sum().item(), (changed - images).abs().max().item())
