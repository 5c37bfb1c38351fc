"""vector-quantize-pytorch: vectors by the nearest of a codebook, of two in turn, and by rounding."""

import torch
from vector_quantize_pytorch import FSQ, ResidualVQ, VectorQuantize

torch.manual_seed(0)
x = torch.randn(2, 16, 8)
for quantize in (
    VectorQuantize(dim=8, codebook_size=16, decay=0.8, commitment_weight=1.0),
    ResidualVQ(dim=8, num_quantizers=2, codebook_size=16),
):
    quantized, indices, loss = quantize(x)
    print(f"{quantized.sum().item():.4f} {loss.sum().item():.4f}", indices[0, :6].tolist())
quantized, indices = FSQ([8, 5, 5])(torch.randn(2, 4, 3))
print(f"{quantized.sum().item():.4f}", indices.flatten().tolist())
