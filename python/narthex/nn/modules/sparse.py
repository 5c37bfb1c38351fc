"""Embedding: a table whose rows are looked up by number; EmbeddingBag: what several of them come to."""

from ... import _C
from ...autograd.grad_mode import no_grad
from .. import functional, init
from ..parameter import Parameter
from .module import Module


class Embedding(Module):
    """Rows of `weight` (num_embeddings, embedding_dim). `sparse`: the gradient has the looked-up rows alone."""

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None, max_norm: float | None = None,
        norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False, _weight=None,
        _freeze: bool = False, device=None, dtype=None,
    ) -> None:  # fmt: skip
        super().__init__()
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise AssertionError("Padding_idx must be within num_embeddings")
            padding_idx %= num_embeddings
        self.num_embeddings, self.embedding_dim, self.padding_idx = num_embeddings, embedding_dim, padding_idx
        self.max_norm, self.norm_type = max_norm, norm_type
        self.scale_grad_by_freq, self.sparse = scale_grad_by_freq, sparse
        if _weight is None:
            made = _C.empty((num_embeddings, embedding_dim), device=device, dtype=dtype)
            self.weight = Parameter(made, requires_grad=not _freeze)
            self.reset_parameters()
        else:
            if tuple(_weight.shape) != (num_embeddings, embedding_dim):
                raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")
            self.weight = Parameter(_weight, requires_grad=not _freeze)

    def reset_parameters(self) -> None:
        """Draws new values: normal; the row `padding_idx` is 0."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)

    def forward(self, input):
        return functional.embedding(
            input, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse
        )

    @classmethod
    def from_pretrained(
        cls, embeddings, freeze: bool = True, padding_idx=None, max_norm=None, norm_type: float = 2.0,
        scale_grad_by_freq: bool = False, sparse: bool = False,
    ):  # fmt: skip
        """An Embedding over the rows of a matrix, which is not trained unless `freeze` is False."""
        if embeddings.dim() != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        rows, columns = embeddings.shape
        return cls(rows, columns, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse, embeddings, freeze)

    def extra_repr(self) -> str:
        """The sizes and options."""
        s = f"{self.num_embeddings}, {self.embedding_dim}"
        s += "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        s += "" if self.max_norm is None else f", max_norm={self.max_norm}"
        return s + ("" if self.norm_type == 2 else f", norm_type={self.norm_type}")


class EmbeddingBag(Module):
    """The sum, mean or maximum of rows of `weight`, for each bag of numbers; see functional.embedding_bag."""

    def __init__(
        self, num_embeddings: int, embedding_dim: int, max_norm: float | None = None, norm_type: float = 2.0,
        scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False, _weight=None,
        include_last_offset: bool = False, padding_idx: int | None = None, device=None, dtype=None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.max_norm, self.norm_type, self.scale_grad_by_freq = max_norm, norm_type, scale_grad_by_freq
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise AssertionError("padding_idx must be within num_embeddings")
            padding_idx %= num_embeddings
        self.padding_idx = padding_idx
        if _weight is None:
            self.weight = Parameter(_C.empty((num_embeddings, embedding_dim), device=device, dtype=dtype))
            self.reset_parameters()
        else:
            if tuple(_weight.shape) != (num_embeddings, embedding_dim):
                raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")
            self.weight = Parameter(_weight)
        self.mode, self.sparse, self.include_last_offset = mode, sparse, include_last_offset

    reset_parameters = Embedding.reset_parameters

    def forward(self, input, offsets=None, per_sample_weights=None):
        return functional.embedding_bag(
            input, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.mode,
            self.sparse, per_sample_weights, self.include_last_offset, self.padding_idx,
        )  # fmt: skip

    @classmethod
    def from_pretrained(
        cls, embeddings, freeze: bool = True, max_norm=None, norm_type: float = 2.0, scale_grad_by_freq: bool = False,
        mode: str = "mean", sparse: bool = False, include_last_offset: bool = False, padding_idx=None,
    ):  # fmt: skip
        """An EmbeddingBag over the rows of a matrix, which is not trained unless `freeze` is False."""
        if embeddings.dim() != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        rows, columns = embeddings.shape
        made = cls(rows, columns, max_norm, norm_type, scale_grad_by_freq, mode, sparse, embeddings,
                   include_last_offset, padding_idx)  # fmt: skip
        made.weight.requires_grad_(not freeze)
        return made

    def extra_repr(self) -> str:
        """The sizes and options."""
        s = f"{self.num_embeddings}, {self.embedding_dim}"
        s += "" if self.max_norm is None else f", max_norm={self.max_norm}"
        s += "" if self.norm_type == 2 else f", norm_type={self.norm_type}"
        s += f", scale_grad_by_freq={self.scale_grad_by_freq}" if self.scale_grad_by_freq else ""
        s += f", mode={self.mode!r}"
        return s + ("" if self.padding_idx is None else f", padding_idx={self.padding_idx}")
