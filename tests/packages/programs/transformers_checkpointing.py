"""Gradient checkpointing of transformers, compiled whole: a small GPT-2 and a small Llama train, with dropout."""

import torch
import torch._dynamo
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

SMALL = {"vocab_size": 97, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}


def make(name):
    torch.manual_seed(0)
    if name == "gpt2":
        return GPT2LMHeadModel(GPT2Config(n_embd=32, n_layer=3, n_head=4, n_positions=32, **SMALL))
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4}
    return LlamaForCausalLM(LlamaConfig(max_position_embeddings=32, attention_dropout=0.1, **sizes, **SMALL))


for name in ("gpt2", "llama"):
    for how in (None, False):
        model, graphs = make(name).train(), []
        if how is not None:
            model.gradient_checkpointing_enable({"use_reentrant": how})

        def step(words, model=model):
            logits = model(input_ids=words, use_cache=False).logits
            return torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), words[:, 1:].flatten())

        def backend(gm, example_inputs, graphs=graphs):
            graphs.append(gm)
            return torch._dynamo.lookup_backend("aot_eager")(gm, example_inputs)

        compiled = torch.compile(step, backend=backend, fullgraph=True)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        words = torch.arange(2 * 16).view(2, 16) * 7 % 97
        for number in range(3):
            torch.manual_seed(number)
            loss = compiled(words)
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            print(f"{name} {'checkpoints' if how is False else 'plain'} {loss.item():.5f} {norm.item():.5f}")
        print(f"{len(graphs)} graph")
