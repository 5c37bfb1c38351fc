"""openai-whisper: a small model with random weights listens to a made sound: features, loss, decoding."""
import numpy as np
import torch
import whisper
from whisper.audio import log_mel_spectrogram, pad_or_trim
from whisper.model import ModelDimensions, Whisper

torch.manual_seed(0)
sound = np.sin(np.arange(16000 * 2) * 0.05).astype(np.float32) * 0.3
mel = log_mel_spectrogram(pad_or_trim(sound))
print(mel.shape, f"{mel.mean().item():.5f}")
model = Whisper(ModelDimensions(80, 1500, 32, 2, 2, 51865, 448, 32, 2, 2)).eval()
torch.manual_seed(1)
for p in model.parameters():
    p.data = torch.randn_like(p) * 0.1
tokens = torch.tensor([[50258, 50259, 50359, 50363, 440, 1002]])
logits = model(mel[None], tokens)
loss = torch.nn.functional.cross_entropy(logits[0, :-1], tokens[0, 1:])
loss.backward()
print(f"{loss.item():.5f} {sum(p.grad.abs().sum().item() for p in model.parameters() if p.grad is not None):.3e}")
options = whisper.DecodingOptions(language="en", without_timestamps=True, fp16=False, sample_len=8)
with torch.no_grad():
    try:
        result = whisper.decode(model, mel, options)
        print(result.tokens, f"{result.avg_logprob:.4f}")
    except Exception as error:
        print(type(error).__name__)
