"""encodec and speechbrain: codecs, encoders and losses for sounds. torchaudio's library loads beside a PyTorch with
CUDA alone; they ask it where files are read and resampled, and here nothing is."""
import logging
import sys
import types
import warnings
from importlib.machinery import ModuleSpec

warnings.filterwarnings("ignore")
import torch  # noqa: E402

logging.disable(logging.WARNING)
sys.modules["torchaudio"] = types.ModuleType("torchaudio")
sys.modules["torchaudio"].__spec__ = ModuleSpec("torchaudio", None)
from encodec import EncodecModel  # noqa: E402
from encodec.modules import SEANetDecoder, SEANetEncoder  # noqa: E402
from encodec.quantization import ResidualVectorQuantizer  # noqa: E402
from speechbrain.lobes.models.CRDNN import CRDNN  # noqa: E402
from speechbrain.lobes.models.ECAPA_TDNN import ECAPA_TDNN  # noqa: E402
from speechbrain.lobes.models.transformer.Conformer import ConformerEncoder  # noqa: E402
from speechbrain.nnet.losses import ctc_loss, get_si_snr_with_pitwrapper, mse_loss, nll_loss  # noqa: E402
from speechbrain.processing.features import STFT, Deltas, Filterbank, InputNormalization, spectral_magnitude  # noqa: E402

torch.manual_seed(0)
options = {"channels": 1, "dimension": 16, "n_filters": 4, "n_residual_layers": 1, "ratios": [4, 2], "lstm": 1}
for norm in ("weight_norm", "time_group_norm"):
    codec = EncodecModel(SEANetEncoder(**options, norm=norm), SEANetDecoder(**options, norm=norm),
                         ResidualVectorQuantizer(dimension=16, n_q=4, bins=32), [1.5, 3.0], 8000, 1)
    codec.set_target_bandwidth(3.0)
    x = torch.randn(2, 1, 400)
    torch.manual_seed(1)
    codes = codec.encoder(x)
    found = codec.quantizer(codes, 1000)
    (codec.decoder(found.quantized).square().mean() + found.penalty.mean()).backward()
    print(f"{sum(p.grad.abs().sum().item() for p in codec.parameters() if p.grad is not None):.3f}")
    print(norm, f"{codec.eval()(x).abs().sum().item():.3f}")
    frames = codec.encode(x)
    print(tuple(frames[0][0].shape), frames[0][0].sum().item(), f"{codec.decode(frames).abs().sum().item():.3f}")

torch.manual_seed(0)
sound, lengths = torch.randn(5, 1600), torch.tensor([1.0, 0.7, 0.9, 1.0, 0.8])
spectra = spectral_magnitude(STFT(sample_rate=16000)(sound))
mel = Filterbank(n_mels=20)(spectra)
features = InputNormalization()(mel, lengths)
print(tuple(features.shape), f"{features.abs().sum().item():.3f} {Deltas(20)(features).abs().sum().item():.3f}")
crdnn = CRDNN(input_shape=[None, None, 20], cnn_channels=[4, 8], rnn_neurons=8, rnn_layers=1, dnn_neurons=8,
              dnn_blocks=1)
ecapa = ECAPA_TDNN(20, channels=[16, 16, 16, 16, 48], attention_channels=8, lin_neurons=8)
conformer = ConformerEncoder(num_layers=1, nhead=2, d_ffn=16, d_model=20, kernel_size=3)
for net, call in ((crdnn, lambda: crdnn(features)), (ecapa, lambda: ecapa(features, lengths))):
    y = call()
    y.square().mean().backward()
    print(type(net).__name__, tuple(y.shape), f"{y.abs().sum().item():.3f}",
          f"{sum(p.grad.abs().sum().item() for p in net.parameters() if p.grad is not None):.4f}")
places = torch.randn(1, 2 * features.shape[1] - 1, 20)
made, _ = conformer(features, pos_embs=places)
print(f"{made.abs().sum().item():.3f}")
scores, targets = torch.randn(2, 6, 5).log_softmax(-1), torch.tensor([[1, 2, 1], [3, 1, 0]])
print(f"{nll_loss(scores[:, :3], targets, lengths[:2]).item():.5f}",
      f"{ctc_loss(scores, targets, torch.ones(2), lengths[:2], 0).item():.5f}",
      f"{mse_loss(scores, scores.flip(0), lengths[:2]).item():.5f}",
      f"{get_si_snr_with_pitwrapper(torch.randn(50, 2, 2).transpose(0, 1), torch.randn(2, 50, 2)).mean().item():.5f}")
