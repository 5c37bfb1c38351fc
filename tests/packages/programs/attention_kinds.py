"""Attention that is not quadratic, and positions: linformer, performer, reformer, nystrom, perceiver, egnn, gmlp,
conformer, axial positions, product keys, rotary embeddings and tab-transformer, eager and compiled."""
import copy

import torch
from axial_positional_embedding import AxialPositionalEmbedding
from conformer import ConformerBlock
from egnn_pytorch import EGNN, EGNN_Network
from g_mlp_pytorch import gMLP, gMLPVision
from linformer import Linformer, LinformerLM
from nystrom_attention import Nystromformer
from perceiver_pytorch import Perceiver
from performer_pytorch import Performer, PerformerLM
from product_key_memory import PKM
from reformer_pytorch import LSHSelfAttention, ReformerLM
from rotary_embedding_torch import RotaryEmbedding
from tab_transformer_pytorch import FTTransformer


def total(tensors) -> float:
    return sum(t.detach().double().abs().sum().item() for t in tensors)


def steps(name: str, make, *args, **kwargs) -> None:
    torch.manual_seed(0)
    model = make()
    compiled = torch.compile(copy.deepcopy(model), backend="eager")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for call in (model, model, compiled):
        torch.manual_seed(1)
        out = call(*args, **kwargs)
        outs = [t for t in (out if isinstance(out, tuple) else (out,)) if t.requires_grad]
        loss = sum(t.square().mean() for t in outs)
        optimizer.zero_grad()
        loss.backward()
        grads = [p.grad for p in call.parameters() if p.grad is not None]
        print(name, [list(t.shape) for t in outs], loss.item(), total(outs), total(grads))
        optimizer.step()


torch.manual_seed(3)
x, ids, picture = torch.randn(2, 64, 32), torch.randint(0, 100, (2, 64)), torch.rand(2, 3, 32, 32)
small = {"dim": 32, "depth": 2, "heads": 2}
steps("Linformer", lambda: Linformer(seq_len=64, k=16, **small), x)
steps("LinformerLM", lambda: LinformerLM(num_tokens=100, seq_len=64, k=16, **small), ids)
steps("Performer", lambda: Performer(dim_head=16, generalized_attention=True, **small), x)
given = x.clone().requires_grad_()
steps("reversible", lambda: Performer(dim_head=16, reversible=True, ff_dropout=0.1, **small), given)
steps("PerformerLM", lambda: PerformerLM(num_tokens=100, max_seq_len=64, **small), ids)
reformer = {"num_tokens": 100, "max_seq_len": 64, "bucket_size": 8, "n_hashes": 2, "lsh_dropout": 0.1, **small}
steps("ReformerLM", lambda: ReformerLM(causal=True, ff_chunks=2, **reformer), ids)
steps("LSH", lambda: LSHSelfAttention(dim=32, heads=2, bucket_size=8, n_hashes=2), x)
steps("Nystromformer", lambda: Nystromformer(dim_head=16, num_landmarks=16, pinv_iterations=6, **small), x)
heads = {"cross_heads": 1, "latent_heads": 2, "cross_dim_head": 16, "latent_dim_head": 16}
latents = {"input_channels": 3, "input_axis": 2, "num_freq_bands": 4, "max_freq": 10.0, "num_latents": 16}
steps("Perceiver", lambda: Perceiver(depth=2, latent_dim=32, **latents, **heads), picture.permute(0, 2, 3, 1))
steps("EGNN", lambda: EGNN(dim=16), torch.randn(2, 12, 16), torch.randn(2, 12, 3))
graph = {"num_tokens": 21, "num_positions": 32, "num_nearest_neighbors": 4, "coor_weights_clamp_value": 2.0}
where = (torch.randint(0, 21, (2, 20)), torch.randn(2, 20, 3))
steps("EGNN_Network", lambda: EGNN_Network(dim=16, depth=2, **graph), *where, mask=torch.ones(2, 20).bool())
steps("gMLP", lambda: gMLP(num_tokens=100, dim=32, depth=2, seq_len=64, act=torch.nn.Tanh()), ids)
steps("gMLPVision", lambda: gMLPVision(image_size=32, patch_size=8, num_classes=10, dim=32, depth=2), picture)
steps("Conformer", lambda: ConformerBlock(dim=32, dim_head=16, heads=2, conv_kernel_size=7), x)
steps("Axial", lambda: AxialPositionalEmbedding(dim=32, axial_shape=(8, 8)), x)
steps("PKM", lambda: PKM(dim=32, heads=2, dim_head=16, num_keys=16, topk=4), x)
table = (torch.randint(0, 5, (4, 3)), torch.randn(4, 4))
tab = {"categories": (10, 5, 6), "num_continuous": 4, "dim_out": 1}
steps("FTTransformer", lambda: FTTransformer(dim=16, depth=2, heads=2, **tab), *table)
turn, q, k = RotaryEmbedding(dim=16, use_xpos=True), torch.randn(1, 2, 32, 32), torch.randn(1, 2, 32, 32)
print(total(turn.rotate_queries_and_keys(q, k)), total([RotaryEmbedding(dim=16).rotate_queries_or_keys(q)]))
