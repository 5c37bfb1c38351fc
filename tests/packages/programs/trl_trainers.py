"""trl: supervised fine-tuning, preferences (DPO) and rewards of a tiny random model."""
import contextlib
import io
import logging
import tempfile
import warnings

import torch
from datasets import Dataset, disable_progress_bars
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, LlamaForSequenceClassification, PreTrainedTokenizerFast
from trl import DPOConfig, DPOTrainer, RewardConfig, RewardTrainer, SFTConfig, SFTTrainer

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)

disable_progress_bars()
words = ["[pad]", "[eos]", "[unk]", *"the a cat dog runs sleeps fast slowly and red blue is was not very here".split()]
core = Tokenizer(models.WordLevel({w: k for k, w in enumerate(words)}, unk_token="[unk]"))
core.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, pad_token="[pad]", eos_token="[eos]", unk_token="[unk]")
config = LlamaConfig(vocab_size=len(words), hidden_size=16, intermediate_size=32, num_hidden_layers=2,
                     num_attention_heads=2, num_key_value_heads=2, pad_token_id=0, eos_token_id=1, bos_token_id=1)
texts = ["the cat runs fast", "a dog sleeps slowly and is red", "the dog was not very blue", "a cat is here"] * 3
pairs = Dataset.from_list([{"prompt": "the", "chosen": " cat runs", "rejected": " dog sleeps here"},
                           {"prompt": "a", "chosen": " dog is red", "rejected": " cat was not"}] * 4)


def common(folder):
    return {
        "output_dir": folder, "max_steps": 3, "per_device_train_batch_size": 2, "report_to": "none", "use_cpu": True,
        "disable_tqdm": True, "logging_steps": 1, "save_strategy": "no", "seed": 0, "learning_rate": 1e-2,
        "bf16": False, "gradient_checkpointing": False,
    }


def train(trainer):
    with contextlib.redirect_stdout(io.StringIO()):  # times of the run
        trainer.train()
    print(type(trainer).__name__, [f"{row['loss']:.4f}" for row in trainer.state.log_history if "loss" in row])


with tempfile.TemporaryDirectory() as folder:
    torch.manual_seed(0)
    trainer = SFTTrainer(LlamaForCausalLM(config), SFTConfig(**common(folder), max_length=16),
                         train_dataset=Dataset.from_dict({"text": texts}), processing_class=tokenizer)
    train(trainer)
    torch.manual_seed(0)
    trainer = DPOTrainer(LlamaForCausalLM(config), LlamaForCausalLM(config), DPOConfig(**common(folder)),
                         train_dataset=pairs, processing_class=tokenizer)
    train(trainer)
    torch.manual_seed(0)
    config.num_labels = 1
    trainer = RewardTrainer(LlamaForSequenceClassification(config), RewardConfig(**common(folder)), train_dataset=pairs,
                            processing_class=tokenizer)
    train(trainer)
