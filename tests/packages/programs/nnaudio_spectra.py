"""nnAudio: spectrograms that are layers: forward, backward, trained kernels, the inverse."""
import torch
from nnAudio import features

torch.manual_seed(0)
t = torch.arange(8000) / 8000
sound = torch.stack([torch.sin(2 * torch.pi * 440 * t), torch.sin(2 * torch.pi * 200 * t * t)])
layers = {
    "stft": features.STFT(n_fft=256, hop_length=64, sr=8000, output_format="Magnitude", trainable=True, verbose=False),
    "mel": features.MelSpectrogram(sr=8000, n_fft=256, n_mels=20, hop_length=64, trainable_mel=True, verbose=False),
    "mfcc": features.MFCC(sr=8000, n_mfcc=8, n_fft=256, n_mels=20, hop_length=64, verbose=False),
    "cqt": features.CQT1992v2(sr=8000, hop_length=128, fmin=110, n_bins=24, verbose=False),
    "cqt2010": features.CQT2010v2(sr=8000, hop_length=128, fmin=220, n_bins=24, verbose=False),
    "gamma": features.Gammatonegram(sr=8000, n_fft=256, n_bins=16, hop_length=64, verbose=False),
}
for name, layer in layers.items():
    x = sound.clone().requires_grad_()
    out = layer(x)
    loss = out.square().mean()
    loss.backward()
    print(name, list(out.shape), loss.item())
    if name != "mfcc":  # which divides by powers that are next to nothing
        print(x.grad.double().abs().sum().item())
stft = layers["stft"]
optimizer = torch.optim.SGD(stft.parameters(), 1e-3)
for _ in range(3):
    loss = (stft(sound) - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
both = features.STFT(n_fft=256, hop_length=64, sr=8000, output_format="Complex", iSTFT=True, verbose=False)
again = both.inverse(both(sound), onesided=True, length=8000)
print((again - sound).abs().max().item() < 1e-3)
