"""curated-transformers: encoders and decoders, with gradients and with a cache."""

import torch
from curated_transformers import models
from curated_transformers.layers import AttentionMask
from curated_transformers.models.albert.config import ALBERTConfig
from curated_transformers.models.bert.config import BERTConfig
from curated_transformers.models.falcon.config import FalconConfig
from curated_transformers.models.gpt_neox.config import GPTNeoXConfig
from curated_transformers.models.llama.config import LlamaConfig
from curated_transformers.models.mpt.config import MPTConfig

wide = {"hidden_width": 16, "n_hidden_layers": 2, "n_pieces": 50}
small, heads, single = {**wide, "intermediate_width": 32}, {"n_attention_heads": 2}, {"dtype": torch.float32}
CONFIGURATIONS = {
    "BERTEncoder": BERTConfig(embedding_width=16, n_positions=32, **heads, **small),
    "ALBERTEncoder": ALBERTConfig(embedding_width=8, n_positions=32, **heads, **small),
    "GPTNeoXCausalLM": GPTNeoXConfig(rotary_embedding_fraction=0.5, **heads, **small, **single),
    "LlamaCausalLM": LlamaConfig(
        n_query_heads=4, n_key_value_heads=2, rotary_embedding_fraction=1.0, **small, **single
    ),
    "FalconCausalLM": FalconConfig(
        n_query_heads=4, n_key_value_heads=1, rotary_embedding_fraction=1.0, **wide, **single
    ),
    "MPTCausalLM": MPTConfig(model_max_length=32, **heads, **wide, **single),
}
words = torch.arange(12).view(2, 6) + 3
mask = AttentionMask(torch.arange(6) < torch.tensor([6, 4])[:, None])
for name, configuration in CONFIGURATIONS.items():
    torch.manual_seed(0)
    model = getattr(models, name)(configuration).eval()
    found = model(words, mask)
    last = found.logits if "Causal" in name else found.last_hidden_layer_state
    (last * torch.arange(last.numel()).view(last.shape).cos()).sum().backward()
    grads = sum(p.grad.double().abs().sum().item() for p in model.parameters() if p.grad is not None)
    print(name, tuple(last.shape), last.double().abs().sum().item(), grads)
    if "Causal" in name:
        seen = [AttentionMask(torch.ones(2, n, dtype=torch.bool)) for n in (4, 5)]
        with torch.no_grad():
            first = model(words[:, :4], seen[0], store_cache=True)
            more = model(words[:, 4:5], seen[1], cache=first.cache, store_cache=True)
        print(more.logits.double().abs().sum().item())
