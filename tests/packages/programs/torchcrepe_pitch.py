"""torchcrepe's tiny model with the weights that its package ships: the pitch of a tone."""

import sys
import types

import numpy
import torch

sys.modules["torchaudio"] = types.ModuleType("torchaudio")  # reads files, which this program does not
import torchcrepe  # noqa: E402

numpy.random.seed(0)
tone = torch.sin(2 * torch.pi * 220 * torch.arange(8000) / 16000)[None]
pitch, periodicity = torchcrepe.predict(tone, 16000, 160, 50, 550, "tiny", return_periodicity=True, device="cpu")
print(pitch.shape, [round(x, 2) for x in pitch[0, :5].tolist()], round(periodicity.mean().item(), 4))
