"""Modules of public packages, a table for each field: how one is made, and what it is called with. Each is compiled
whole (fullgraph=True) by the engine and called three times, the last time with another size; as JSON, a line each:
how many graphs, and how far from the module itself; or why there is no one graph. `narthex run` runs them all in one
process."""

import json
import sys
import warnings

import torch
from torch import nn

from tests.packages.models import MODELS, MORE, words
from tests.packages.timm_models import FAMILIES
from tests.packages.torchvision_names import stand_for_torchvision

SIZES = (2, 2, 1)  # of the batch: the same once more, then another

# Those of timm that take small images and have few parameters.
IMAGES = (
    "byobnet", "convnext", "cpubone", "csatv2", "cspnet", "cspnext", "densenet", "dla", "dpn", "edgenext",
    "efficientnet", "efficientvim", "efficientvit_mit", "fasternet", "fastvit", "ghostnet", "hardcorenas", "hgnet",
    "hrnet", "iformer", "inception_next", "lcnetv2", "mambaout", "maxxvit", "metaformer", "mobilenetv3", "mobilevit",
    "nfnet", "pvt_v2", "regnet", "repghost", "repvit", "resnest", "resnet", "resnetv2", "rexnet", "senet", "shvit",
    "sknet", "starnet", "tiny_vit", "vision_transformer", "vision_transformer_relpos", "vovnet", "xception",
)  # fmt: skip

# torch_geometric.nn: arguments; what is called with more than nodes and edges says so.
GRAPHS = {
    "GCN": (8, 16, 2, 4), "GraphSAGE": (8, 16, 2, 4), "GIN": (8, 16, 2, 4), "GAT": (8, 16, 2, 4),
    "EdgeCNN": (8, 16, 2, 4), "GraphUNet": (8, 16, 4, 2), "AttentiveFP": (8, 16, 4, 3, 2, 2), "ChebConv": (8, 4, 2),
    "SGConv": (8, 4, 2), "GATv2Conv": (8, 4, 2), "TransformerConv": (8, 4, 2), "TAGConv": (8, 4), "ARMAConv": (8, 4),
    "GatedGraphConv": (8, 2), "GENConv": (8, 4), "APPNP": (3, 0.1), "SuperGATConv": (8, 4), "LEConv": (8, 4),
    "ClusterGCNConv": (8, 4), "FeaStConv": (8, 4), "ResGatedGraphConv": (8, 4), "MFConv": (8, 4),
    "HypergraphConv": (8, 4), "FiLMConv": (8, 4), "GraphConv": (8, 4), "RGCNConv": (8, 4, 3),
}  # fmt: skip

# torchsr's networks, for a scale of two, and those of unet, for dimensions.
SHARPER = ("carn_m", "edsr_baseline", "ninasr_b0", "vdsr")
UNETS = {"UNet1D": 1, "UNet2D": 2, "UNet3D": 3}
GANS = ("dcgan generator", "dcgan discriminator", "self-attention", "full attention")


def of_transformers(name):
    import transformers

    config, sizes, make = MODELS[name] + (words,) if name in MODELS else MORE[name]
    torch.manual_seed(0)
    model = getattr(transformers, name)(getattr(transformers, config)(**sizes))
    inputs = make()
    if name.startswith(("Marian", "Pegasus", "MBart", "T5", "Bart")):
        inputs["decoder_input_ids"] = inputs["input_ids"]
    each = getattr(model.config, "num_codebooks", 1)  # rows of words that are one sound
    inputs = {key: torch.cat([value] * each) for key, value in inputs.items()}
    return model, [{key: value[: n * each] for key, value in inputs.items()} for n in SIZES]


def batches(*shape):
    x = torch.randn(2, *shape)
    return [(x[:n],) for n in SIZES]


def of_timm(family):
    stand_for_torchvision()
    import timm

    model = timm.create_model(FAMILIES[family])
    size = model.default_cfg["input_size"] if model.default_cfg.get("fixed_input_size") else (3, 64, 64)
    return model, batches(*size)


def of_geometric(name):
    import torch_geometric.nn

    def graph(nodes, edges):
        kinds, molecules = torch.arange(edges) % 3, torch.arange(nodes) // 8
        more = {"AttentiveFP": (torch.randn(edges, 3), molecules), "RGCNConv": (kinds,)}
        return torch.randn(nodes, 8), torch.randint(0, nodes, (2, edges)), *more.get(name, ())

    first = graph(10, 30)
    return getattr(torch_geometric.nn, name)(*GRAPHS[name]), [first, first, graph(16, 40)]


def of_torchsr(name):
    stand_for_torchvision()
    import torchsr.models

    return getattr(torchsr.models, name)(scale=2), batches(3, 16, 16)


def of_unet(name):
    import unet

    dimensions = UNETS[name]
    made = getattr(unet, name)(num_encoding_blocks=3, out_channels_first_layer=4, normalization="batch", padding=1)
    return made, batches(1, *[16] * dimensions)


def of_gans(name):
    import attn_gan_pytorch.CustomLayers as layers
    import dcgan_pytorch

    if name.startswith("dcgan"):
        generates = name.endswith("generator")
        made = dcgan_pytorch.Generator if generates else dcgan_pytorch.Discriminator
        model = made.from_name("g-mnist" if generates else "d-mnist")
        return model, batches(100, 1, 1) if generates else batches(1, 64, 64)
    attention = layers.SelfAttention(16) if name == "self-attention" else layers.FullAttention(16, 8)
    return nn.Sequential(nn.Conv2d(3, 16, 3), nn.LeakyReLU(0.2), attention), batches(3, 10, 10)


FIELDS = {  # those that ask whether torchvision is there come before those that need something in its place
    "transformers": (of_transformers, (*MODELS, *MORE)),
    "graphs": (of_geometric, tuple(GRAPHS)),
    "images": (of_timm, IMAGES),
    "images made sharper": (of_torchsr, SHARPER),
    "images in parts": (of_unet, tuple(UNETS)),
    "adversaries": (of_gans, GANS),
}


def tensors(result):
    if isinstance(result, torch.Tensor):
        return [result]
    parts = result.to_tuple() if hasattr(result, "to_tuple") else result
    return [part for part in parts if isinstance(part, torch.Tensor)]


def run(make, name):
    graphs, worst, engine = [], 0.0, torch._dynamo.lookup_backend("inductor")

    def backend(gm, example_inputs):
        graphs.append(gm)
        return engine(gm, example_inputs)

    torch.manual_seed(0)
    model, calls = make(name)
    compiled = torch.compile(model.eval(), fullgraph=True, backend=backend)
    for given in calls:
        args, named = ((), given) if isinstance(given, dict) else (given, {})
        before = {key: value.clone() for key, value in model.state_dict().items()}
        torch.manual_seed(5)
        expected = tensors(model(*args, **named))
        model.load_state_dict(before)  # some write their parameters
        torch.manual_seed(5)
        for a, b in zip(tensors(compiled(*args, **named)), expected, strict=True):
            worst = max(worst, (a - b).abs().max().item() if a.numel() else 0.0)
    return {"graphs": len(graphs), "apart": worst}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for field, (make, names) in FIELDS.items():
        for name in names if len(sys.argv) == 1 else [name for name in names if name in sys.argv]:
            try:
                found = run(make, name)
            except Exception as error:
                found = {"error": f"{type(error).__name__}: {error}"}
            print(json.dumps({"field": field, "name": name, **found}), flush=True)
