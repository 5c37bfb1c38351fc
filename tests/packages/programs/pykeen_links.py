"""pykeen: models of knowledge graphs learn which links there are; losses, scores and ranks."""

import logging

import torch

logging.disable(logging.WARNING)

from pykeen.evaluation import RankBasedEvaluator  # noqa: E402
from pykeen.models import ComplEx, ConvE, DistMult, RotatE, TransE  # noqa: E402
from pykeen.training import LCWATrainingLoop, SLCWATrainingLoop  # noqa: E402
from pykeen.triples import CoreTriplesFactory  # noqa: E402

triples = torch.tensor([[i % 12, i % 3, (5 * i + i % 3) % 12] for i in range(60)]).unique(dim=0)
factory = CoreTriplesFactory(triples, num_entities=12, num_relations=3)
MODELS = {
    "TransE": (TransE, {"embedding_dim": 8}, SLCWATrainingLoop),
    "DistMult": (DistMult, {"embedding_dim": 8}, SLCWATrainingLoop),
    "ComplEx": (ComplEx, {"embedding_dim": 8}, LCWATrainingLoop),
    "RotatE": (RotatE, {"embedding_dim": 8}, SLCWATrainingLoop),
    "ConvE": (ConvE, {"embedding_dim": 8, "embedding_height": 2, "embedding_width": 4}, LCWATrainingLoop),
}
for name, (build, options, loop) in MODELS.items():
    torch.manual_seed(0)
    of = factory if name != "ConvE" else CoreTriplesFactory(triples, 12, 3, create_inverse_triples=True)
    model = build(triples_factory=of, random_seed=1, **options)
    optimizer = torch.optim.SGD(model.get_grad_params(), lr=0.1, momentum=0.9)
    training = loop(model=model, triples_factory=of, optimizer=optimizer)
    losses = training.train(triples_factory=of, num_epochs=3, batch_size=16, use_tqdm=False)
    model.eval()
    scores = model.score_t(triples[:4, :2]).mean(1)
    ranks = RankBasedEvaluator(filtered=True).evaluate(
        model, triples[:8], additional_filter_triples=triples, use_tqdm=False, batch_size=4
    )
    print(name, [f"{loss:.5f}" for loss in losses], [f"{x:.5f}" for x in scores.tolist()],
          f"{ranks.get_metric('both.realistic.inverse_harmonic_mean_rank'):.5f}")  # fmt: skip
