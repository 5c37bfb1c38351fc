"""x-transformers: a decoder with rotary positions."""

import torch
from x_transformers import Decoder, TransformerWrapper

torch.manual_seed(0)
layers = Decoder(dim=32, depth=2, heads=4, rotary_pos_emb=True)
model = TransformerWrapper(num_tokens=50, max_seq_len=32, attn_layers=layers)
y = model(torch.randint(0, 50, (2, 16)))
print(y.double().square().sum().item())
y.square().mean().backward()
print(sum(p.grad.double().abs().sum().item() for p in model.parameters() if p.grad is not None))
