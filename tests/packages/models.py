"""Small models of transformers with random weights: the sums of what they give and of their gradients, and a few words
that they write, as JSON. Ordinary PyTorch: run by PyTorch and by `narthex run`, it is to print the same."""

import json
import sys

import torch

SIZES = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 100,
}  # fmt: skip
GROUPED = {**SIZES, "num_key_value_heads": 2}
ENDS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
BART = {
    "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "vocab_size": 100,
}  # fmt: skip
MODELS = {
    "BertModel": ("BertConfig", SIZES),
    "RobertaModel": ("RobertaConfig", SIZES),
    "DistilBertModel": ("DistilBertConfig", {
        "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64, "vocab_size": 100,
    }),
    "ElectraModel": ("ElectraConfig", {"embedding_size": 32, **SIZES}),
    "AlbertModel": ("AlbertConfig", {"embedding_size": 16, **SIZES}),
    "DebertaV2Model": ("DebertaV2Config", SIZES),
    "GPT2LMHeadModel": ("GPT2Config", {
        "n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 100, "n_positions": 64, **ENDS,
    }),
    "GPTNeoXForCausalLM": ("GPTNeoXConfig", SIZES),
    "LlamaForCausalLM": ("LlamaConfig", GROUPED),
    "MistralForCausalLM": ("MistralConfig", GROUPED),
    "MixtralForCausalLM": ("MixtralConfig", {**GROUPED, "num_local_experts": 4}),
    "Qwen2ForCausalLM": ("Qwen2Config", {**GROUPED, **ENDS}),
    "GemmaForCausalLM": ("GemmaConfig", {**GROUPED, "head_dim": 8}),
    "PhiForCausalLM": ("PhiConfig", SIZES),
    "T5ForConditionalGeneration": ("T5Config", {
        "d_model": 32, "num_layers": 2, "num_heads": 4, "d_kv": 8, "d_ff": 64, "vocab_size": 100,
        "decoder_start_token_id": 0,
    }),
    "BartForConditionalGeneration": ("BartConfig", BART),
}  # fmt: skip


def run(name: str) -> dict:
    import transformers as t

    config, sizes = MODELS[name]
    torch.manual_seed(0)
    model = getattr(t, name)(getattr(t, config)(**sizes)).eval()
    words = torch.arange(12).view(2, 6)
    more = {"decoder_input_ids": words} if "Conditional" in name else {}
    result = model(words, **more)[0]
    result.square().sum().backward()
    grads = [p.grad.double().abs().sum().item() for p in model.parameters() if p.grad is not None]
    written = None
    if hasattr(model, "lm_head") or "Generation" in name or "CausalLM" in name:
        written = model.generate(words, max_new_tokens=5, do_sample=False, pad_token_id=0)[:, -5:].tolist()
    total = result.double().abs().sum().item()
    return {"shape": list(result.shape), "sum": total, "grads": sum(grads), "text": written}


if __name__ == "__main__":
    for name in sys.argv[1:] or MODELS:
        print(json.dumps({name: run(name)}), flush=True)
