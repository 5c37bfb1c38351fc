"""The smallest model of each family of timm, with random weights: of the families that are named, the sums of what it
gives and of its gradients, as JSON, a line each. Ordinary PyTorch: run by PyTorch and by `narthex run`, it is to print
the same."""

import json
import sys

import torch

FAMILIES = {  # a module of timm.models: its smallest model
    "beit": "beit_base_patch16_224", "byoanet": "halonet_h1", "byobnet": "test_byobnet", "cait": "cait_xxs24_224",
    "coat": "coat_tiny", "convit": "convit_tiny", "convmixer": "convmixer_768_32", "convnext": "test_convnext",
    "cpubone": "cpubone_nano", "crossvit": "crossvit_tiny_240", "csatv2": "csatv2", "cspnet": "cs3darknet_focus_s",
    "cspnext": "cspnext_tiny", "davit": "davit_tiny", "deepseek_vit": "deepseek_vit_412m",
    "deit": "deit_tiny_patch16_224", "densenet": "densenet121", "dla": "dla46x_c", "dpn": "dpn48b",
    "edgenext": "edgenext_xx_small", "efficientformer": "efficientformer_l1",
    "efficientformer_v2": "efficientformerv2_s0", "efficientnet": "test_efficientnet",
    "efficientvim": "efficientvim_m1", "efficientvit_mit": "efficientvit_b0", "efficientvit_msra": "efficientvit_m0",
    "eva": "vit_tiny_patch16_dinov3_qkvb", "fasternet": "fasternet_t0", "fastvit": "fastvit_t8",
    "focalnet": "focalnet_tiny_srf", "gcvit": "gcvit_xxtiny", "gemma4_vit": "gemma4_vit_167m",
    "ghostnet": "ghostnet_050", "hardcorenas": "hardcorenas_b", "hgnet": "hgnetv2_b0", "hiera": "hiera_tiny_224",
    "hieradet_sam2": "sam2_hiera_tiny", "hrnet": "hrnet_w18_small", "iformer": "iformer_t",
    "inception_next": "inception_next_atto", "inception_resnet_v2": "inception_resnet_v2",
    "inception_v3": "inception_v3", "inception_v4": "inception_v4", "lcnetv2": "lcnetv2_small", "levit": "levit_128s",
    "lowformer": "lowformer_b0", "mambaout": "test_mambaout", "maxxvit": "test_coatnet", "metaformer": "poolformer_s12",
    "mlp_mixer": "gmixer_12_224", "mobilenetv3": "mobilenetv3_small_050", "mobilenetv5": "mobilenetv5_base",
    "mobilevit": "mobilevit_xxs", "mvitv2": "mvitv2_tiny", "naflexvit": "naflexvit_base_patch16_gap",
    "nasnet": "nasnetalarge", "nest": "nest_tiny", "nextvit": "nextvit_small", "nfnet": "test_nfnet",
    "pit": "pit_ti_224", "pnasnet": "pnasnet5large", "pvt_v2": "pvt_v2_b0", "qwen3_vit": "qwen3_vit_88m",
    "rdnet": "rdnet_tiny", "regnet": "regnetx_002", "repghost": "repghostnet_050", "repvit": "repvit_m1",
    "res2net": "res2next50", "resnest": "resnest14d", "resnet": "test_resnet", "resnetv2": "resnetv2_18",
    "rexnet": "rexnet_100", "selecsls": "selecsls42", "senet": "legacy_seresnet18", "sequencer": "sequencer2d_s",
    "shvit": "shvit_s1", "sknet": "skresnet18", "starnet": "starnet_s050", "swiftformer": "swiftformer_xs",
    "swin_transformer": "swin_tiny_patch4_window7_224", "swin_transformer_v2": "swinv2_tiny_window8_256",
    "swin_transformer_v2_cr": "swinv2_cr_tiny_224", "tiny_vit": "tiny_vit_5m_224", "tnt": "tnt_s_legacy_patch16_224",
    "tresnet": "tresnet_m", "twins": "twins_svt_small", "vgg": "vgg11", "visformer": "visformer_tiny",
    "vision_transformer": "test_vit", "vision_transformer_hybrid": "vit_tiny_r_s16_p8_224",
    "vision_transformer_relpos": "test_vit_relpos", "vision_transformer_sam": "samvit_base_patch16_224",
    "vitamin": "vitamin_small_224", "volo": "volo_d1_224", "vovnet": "ese_vovnet19b_slim_dw", "xception": "xception",
    "xception_aligned": "xception41p", "xcit": "xcit_nano_12_p8_224",
}  # fmt: skip
# Batch norm over few places multiplies the rounding of float32, and a relu may stand on either side of 0: in float64.
EXACT = {
    "convmixer", "densenet", "dla", "dpn", "efficientvim", "ghostnet", "hgnet", "inception_resnet_v2", "inception_v3",
    "inception_v4", "nasnet", "pnasnet", "rexnet", "selecsls", "sknet",
}  # fmt: skip
# The mean of squares of what is normed, or of zeros, has no gradient to speak of.
CUBES = {"deepseek_vit", "gemma4_vit", "hieradet_sam2", "qwen3_vit", "volo"}


def numbers(family: str) -> dict:
    torch.manual_seed(0)
    dtype = torch.float64 if family in EXACT else torch.float32
    model = timm.create_model(FAMILIES[family]).to(dtype)
    size = model.default_cfg["input_size"]
    if not model.default_cfg.get("fixed_input_size"):  # the smallest that the model is meant for, or a small one
        size = model.default_cfg.get("min_input_size") or (3, 128, 128)
    result = model(torch.randn(2, *size).to(dtype))
    result = result[0] if isinstance(result, (tuple, list)) else result
    (((result + 1) ** 3).mean() if family in CUBES else result.square().mean()).backward()
    gradients = [p.grad.detach().double().abs().sum().item() for p in model.parameters() if p.grad is not None]
    return {"shape": list(result.shape), "sum": result.detach().double().abs().sum().item(), "gradients": gradients}


if __name__ == "__main__":
    from torchvision_names import stand_for_torchvision

    stand_for_torchvision()
    import timm

    for family in sys.argv[1:]:
        try:
            print(json.dumps({family: numbers(family)}), flush=True)
        except Exception as error:
            print(json.dumps({family: {"error": f"{type(error).__name__}: {error}"}}), flush=True)
