"""The models of models.py compiled whole (fullgraph=True), as JSON: how many graphs, and how far from the model itself;
or why there is no one graph. Run by `narthex run`."""

import json
import sys
import warnings

import torch

from tests.packages.models import MODELS, MORE, words


def tensors(result) -> list:
    return [part for part in result.to_tuple() if isinstance(part, torch.Tensor)]


def run(name: str) -> dict:
    import transformers

    config, sizes, make = MODELS[name] + (words,) if name in MODELS else MORE[name]
    torch.manual_seed(0)
    model = getattr(transformers, name)(getattr(transformers, config)(**sizes)).eval()
    inputs, graphs = make(), []
    if name.startswith(("Marian", "Pegasus", "MBart", "T5", "Bart")):
        inputs["decoder_input_ids"] = inputs["input_ids"]

    def backend(gm, example_inputs):
        graphs.append(gm)
        return gm.forward

    compiled, worst = torch.compile(model, fullgraph=True, backend=backend), 0.0
    for n in (2, 2, 1):  # the same once more, then a batch of another size
        given = {key: value[:n] for key, value in inputs.items()}
        torch.manual_seed(5)
        expected = tensors(model(**given))
        torch.manual_seed(5)
        for a, b in zip(tensors(compiled(**given)), expected, strict=True):
            worst = max(worst, (a - b).abs().max().item() if a.numel() else 0.0)
    return {"graphs": len(graphs), "apart": worst}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for name in sys.argv[1:] or [*MODELS, *MORE]:
        try:
            print(json.dumps({name: run(name)}), flush=True)
        except RuntimeError as error:
            print(json.dumps({name: {"error": str(error)}}), flush=True)
