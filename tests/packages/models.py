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
LAYERS = {
    "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64, "decoder_ffn_dim": 64,
}  # fmt: skip
QUERIES = {**LAYERS, "d_model": 32, "num_queries": 6}
PICTURES = {"embedding_size": 8, "hidden_sizes": [8, 16, 16, 32], "depths": [1, 1, 1, 1], "layer_type": "basic"}
DENSE = {**PATCHES, "num_hidden_layers": 4}
NECK = {"neck_hidden_sizes": [8, 16, 16, 16], "fusion_hidden_size": 16}
ALL_STAGES = ["stage1", "stage2", "stage3", "stage4"]
SERIES = {
    **LAYERS, "d_model": 16, "prediction_length": 4, "context_length": 8, "lags_sequence": [1, 2],
    "num_time_features": 1,
}  # fmt: skip
BOTH = {"text_config": {**SIZES, **ENDS, "encoder_hidden_size": 32}, "vision_config": PATCHES}


def pairs() -> dict:
    return {**words(), "decoder_input_ids": words()["input_ids"]}


def both() -> dict:
    return {**words(), **image()}


def sound() -> dict:
    return {"input_values": torch.randn(2, 400)}


def series() -> dict:
    return {
        "past_values": torch.rand(2, 10), "past_time_features": torch.randn(2, 10, 1),
        "past_observed_mask": torch.ones(2, 10), "future_values": torch.rand(2, 4),
        "future_time_features": torch.randn(2, 4, 1),
    }  # fmt: skip


TRAINED = ("RwkvForCausalLM", "ReformerModel")  # gradients go through them in training alone; nothing is dropped
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
    "RwkvForCausalLM": ("RwkvConfig", {
        "hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 100, "context_length": 64, **ENDS,
    }, words),
    "ReformerModel": ("ReformerConfig", {
        "hidden_size": 32, "num_attention_heads": 2, "attention_head_size": 8, "feed_forward_size": 64,
        "vocab_size": 100, "attn_layers": ["local", "lsh"], "axial_pos_embds": False, "max_position_embeddings": 64,
        "local_attn_chunk_length": 4, "lsh_attn_chunk_length": 4, "num_buckets": 4, "hash_seed": 0,
        "hidden_dropout_prob": 0.0, "local_attention_probs_dropout_prob": 0.0,
    }, lambda: {"input_ids": torch.arange(24).view(2, 12) + 3}),
    "DetrForObjectDetection": ("DetrConfig", {
        **QUERIES, "backbone_config": {"model_type": "resnet", **PICTURES, "out_features": ["stage4"]},
    }, lambda: image(64)),
    "DeformableDetrForObjectDetection": ("DeformableDetrConfig", {
        **QUERIES, "num_feature_levels": 2,
        "backbone_config": {"model_type": "resnet", **PICTURES, "out_features": ["stage3", "stage4"]},
    }, lambda: image(64)),
    "RTDetrForObjectDetection": ("RTDetrConfig", {
        **QUERIES, "encoder_layers": 1, "encoder_hidden_dim": 32, "encoder_in_channels": [16, 16, 32],
        "decoder_in_channels": [32, 32, 32], "num_denoising": 0, "initializer_range": 1.0,
        "backbone_config": {"model_type": "rt_detr_resnet", **PICTURES, "out_features": ALL_STAGES[1:]},
    }, lambda: image(64)),
    "YolosForObjectDetection": ("YolosConfig", {**PATCHES, "image_size": [32, 32], "num_detection_tokens": 6}, image),
    "OwlViTForObjectDetection": ("OwlViTConfig", {
        "text_config": {**SIZES, **ENDS}, "vision_config": PATCHES, "projection_dim": 32,
    }, both),
    "SamModel": ("SamConfig", {
        "vision_config": {
            **SIZES, "image_size": 32, "patch_size": 4, "output_channels": 16, "window_size": 4,
            "global_attn_indexes": [1], "num_pos_feats": 8, "mlp_dim": 32,
        },
        "prompt_encoder_config": {"hidden_size": 16, "image_size": 32, "patch_size": 4, "mask_input_channels": 4},
        "mask_decoder_config": {
            "hidden_size": 16, "mlp_dim": 32, "num_attention_heads": 2, "iou_head_hidden_dim": 16,
        },
    }, lambda: {**image(), "input_points": torch.rand(2, 1, 2, 2) * 32}),
    "Mask2FormerForUniversalSegmentation": ("Mask2FormerConfig", {
        "feature_size": 32, "mask_feature_size": 32, "hidden_dim": 32, "encoder_feedforward_dim": 64,
        "encoder_layers": 1, "decoder_layers": 3, "num_attention_heads": 4, "dim_feedforward": 64, "num_queries": 6,
        "backbone_config": {
            "model_type": "swin", "image_size": 64, "patch_size": 4, "embed_dim": 16, "depths": [1, 1, 1, 1],
            "num_heads": [2, 2, 4, 4], "window_size": 4, "out_features": ALL_STAGES,
        },
    }, lambda: image(64)),
    "UperNetForSemanticSegmentation": ("UperNetConfig", {
        "backbone_config": {"model_type": "convnext", **STAGES, "out_features": ALL_STAGES}, "hidden_size": 16,
        "pool_scales": [1, 2], "auxiliary_in_channels": 16, "auxiliary_channels": 8, "num_labels": 3,
    }, image),
    "DPTForDepthEstimation": ("DPTConfig", {**DENSE, **NECK, "backbone_out_indices": [0, 1, 2, 3]}, image),
    "DepthAnythingForDepthEstimation": ("DepthAnythingConfig", {
        "backbone_config": {
            "model_type": "dinov2", **DENSE, "out_features": ALL_STAGES, "reshape_hidden_states": False,
        },
        "reassemble_hidden_size": 32, "patch_size": 8, "head_hidden_size": 8, **NECK,
    }, image),
    "VideoMAEModel": ("VideoMAEConfig", {
        **PATCHES, "num_frames": 4,
    }, lambda: {"pixel_values": torch.randn(2, 4, 3, 32, 32)}),
    "LevitModel": ("LevitConfig", {
        "image_size": 64, "hidden_sizes": [16, 32, 32], "num_attention_heads": [2, 2, 2], "depths": [1, 1, 1],
        "key_dim": [8, 8, 8],
    }, lambda: image(64)),
    "PvtV2Model": ("PvtV2Config", {
        "image_size": 32, "hidden_sizes": [8, 16, 16, 16], "depths": [1, 1, 1, 1], "num_attention_heads": [1, 1, 2, 2],
    }, image),
    "BitModel": ("BitConfig", {
        "embedding_size": 8, "hidden_sizes": [8, 16, 16, 16], "depths": [1, 1, 1, 1], "num_groups": 4,
    }, image),
    "ViltModel": ("ViltConfig", PATCHES, both),
    "LayoutLMv3Model": ("LayoutLMv3Config", {
        **SIZES, "input_size": 32, "patch_size": 8, "coordinate_size": 4, "shape_size": 8,
        "has_relative_attention_bias": True, "has_spatial_attention_bias": True,
    }, lambda: {**both(), "bbox": torch.arange(48).view(2, 6, 4) % 7}),
    "FlavaModel": ("FlavaConfig", {
        "text_config": SIZES, "image_config": PATCHES, "multimodal_config": SIZES, "projection_dim": 16,
        "hidden_size": 32,
    }, both),
    "GitForCausalLM": ("GitConfig", {**SIZES, "vision_config": PATCHES, **ENDS}, both),
    "ClapModel": ("ClapConfig", {
        "text_config": {**SIZES, "projection_dim": 16}, "projection_dim": 16,
        "audio_config": {
            "hidden_size": 32, "spec_size": 64, "num_mel_bins": 16, "depths": [1, 1], "num_attention_heads": [2, 4],
            "patch_embeds_hidden_size": 16, "patch_size": 4, "patch_stride": [4, 4], "window_size": 4,
            "projection_dim": 16, "num_hidden_layers": 2,
        },
    }, lambda: {
        **words(), "input_features": torch.randn(2, 1, 64, 16), "is_longer": torch.tensor([[True], [False]]),
    }),
    "EncodecModel": ("EncodecConfig", {
        "hidden_size": 16, "num_filters": 4, "upsampling_ratios": [4, 2], "codebook_size": 16, "codebook_dim": 16,
        "target_bandwidths": [24.0],
    }, lambda: {"input_values": torch.randn(2, 1, 160)}),
    "DacModel": ("DacConfig", {
        "encoder_hidden_size": 8, "downsampling_ratios": [2, 4], "decoder_hidden_size": 32,
        "upsampling_ratios": [4, 2], "n_codebooks": 2, "codebook_size": 16, "codebook_dim": 4, "hidden_size": 32,
    }, lambda: {"input_values": torch.randn(2, 1, 160)}),
    "SpeechT5ForTextToSpeech": ("SpeechT5Config", {
        "hidden_size": 32, **LAYERS, "vocab_size": 100, "num_mel_bins": 8, "speech_decoder_prenet_units": 16,
        "speech_decoder_postnet_units": 16, "speaker_embedding_dim": 16, "conv_dim": (16, 16), "conv_stride": (5, 2),
        "conv_kernel": (10, 3), "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4,
        "encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0, "speech_decoder_prenet_dropout": 0.0,
    }, lambda: {
        **words(), "decoder_input_values": torch.randn(2, 6, 8), "speaker_embeddings": torch.randn(2, 16),
    }),
    "MusicgenForCausalLM": ("MusicgenDecoderConfig", {
        "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 64, "vocab_size": 100,
        "max_position_embeddings": 64, "num_codebooks": 2, "pad_token_id": 100, "bos_token_id": 100,
    }, lambda: {"input_ids": torch.arange(24).view(4, 6) + 3}),
    "UniSpeechSatModel": ("UniSpeechSatConfig", SOUND, sound),
    "SEWDModel": ("SEWDConfig", {**SOUND, "squeeze_factor": 2}, sound),
    "Wav2Vec2ConformerModel": ("Wav2Vec2ConformerConfig", SOUND, sound),
    "BarkSemanticModel": ("BarkSemanticConfig", {
        "block_size": 32, "input_vocab_size": 100, "output_vocab_size": 100, "num_layers": 2, "num_heads": 4,
        "hidden_size": 32,
    }, words),
    "TimeSeriesTransformerForPrediction": ("TimeSeriesTransformerConfig", SERIES, series),
    "InformerForPrediction": ("InformerConfig", SERIES, series),
    "PatchTSTForPrediction": ("PatchTSTConfig", {
        "d_model": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "ffn_dim": 32, "num_input_channels": 2,
        "context_length": 16, "patch_length": 4, "patch_stride": 4, "prediction_length": 4,
    }, lambda: {"past_values": torch.randn(2, 16, 2), "future_values": torch.randn(2, 4, 2)}),
    "LEDForConditionalGeneration": ("LEDConfig", {
        **BART, "attention_window": 4, "max_encoder_position_embeddings": 64, "max_decoder_position_embeddings": 64,
        **ENDS,
    }, lambda: {
        "input_ids": torch.arange(16).view(2, 8) + 3, "decoder_input_ids": torch.arange(6).view(2, 3) + 3,
    }),
    "M2M100ForConditionalGeneration": ("M2M100Config", {
        **BART, "encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0, "decoder_start_token_id": 2, **ENDS,
    }, pairs),
    "BlenderbotForConditionalGeneration": ("BlenderbotConfig", {**BART, "decoder_start_token_id": 2, **ENDS}, pairs),
    "ProphetNetForConditionalGeneration": ("ProphetNetConfig", {
        "hidden_size": 32, "encoder_ffn_dim": 64, "num_encoder_layers": 2, "num_encoder_attention_heads": 4,
        "decoder_ffn_dim": 64, "num_decoder_layers": 2, "num_decoder_attention_heads": 4, "vocab_size": 100,
        "max_position_embeddings": 64, "decoder_start_token_id": 2, **ENDS,
    }, pairs),
    "Qwen2MoeForCausalLM": ("Qwen2MoeConfig", {
        **GROUPED, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
        "shared_expert_intermediate_size": 32, **ENDS,
    }, words),
    "DeepseekV3ForCausalLM": ("DeepseekV3Config", {
        **SIZES, "moe_intermediate_size": 16, "n_routed_experts": 8, "num_experts_per_tok": 2, "n_group": 2,
        "topk_group": 1, "q_lora_rank": 16, "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4,
        "v_head_dim": 8, "first_k_dense_replace": 1, **ENDS,
    }, words),
    "GptOssForCausalLM": ("GptOssConfig", {
        **GROUPED, "head_dim": 8, "num_local_experts": 4, "num_experts_per_tok": 2, **ENDS,
    }, words),
    "Mamba2ForCausalLM": ("Mamba2Config", {
        "hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 100, "state_size": 8, "num_heads": 8, "head_dim": 8,
        "n_groups": 2, "chunk_size": 4, **ENDS,
    }, words),
    "RecurrentGemmaForCausalLM": ("RecurrentGemmaConfig", {
        **SIZES, "num_hidden_layers": 3, "lru_width": 32, "head_dim": 8, "attention_window_size": 8, **ENDS,
    }, words),
    "JambaForCausalLM": ("JambaConfig", {
        **GROUPED, "num_hidden_layers": 4, "attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 2,
        "expert_layer_offset": 1, "num_experts": 2, "mamba_d_state": 8, "use_mamba_kernels": False, **ENDS,
    }, words),
    "XGLMForCausalLM": ("XGLMConfig", {
        "d_model": 32, "num_layers": 2, "attention_heads": 4, "ffn_dim": 64, "vocab_size": 100,
        "max_position_embeddings": 64, **ENDS,
    }, words),
    "CodeGenForCausalLM": ("CodeGenConfig", {**SMALL, "rotary_dim": 4, **ENDS}, words),
    "PersimmonForCausalLM": ("PersimmonConfig", {**SIZES, **ENDS}, words),
    "CanineModel": ("CanineConfig", {
        **SIZES, "downsampling_rate": 2, "local_transformer_stride": 4, "num_hash_buckets": 64,
        "max_position_embeddings": 64,
    }, lambda: {"input_ids": torch.arange(16).view(2, 8) + 3}),
    "IBertModel": ("IBertConfig", SIZES, words),
    "EsmModel": ("EsmConfig", {
        **SIZES, "mask_token_id": 99, "pad_token_id": 0, "position_embedding_type": "rotary", "token_dropout": True,
    }, words),
    "TapasModel": ("TapasConfig", {
        **SIZES, "type_vocab_sizes": [3, 4, 4, 4, 4, 4, 4],
    }, lambda: {**words(), "token_type_ids": torch.zeros(2, 6, 7, dtype=torch.long)}),
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
    """Words: the likeliest, drawn, and, where states can be put in another order, by beams."""
    limits = {"max_new_tokens": 4, "pad_token_id": 0}
    likeliest = model.generate(start, do_sample=False, **limits)
    torch.manual_seed(3)
    drawn = model.generate(start, do_sample=True, **limits)
    found = [likeliest, drawn]
    if "Rwkv" not in type(model).__name__:
        found.append(model.generate(start, do_sample=False, num_beams=2, **limits))
    return [words[:, -4:].tolist() for words in found]


def run_more(name: str) -> dict:
    import transformers as t

    config, sizes, make = MORE[name]
    torch.manual_seed(0)
    model = getattr(t, name)(getattr(t, config)(**sizes)).train(name in TRAINED)
    inputs = make()
    if name.startswith(("Marian", "Pegasus", "MBart")):
        inputs["decoder_input_ids"] = inputs["input_ids"]
    results = [r for r in model(**inputs).to_tuple() if isinstance(r, torch.Tensor) and r.requires_grad]
    # Sums with weights: behind a norm, sums of squares have no slope but rounding.
    sum((r * torch.arange(r.numel()).view(r.shape).cos()).sum() for r in results).backward()
    grads = [p.grad.double().abs().sum().item() for p in model.parameters() if p.grad is not None]
    writes = "CausalLM" in name and not name.startswith("Musicgen")  # which writes sounds
    text = written_by(model.eval(), words()["input_ids"]) if writes or "LMHead" in name or "MT" in name else None
    total = sum(r.double().abs().sum().item() for r in results)
    return {"shape": [list(r.shape) for r in results], "sum": total, "grads": sum(grads), "text": text}


if __name__ == "__main__":
    for name in sys.argv[1:] or [*MODELS, *MORE]:
        print(json.dumps({name: (run if name in MODELS else run_more)(name)}), flush=True)
