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


def words() -> dict:
    return {"input_ids": torch.arange(12).view(2, 6) + 3}


def image(size: int = 32) -> dict:
    return {"pixel_values": torch.randn(2, 3, size, size)}


PATCHES = {**SIZES, "image_size": 32, "patch_size": 8}
SOUND = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "conv_dim": (16, 16),
    "conv_stride": (5, 2), "conv_kernel": (10, 3), "num_feat_extract_layers": 2, "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4, "mask_time_prob": 0.0, "mask_feature_prob": 0.0,
}  # fmt: skip
SMALL = {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 100, "n_positions": 64}
STAGES = {"hidden_sizes": [8, 16, 16, 16], "depths": [1, 1, 1, 1]}
BOTH = {"text_config": {**SIZES, **ENDS, "encoder_hidden_size": 32}, "vision_config": PATCHES}
# name: configuration, its sizes, what goes in
MORE = {
    "DebertaModel": ("DebertaConfig", SIZES, words),
    "GPTNeoForCausalLM": ("GPTNeoConfig", {
        "hidden_size": 32, "num_layers": 2, "num_heads": 4, "vocab_size": 100, "max_position_embeddings": 64,
        "attention_types": [[["global", "local"], 1]], **ENDS,
    }, words),
    "Gemma2ForCausalLM": ("Gemma2Config", {**GROUPED, "head_dim": 8, **ENDS}, words),
    "Gemma3ForCausalLM": ("Gemma3TextConfig", {**GROUPED, "head_dim": 8, **ENDS}, words),
    "Qwen3ForCausalLM": ("Qwen3Config", {**GROUPED, "head_dim": 8, **ENDS}, words),
    "Phi3ForCausalLM": ("Phi3Config", {**GROUPED, **ENDS}, words),
    "OlmoForCausalLM": ("OlmoConfig", {**GROUPED, **ENDS}, words),
    "OPTForCausalLM": ("OPTConfig", {
        "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 64, "vocab_size": 100,
        "max_position_embeddings": 64, "word_embed_proj_dim": 32, **ENDS,
    }, words),
    "BloomForCausalLM": ("BloomConfig", {
        "hidden_size": 32, "n_layer": 2, "n_head": 4, "vocab_size": 100, **ENDS,
    }, words),
    "FalconForCausalLM": ("FalconConfig", {
        "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100, **ENDS,
    }, words),
    "MambaForCausalLM": ("MambaConfig", {
        "hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 100, "state_size": 8, **ENDS,
    }, words),
    "CTRLLMHeadModel": ("CTRLConfig", {**SMALL, "dff": 64, **ENDS}, words),
    "XLMRobertaModel": ("XLMRobertaConfig", SIZES, words),
    "XLNetModel": ("XLNetConfig", {"d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 64, "vocab_size": 100}, words),
    "FunnelModel": ("FunnelConfig", {
        "d_model": 32, "n_head": 4, "d_head": 8, "d_inner": 64, "vocab_size": 100, "block_sizes": [1, 1],
        "num_decoder_layers": 1,
    }, words),
    "MobileBertModel": ("MobileBertConfig", {
        **SIZES, "embedding_size": 16, "intra_bottleneck_size": 16, "true_hidden_size": 16,
    }, words),
    "BigBirdModel": ("BigBirdConfig", {**SIZES, "attention_type": "original_full"}, words),
    "LongformerModel": ("LongformerConfig", {**SIZES, "attention_window": 4}, words),
    "LayoutLMModel": ("LayoutLMConfig", SIZES, words),
    "FNetModel": ("FNetConfig", SIZES, words),
    "MarianMTModel": ("MarianConfig", {
        **BART, "pad_token_id": 0, "decoder_start_token_id": 0, "eos_token_id": 2, "forced_eos_token_id": 2,
    }, words),
    "PegasusForConditionalGeneration": ("PegasusConfig", {
        **BART, "pad_token_id": 0, "decoder_start_token_id": 0,
    }, words),
    "MBartForConditionalGeneration": ("MBartConfig", BART, words),
    "ViTModel": ("ViTConfig", PATCHES, image),
    "DeiTModel": ("DeiTConfig", PATCHES, image),
    "BeitModel": ("BeitConfig", PATCHES, image),
    "Dinov2Model": ("Dinov2Config", PATCHES, image),
    "SwinModel": ("SwinConfig", {
        "image_size": 32, "patch_size": 4, "embed_dim": 16, "depths": [1, 1], "num_heads": [2, 4], "window_size": 4,
    }, image),
    "SegformerModel": ("SegformerConfig", {
        **STAGES, "num_attention_heads": [1, 1, 2, 2], "sr_ratios": [4, 2, 1, 1], "mlp_ratios": [2, 2, 2, 2],
    }, image),
    "ConvNextModel": ("ConvNextConfig", STAGES, image),
    "ResNetModel": ("ResNetConfig", {
        "embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "layer_type": "basic",
    }, image),
    "RegNetModel": ("RegNetConfig", {
        "embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "groups_width": 8,
    }, image),
    "PoolFormerModel": ("PoolFormerConfig", STAGES, lambda: image(64)),
    "CLIPModel": ("CLIPConfig", {**BOTH, "projection_dim": 16}, lambda: {**words(), **image()}),
    "SiglipModel": ("SiglipConfig", BOTH, lambda: {**words(), **image()}),
    "BlipForConditionalGeneration": ("BlipConfig", BOTH, lambda: {**words(), **image()}),
    "WhisperForConditionalGeneration": ("WhisperConfig", {
        **BART, "num_mel_bins": 16, "max_source_positions": 20, "max_target_positions": 20, "decoder_start_token_id": 1,
        **ENDS,
    }, lambda: {"input_features": torch.randn(2, 16, 40), "decoder_input_ids": torch.arange(6).view(2, 3) + 3}),
    "Wav2Vec2Model": ("Wav2Vec2Config", SOUND, lambda: {"input_values": torch.randn(2, 400)}),
    "HubertModel": ("HubertConfig", SOUND, lambda: {"input_values": torch.randn(2, 400)}),
    "ASTModel": ("ASTConfig", {
        **SIZES, "patch_size": 4, "max_length": 32, "num_mel_bins": 16, "frequency_stride": 4, "time_stride": 4,
    }, lambda: {"input_values": torch.randn(2, 32, 16)}),
    "PerceiverModel": ("PerceiverConfig", {
        "num_latents": 8, "d_latents": 16, "d_model": 32, "num_blocks": 1, "num_self_attends_per_block": 1,
        "num_self_attention_heads": 2, "num_cross_attention_heads": 2,
    }, lambda: {"inputs": torch.randn(2, 10, 32)}),
    "Data2VecTextModel": ("Data2VecTextConfig", SIZES, words),
    "MPNetModel": ("MPNetConfig", SIZES, words),
    "ModernBertModel": ("ModernBertConfig", {**SIZES, **ENDS}, words),
    "ConvBertModel": ("ConvBertConfig", {**SIZES, "embedding_size": 32}, words),
    "SqueezeBertModel": ("SqueezeBertConfig", {**SIZES, "embedding_size": 32}, words),
    "GPTJForCausalLM": ("GPTJConfig", {**SMALL, "rotary_dim": 4, **ENDS}, words),
    "Qwen3MoeForCausalLM": ("Qwen3MoeConfig", {
        **GROUPED, "head_dim": 8, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, **ENDS,
    }, words),
    "Olmo2ForCausalLM": ("Olmo2Config", {**GROUPED, **ENDS}, words),
    "StableLmForCausalLM": ("StableLmConfig", {**GROUPED, **ENDS}, words),
    "CohereForCausalLM": ("CohereConfig", {**GROUPED, **ENDS}, words),
    "GraniteForCausalLM": ("GraniteConfig", {**GROUPED, **ENDS}, words),
    "Starcoder2ForCausalLM": ("Starcoder2Config", {**GROUPED, **ENDS}, words),
    "SmolLM3ForCausalLM": ("SmolLM3Config", {**GROUPED, **ENDS}, words),
    "MptForCausalLM": ("MptConfig", {"d_model": 32, "n_layers": 2, "n_heads": 4, "vocab_size": 100, **ENDS}, words),
    "CLIPVisionModel": ("CLIPVisionConfig", PATCHES, image),
    "Swinv2Model": ("Swinv2Config", {
        "image_size": 32, "patch_size": 2, "embed_dim": 16, "depths": [1, 2], "num_heads": [2, 4], "window_size": 4,
    }, image),
    "ConvNextV2Model": ("ConvNextV2Config", STAGES, image),
    "MobileNetV2Model": ("MobileNetV2Config", {"depth_multiplier": 0.25, "image_size": 32}, image),
    "WavLMModel": ("WavLMConfig", SOUND, lambda: {"input_values": torch.randn(2, 400)}),
    "Data2VecAudioModel": ("Data2VecAudioConfig", {
        **SOUND, "num_conv_pos_embeddings": 2,
    }, lambda: {"input_values": torch.randn(2, 400)}),
    "VitsModel": ("VitsConfig", {
        "hidden_size": 16, "num_hidden_layers": 2, "ffn_dim": 32, "flow_size": 16, "spectrogram_bins": 9,
        "upsample_initial_channel": 16, "posterior_encoder_num_wavenet_layers": 2,
        "use_stochastic_duration_prediction": False, "duration_predictor_filter_channels": 16,
    }, words),
    "DecisionTransformerModel": ("DecisionTransformerConfig", {
        "state_dim": 5, "act_dim": 3, "hidden_size": 32, "n_layer": 2, "n_head": 4, "max_ep_len": 32,
    }, lambda: {
        "states": torch.randn(1, 6, 5), "actions": torch.randn(1, 6, 3), "returns_to_go": torch.randn(1, 6, 1),
        "timesteps": torch.arange(6)[None], "attention_mask": torch.ones(1, 6),
    }),
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


def written_by(model, start) -> list:
    """Words: the likeliest, drawn, and by beams."""
    limits = {"max_new_tokens": 4, "pad_token_id": 0}
    likeliest = model.generate(start, do_sample=False, **limits)
    torch.manual_seed(3)
    drawn = model.generate(start, do_sample=True, **limits)
    beams = model.generate(start, do_sample=False, num_beams=2, **limits)
    return [found[:, -4:].tolist() for found in (likeliest, drawn, beams)]


def run_more(name: str) -> dict:
    import transformers as t

    config, sizes, make = MORE[name]
    torch.manual_seed(0)
    model = getattr(t, name)(getattr(t, config)(**sizes)).eval()
    inputs = make()
    if name.startswith(("Marian", "Pegasus", "MBart")):
        inputs["decoder_input_ids"] = inputs["input_ids"]
    results = [r for r in model(**inputs).to_tuple() if isinstance(r, torch.Tensor) and r.requires_grad]
    # Sums with weights: behind a norm, sums of squares have no slope but rounding.
    sum((r * torch.arange(r.numel()).view(r.shape).cos()).sum() for r in results).backward()
    grads = [p.grad.double().abs().sum().item() for p in model.parameters() if p.grad is not None]
    text = written_by(model, words()["input_ids"]) if "CausalLM" in name or "LMHead" in name or "MT" in name else None
    total = sum(r.double().abs().sum().item() for r in results)
    return {"shape": [list(r.shape) for r in results], "sum": total, "grads": sum(grads), "text": text}


if __name__ == "__main__":
    for name in sys.argv[1:] or [*MODELS, *MORE]:
        print(json.dumps({name: (run if name in MODELS else run_more)(name)}), flush=True)
