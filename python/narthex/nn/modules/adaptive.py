"""A softmax over many classes, of which the rare ones share clusters (Grave et al. 2017)."""

from collections import namedtuple

from ... import _C
from .container import ModuleList, Sequential
from .linear import Linear
from .module import Module

__all__ = ["AdaptiveLogSoftmaxWithLoss"]

_ASMoutput = namedtuple("_ASMoutput", ("output", "loss"))


def _check(input, target) -> None:
    n = target.dim()
    if n > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if n == 1 and input.size(0) != target.size(0):
        raise RuntimeError("Input and target should have the same size in the batch dimension.")
    if input.dim() != n + 1:
        raise RuntimeError(f"{n}D target tensor expects {n + 1}D input tensors, but found inputs with size "
                           f"{input.size()}")  # fmt: skip


class AdaptiveLogSoftmaxWithLoss(Module):
    """Classes below cutoffs[0] stand in the head, those from cutoffs[k] to cutoffs[k + 1] in cluster k, whose width is
    in_features over div_value ** (k + 1). Forward gives (log-probabilities of the targets, their negative mean)."""

    def __init__(
        self, in_features: int, n_classes: int, cutoffs, div_value: float = 4.0, head_bias: bool = False, device=None,
        dtype=None,
    ) -> None:  # fmt: skip
        super().__init__()
        where, cutoffs = {"device": device, "dtype": dtype}, list(cutoffs)
        if len(cutoffs) == 0:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        if cutoffs != sorted({int(c) for c in cutoffs}) or cutoffs[0] <= 0 or cutoffs[-1] > n_classes - 1:
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where each "
                "value is between 1 and n_classes-1"
            )
        self.in_features, self.n_classes, self.cutoffs = in_features, n_classes, [*cutoffs, n_classes]
        self.div_value, self.head_bias = div_value, head_bias
        self.shortlist_size, self.n_clusters = cutoffs[0], len(cutoffs)
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, bias=head_bias, **where)
        self.tail = ModuleList()
        for k in range(self.n_clusters):
            width, size = int(in_features // div_value ** (k + 1)), self.cutoffs[k + 1] - self.cutoffs[k]
            down, out = Linear(in_features, width, bias=False, **where), Linear(width, size, bias=False, **where)
            self.tail.append(Sequential(down, out))

    def reset_parameters(self) -> None:
        """Draws new values."""
        self.head.reset_parameters()
        for down, out in self.tail:
            down.reset_parameters()
            out.reset_parameters()

    def forward(self, input_, target_):
        _check(input_, target_)
        batched = target_.dim() > 0
        input, target = (input_, target_) if batched else (input_.unsqueeze(0), target_.unsqueeze(0))
        output, place, found = input.new_zeros(target.size(0)), target.clone(), 0
        for k, (low, high) in enumerate(zip([0, *self.cutoffs], self.cutoffs)):
            rows = ((target >= low) & (target < high)).nonzero().view(-1)
            found += rows.numel()
            if k == 0 or rows.numel() == 0:
                continue
            logs = self.tail[k - 1](input.index_select(0, rows)).log_softmax(1)
            own = logs.gather(1, (target.index_select(0, rows) - low).unsqueeze(1)).squeeze(1)
            output = output.index_copy(0, rows, own)
            place = place.index_fill(0, rows, self.shortlist_size + k - 1)
        if found != target.size(0):
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                f"[{target.min().item()}, {target.max().item()}] were found. "
            )
        output = output + self.head(input).log_softmax(1).gather(1, place.unsqueeze(1)).squeeze(1)
        return _ASMoutput(output if batched else output.squeeze(0), (-output).mean())

    def _get_full_log_prob(self, input, head_output):
        """The log-probabilities of all classes, from what the head gave."""
        head = head_output.log_softmax(1)
        parts = [head[:, : self.shortlist_size]]
        for k, tail in enumerate(self.tail):
            parts.append(tail(input).log_softmax(1) + head[:, self.shortlist_size + k].unsqueeze(1))
        return _C.cat(parts, 1)

    def log_prob(self, input):
        """(N, n_classes): the log-probabilities of all classes."""
        return self._get_full_log_prob(input, self.head(input))

    def predict(self, input):
        """(N): the likeliest classes."""
        head = self.head(input)
        likeliest = head.argmax(1)
        rows = (likeliest >= self.shortlist_size).nonzero().view(-1)
        if rows.numel() == 0:
            return likeliest
        whole = self._get_full_log_prob(input.index_select(0, rows), head.index_select(0, rows))
        return likeliest.index_copy(0, rows, whole.argmax(1))
