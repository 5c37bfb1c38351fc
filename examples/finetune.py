"""Fine-tunes a small transformer of transformers: whether a sentence of made-up reviews is content or not.

    python examples/finetune.py --epochs 4

A BERT of two layers with random weights, so that nothing is fetched; give --model NAME for one that is on this machine.
"""

import argparse
import itertools
import random

import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader
from transformers import AutoModelForSequenceClassification, BertConfig, BertForSequenceClassification, set_seed

SUBJECTS = ["the soup", "our room", "the view", "this phone", "the film", "her voice", "the garden", "the service"]
GOOD = ["lovely", "warm", "quick", "bright", "fresh", "quiet", "generous"]
BAD = ["dull", "cold", "slow", "broken", "stale", "noisy", "mean"]
TURNS = ["{a} and {b}", "{a}, truly {b}", "not {c} but {b}", "never {c}, always {a}"]


def make_sentences(seed):
    """Shuffled sentences with 1 for content and 0 for not: "the view was not dull but fresh"."""
    made = []
    for subject, turn, kind in itertools.product(SUBJECTS, TURNS, (0, 1)):
        own, other = (GOOD, BAD) if kind else (BAD, GOOD)
        for a, b, c in itertools.islice(zip(own, own[1:], other), 5):
            made.append((f"{subject} was {turn.format(a=a, b=b, c=c)}".split(), kind))
    random.Random(seed).shuffle(made)
    return made


def collate(rows):
    """Token numbers (n, longest), 0 behind each sentence's end, the mask of what is there, and kinds (n)."""
    tokens = pad_sequence([torch.tensor(tokens) for tokens, _ in rows], batch_first=True)
    return {
        "input_ids": tokens,
        "attention_mask": (tokens > 0).long(),
        "labels": torch.tensor([kind for _, kind in rows]),
    }


def right(model, batches):
    model.eval()
    hits = n = 0
    with torch.no_grad():
        for batch in batches:
            hits += (model(**batch).logits.argmax(1) == batch["labels"]).sum().item()
            n += len(batch["labels"])
    return hits / n


def read_options():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--model", help="a pretrained model instead of a small one with random weights")
    p.add_argument("--epochs", type=int, default=4)
    p.add_argument("--seed", type=int, default=0)
    return p.parse_args()


def main():
    args = read_options()
    set_seed(args.seed)
    sentences = make_sentences(args.seed)
    words = sorted({word for text, _ in sentences for word in text})
    number = {word: k for k, word in enumerate(words, 1)}
    rows = [([number[word] for word in text], kind) for text, kind in sentences]
    cut = len(rows) * 4 // 5
    shuffled = torch.Generator().manual_seed(args.seed)
    training = DataLoader(rows[:cut], batch_size=16, shuffle=True, collate_fn=collate, generator=shuffled)
    held_out = DataLoader(rows[cut:], batch_size=64, collate_fn=collate)
    if args.model:
        model = AutoModelForSequenceClassification.from_pretrained(args.model, num_labels=2)
    else:
        shape = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
        model = BertForSequenceClassification(
            BertConfig(vocab_size=len(words) + 1, max_position_embeddings=32, **shape)
        )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    print(f"{len(rows)} sentences of {len(words)} words; {sum(p.numel() for p in model.parameters()):,} parameters")
    for epoch in range(1, args.epochs + 1):
        model.train()
        total = 0.0
        for batch in training:
            loss = model(**batch).loss
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            total += loss.item()
        print(
            f"epoch {epoch}: loss {total / len(training):.4f}, {right(model, held_out):.1%} of those held out right",
            flush=True,
        )


if __name__ == "__main__":
    main()
