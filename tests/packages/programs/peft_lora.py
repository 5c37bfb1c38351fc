"""peft: LoRA on a small GPT-2, trained for five steps, its adapters saved and merged."""

import tempfile

import torch
from peft import LoraConfig, get_peft_model
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(0)
sizes = {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 100, "n_positions": 64}
model = GPT2LMHeadModel(GPT2Config(bos_token_id=1, eos_token_id=2, pad_token_id=0, **sizes))
lora = LoraConfig(r=4, lora_alpha=8, target_modules=["c_attn"], task_type="CAUSAL_LM", fan_in_fan_out=True)
model = get_peft_model(model, lora)
model.print_trainable_parameters()
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
x = torch.randint(3, 100, (4, 16))
for _ in range(5):
    loss = model(input_ids=x, labels=x).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
with tempfile.TemporaryDirectory() as folder:
    model.save_pretrained(folder)
print(model.merge_and_unload()(x).logits.double().abs().sum().item())
