"""torch.nn.utils._expanded_weights: gradients of each sample come from torch.func.vmap here
(nn.utils._per_sample_grad), so that no tensor is an ExpandedWeight."""

from ...._later import class_for

ExpandedWeight = class_for(
    "torch.nn.utils._expanded_weights.ExpandedWeight", "use nn.utils._per_sample_grad or torch.func.vmap"
)
__all__ = ["ExpandedWeight"]
