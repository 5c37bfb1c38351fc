"""ptwt and pytorch_wavelets: wavelet transforms with gradients, there and back."""

import ptwt
import pywt
import torch

torch.manual_seed(0)
x = torch.randn(2, 32, requires_grad=True)
parts = ptwt.wavedec(x, pywt.Wavelet("db2"), level=2, mode="symmetric")
sum(part.square().sum() for part in parts).backward()
print(
    [part.shape[-1] for part in parts],
    x.grad.double().abs().sum().item(),
    (ptwt.waverec(parts, pywt.Wavelet("db2"))[:, :32] - x).abs().max().item() < 1e-4,
)
picture = torch.randn(1, 2, 16, 16)
low, high = ptwt.wavedec2(picture, "haar", level=1)
print(low.double().sum().item(), [h.double().abs().sum().item() for h in high])
packet = ptwt.WaveletPacket(x.detach(), "haar", maxlevel=2)
print({key: packet[key].double().abs().sum().item() for key in packet.get_level(2)})
scales, freqs = ptwt.cwt(x.detach()[0], torch.arange(1, 6).numpy(), "mexh")
print(scales.double().abs().sum().item())
