"""torch.cuda.comm: the older place of torch.nn.parallel.comm."""

from ..nn.parallel.comm import broadcast, broadcast_coalesced, gather, reduce_add, reduce_add_coalesced, scatter

__all__ = ["broadcast", "broadcast_coalesced", "gather", "reduce_add", "reduce_add_coalesced", "scatter"]
