"""asteroid-filterbanks: learned and fixed filterbanks, their transforms and inverses, whose helpers are scripts."""
import torch
from asteroid_filterbanks import Encoder, make_enc_dec, transforms
from asteroid_filterbanks.melgram_fb import MelGramFB

torch.manual_seed(0)
x = torch.randn(2, 1, 800)
for name, options in (("free", {}), ("analytic_free", {}), ("param_sinc", {"sample_rate": 8000.0}), ("stft", {})):
    encoder, decoder = make_enc_dec(name, n_filters=32, kernel_size=32, stride=16, **options)
    y = encoder(x)
    back = decoder(y)
    back.square().mean().backward() if back.requires_grad else None
    print(name, tuple(y.shape), f"{y.abs().sum().item():.3f} {back.abs().sum().item():.3f}")
    if name != "free":
        mag, phase = transforms.mag(y), transforms.angle(y)
        again = transforms.from_magphase(mag, phase)
        print(f"{mag.sum().item():.3f} {phase.abs().sum().item():.2f} {(again - y).abs().max().item() < 1e-4}")
        print(tuple(transforms.to_torchaudio(y).shape))
mel = Encoder(MelGramFB(n_filters=64, kernel_size=64, stride=32, n_mels=20, sample_rate=8000.0))
print(f"{mel(x).abs().sum().item():.3f}")
traced = torch.jit.trace(lambda y: transforms.mag(y), y)
print(f"{traced(y * 2).sum().item():.3f}")
