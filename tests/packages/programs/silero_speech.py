"""silero-vad, a TorchScript archive that its package ships: how likely each piece of a sound is speech."""

import sys
import types

import torch

sys.modules["torchaudio"] = types.ModuleType("torchaudio")  # reads files, which this program does not
from silero_vad import get_speech_timestamps, load_silero_vad  # noqa: E402

model = load_silero_vad()
time = torch.arange(32000) / 16000
torch.manual_seed(0)
voice = sum(torch.sin(2 * torch.pi * 140 * k * time) / k for k in range(1, 12))
voice = voice * (1 + torch.sin(2 * torch.pi * 4 * time))
sound = torch.where((time > 0.5) & (time < 1.5), 0.2 * voice, torch.zeros(32000)) + 0.01 * torch.randn(32000)
with torch.no_grad():
    for piece in sound.split(512)[10:50:4]:
        print(round(model(piece, 16000).item(), 4))
print(get_speech_timestamps(sound, model))
