"""transformers: Trainer for some steps, a checkpoint by safetensors and back, and text drawn by chance and by beams."""

import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, PrinterCallback, Trainer, TrainingArguments

torch.manual_seed(0)
sizes = {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 100, "n_positions": 64}
model = GPT2LMHeadModel(GPT2Config(bos_token_id=1, eos_token_id=2, pad_token_id=0, **sizes))
words = torch.randint(3, 100, (32, 12))
data = [{"input_ids": row, "labels": row} for row in words]
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        folder, max_steps=6, per_device_train_batch_size=8, learning_rate=1e-2, logging_steps=1, report_to=[],
        use_cpu=True, save_strategy="no", disable_tqdm=True, seed=0,
    )  # fmt: skip
    trainer = Trainer(model=model, args=arguments, train_dataset=data)
    trainer.remove_callback(PrinterCallback)  # which prints seconds
    trainer.train()
    print([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
    model.save_pretrained(folder)
    again = GPT2LMHeadModel.from_pretrained(folder).eval()
print(all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), again.state_dict().values())))
start = words[:2, :4]
torch.manual_seed(1)
print(again.generate(start, max_new_tokens=8, do_sample=True, top_k=20, pad_token_id=0).tolist())
print(again.generate(start, max_new_tokens=8, num_beams=3, do_sample=False, pad_token_id=0).tolist())
