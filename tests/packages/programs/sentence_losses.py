"""sentence-transformers: a small encoder by each of its losses, steps of training, and a model that ranks pairs."""

import logging
import tempfile
import warnings

import torch
from sentence_transformers import CrossEncoder, SentenceTransformer
from sentence_transformers.base.modules import Dense, Transformer
from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sentence_transformer.modules import Pooling
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import BertConfig, BertForSequenceClassification, BertModel, PreTrainedTokenizerFast

warnings.simplefilter("ignore")
logging.disable()
WORDS = "a cat sits on the mat feline rests rug stock prices fell sharply today market dropped how do i bake bread"
SPECIAL = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
vocabulary = {word: k for k, word in enumerate([*SPECIAL.values(), *WORDS.split()])}
words = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
words.pre_tokenizer = pre_tokenizers.Whitespace()
words.post_processor = processors.TemplateProcessing(
    single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
)
tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, **SPECIAL)
sizes = {
    "vocab_size": len(vocabulary), "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
    "intermediate_size": 32, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
}  # fmt: skip
anchors = ["a cat sits on the mat", "stock prices fell sharply", "how do i bake bread"]
others = ["a feline rests on a rug", "the market dropped today", "bake bread"]
far = ["bread", "cat", "stock"]
torch.manual_seed(0)
with tempfile.TemporaryDirectory() as folder:
    BertModel(BertConfig(**sizes)).save_pretrained(folder)
    BertForSequenceClassification(BertConfig(**sizes, num_labels=1)).save_pretrained(f"{folder}/cross")
    for place in (folder, f"{folder}/cross"):
        tokenizer.save_pretrained(place)
    model = SentenceTransformer(modules=[Transformer(folder), Pooling(16), Dense(16, 8)], device="cpu")
    cross = CrossEncoder(f"{folder}/cross", device="cpu")
KINDS = {
    "MultipleNegativesRankingLoss": 2, "MultipleNegativesSymmetricRankingLoss": 2, "CosineSimilarityLoss": 2,
    "CachedMultipleNegativesRankingLoss": 2, "CoSENTLoss": 2, "AnglELoss": 2, "ContrastiveLoss": 2,
    "OnlineContrastiveLoss": 2, "TripletLoss": 3, "BatchAllTripletLoss": 1, "BatchHardTripletLoss": 1,
    "BatchSemiHardTripletLoss": 1, "MegaBatchMarginLoss": 2, "SoftmaxLoss": 2,
}  # fmt: skip


def features(*parts):
    return [model.preprocess(part) for part in parts]


for name, n in KINDS.items():
    torch.manual_seed(0)
    options = {"embedding_dimension": 8, "num_labels": 2} if name == "SoftmaxLoss" else {}
    numbers = name in ("CosineSimilarityLoss", "CoSENTLoss", "AnglELoss")
    labels = torch.tensor([1.0, 0.0, 1.0] if numbers else [1, 0, 1])
    value = getattr(losses, name)(model, **options)(features(*(anchors, others, far)[:n]), labels)
    model.zero_grad()
    value.backward()
    grads = sum(p.grad.double().abs().sum().item() for p in model.parameters() if p.grad is not None)
    print(name, f"{value.item():.6f} {grads:.4f}")
inner = losses.MultipleNegativesRankingLoss(model)
print(f"{losses.MatryoshkaLoss(model, inner, [8, 4, 2])(features(anchors, others), None).item():.6f}")
optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
for _ in range(3):
    value = inner(features(anchors, others), None)
    optimizer.zero_grad()
    value.backward()
    optimizer.step()
    print(f"{value.item():.5f}")
found = model.encode(anchors + others, convert_to_tensor=True, show_progress_bar=False)
print(model.similarity(found[:3], found[3:]).tolist())
print(cross.predict(list(zip(anchors, others)), show_progress_bar=False).tolist())
