"""Public packages in an environment that has no PyTorch: a line for each that works. README.md says how such an
environment is made; `narthex run tests/wheel/packages.py` runs this there."""

import tempfile

import torch


def transformers() -> str:
    from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

    sizes = {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 100, "n_positions": 64}
    ends = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    samples = [{"input_ids": torch.arange(k, k + 6), "labels": torch.arange(k, k + 6)} for k in range(16)]
    with tempfile.TemporaryDirectory() as folder:
        GPT2LMHeadModel(GPT2Config(**sizes, **ends)).save_pretrained(folder)
        model = AutoModelForCausalLM.from_pretrained(folder)
        how = TrainingArguments(folder, max_steps=4, per_device_train_batch_size=4, report_to=[], disable_tqdm=True)
        loss = Trainer(model, how, train_dataset=samples).train().training_loss
    written = model.generate(torch.tensor([[5, 6, 7]]), max_new_tokens=5, do_sample=False)
    return f"trained to {loss:.2f}, wrote {written[0, 3:].tolist()}"


def timm() -> str:
    from timm import create_model

    model = create_model("test_vit")
    model(torch.randn(2, 3, 160, 160)).square().mean().backward()
    return f"{sum(parameter.grad is not None for parameter in model.parameters())} gradients of test_vit"


def safetensors() -> str:
    from safetensors.torch import load_model, safe_open, save_model

    with tempfile.NamedTemporaryFile() as file:
        first, second = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
        save_model(first, file.name)
        load_model(second, file.name)
        with safe_open(file.name, framework="pt") as part:
            assert part.get_slice("weight")[:, 1:].equal(first.weight[:, 1:])
    assert first.weight.equal(second.weight)
    return "a layer, written and read"


def einops() -> str:
    from einops import reduce
    from einops.layers.torch import Rearrange

    layers = torch.nn.Sequential(Rearrange("a b c -> a (b c)"), torch.nn.Linear(12, 2))
    means = reduce(torch.arange(24.0).view(2, 3, 4), "a b c -> a", "mean").tolist()
    return f"{list(layers(torch.ones(5, 3, 4)).shape)}, means {means}"


if __name__ == "__main__":
    assert torch.__spec__.name == "narthex"
    torch.manual_seed(0)
    for check in (transformers, timm, safetensors, einops):
        print(f"{check.__name__}: {check()}", flush=True)
