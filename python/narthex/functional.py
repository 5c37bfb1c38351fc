"""torch.norm, einsum, meshgrid and others: what PyTorch too writes in Python. Their names are torch's."""

import math
import warnings

from . import _C
from ._shells import shells_of_module


def norm(input, p="fro", dim=None, keepdim: bool = False, out=None, dtype=None):
    """The root number `p` of the sum of the elements' powers, along `dim` (all dimensions without it)."""
    if p == "nuc":
        from .linalg import matrix_norm

        return matrix_norm(input, p, (-2, -1) if dim is None else dim, keepdim, dtype=dtype, out=out)
    if isinstance(p, str) and p != "fro":
        raise RuntimeError(f"only valid string values are 'fro' and 'nuc', found {p}")
    dims = [dim] if isinstance(dim, int) else dim
    outs = {} if out is None else {"out": out}
    return _C.functions["torch._C._linalg.linalg_vector_norm"](
        input, 2 if p in ("fro", None) else p, dims, keepdim, dtype=dtype, **outs
    )


def broadcast_shapes(*shapes):
    """The size that tensors of these sizes have together."""
    return _C.Size(_together(shapes))


def _together(shapes) -> list:
    together: list = []
    for index, shape in enumerate(shapes):
        sizes = [shape] if isinstance(shape, int) else list(shape)
        together[:0] = [1] * (len(sizes) - len(together))
        for at in range(-1, -len(sizes) - 1, -1):
            if sizes[at] < 0:
                raise ValueError("Attempting to broadcast a dimension with negative length!")
            if sizes[at] == 1 or sizes[at] == together[at]:
                continue
            if together[at] != 1:
                raise RuntimeError(
                    f"Attempting to broadcast a dimension of length {sizes[at]} at {at}! Mismatching argument at index "
                    f"{index} had {shape}; but expected shape should be broadcastable to {together}"
                )
            together[at] = sizes[at]
    return together


def broadcast_to(input, size):
    """`input.expand(size)`"""
    return input.expand(size)


def broadcast_tensors(*tensors) -> tuple:
    """Views of all tensors of the size that they have together; those that have it as they are."""
    for index, tensor in enumerate(tensors):
        if not isinstance(tensor, _C.TensorBase):
            raise TypeError(f"expected Tensor as element {index} in argument 0, but got {type(tensor).__name__}")
    size = _together([tensor.shape for tensor in tensors])
    return tuple([tensor if tuple(tensor.shape) == tuple(size) else tensor.expand(size) for tensor in tensors])


def meshgrid(*tensors, indexing: str | None = None) -> tuple:
    """Views of one size: number k varies along dimension k as the k-th vector does. `indexing`: "ij" or "xy"."""
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        tensors = tuple(tensors[0])
    if indexing is None:
        warnings.warn(
            "torch.meshgrid: in an upcoming release, it will be required to pass the indexing argument.", stacklevel=2
        )
    if indexing not in (None, "ij", "xy"):
        raise RuntimeError(f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    if not tensors:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    for x in tensors:
        if x.dim() > 1:
            raise RuntimeError(f"torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {x.dim()}D")
        if x.dtype != tensors[0].dtype:
            raise RuntimeError("torch.meshgrid expects all tensors to have the same dtype")
    swapped = indexing == "xy" and len(tensors) > 1
    order = [1, 0, *range(2, len(tensors))] if swapped else list(range(len(tensors)))
    size = [tensors[k].numel() for k in order]
    grids = []
    for k, x in enumerate(tensors):
        shape = [1] * len(tensors)
        shape[order.index(k)] = x.numel()
        grids.append(x.reshape(shape).expand(size))
    return tuple(grids)


# ---- einsum: labels of dimensions are letters, or numbers for what an ellipsis stands for
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def _labels(term: str, ndim: int, which: int, widest: int) -> list:
    """The labels of operand `which`; the dots stand for the last of `widest` numbers."""
    before, dots, behind = term.partition("...")
    for text in (before, behind):
        for at, letter in enumerate(text):
            if letter not in _LETTERS:
                raise RuntimeError(
                    f"einsum(): invalid subscript given at index {at} in the equation string, subscripts must be in "
                    "[a-zA-Z]"
                )
    named = len(before) + len(behind)
    if named > ndim or (named < ndim and not dots):
        but = "" if dots else " and no ellipsis was given"
        raise RuntimeError(
            f"einsum(): the number of subscripts in the equation ({named}) "
            f"{'is more than' if dots else 'does not match'} the number of dimensions ({ndim}) for operand {which}{but}"
        )
    return [*before, *range(widest - (ndim - named), widest), *behind]


def _parse(equation: str, operands: tuple) -> tuple[list, list]:
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        many = "more" if len(operands) > len(terms) else "fewer"
        raise RuntimeError(f"einsum(): {many} operands were provided than specified in the equation")
    hidden = [x.dim() - len(term.replace("...", "")) for term, x in zip(terms, operands) if "..." in term]
    widest = max(hidden, default=0)
    labels = [_labels(term, x.dim(), k, widest) for k, (term, x) in enumerate(zip(terms, operands))]
    letters = [label for term in labels for label in term if isinstance(label, str)]
    if arrow:
        before, dots, behind = right.partition("...")
        result = [*before, *(range(widest) if dots else ()), *behind]
    else:
        result = [*range(widest), *sorted(letter for letter in set(letters) if letters.count(letter) == 1)]
    for label in result:
        if isinstance(label, str) and label not in letters:
            raise RuntimeError(
                f"einsum(): output subscript {label} does not appear in the equation for any input operand"
            )
        if result.count(label) > 1:
            raise RuntimeError(f"einsum(): output subscript {label} appears more than once in the output")
    return labels, result


def _sizes(labels: list, operands: tuple) -> dict:
    """The size of each label; 1 gives way to others."""
    sizes = {}
    for k, (term, x) in enumerate(zip(labels, operands)):
        for label, size in zip(term, x.shape):
            known = sizes.get(label, 1)
            if 1 not in (known, size) and known != size:
                raise RuntimeError(
                    f"einsum(): subscript {label} has size {size} for operand {k} which does not broadcast with "
                    f"previously seen size {known}"
                )
            sizes[label] = size if known == 1 else known
    return sizes


def _diagonals(x, labels: list, which: int):
    """Of operand `which` the elements where dimensions of the same label have the same index; it comes first."""
    for label in list(labels):
        while labels.count(label) > 1:
            a = labels.index(label)
            b = labels.index(label, a + 1)
            if x.shape[a] != x.shape[b]:
                raise RuntimeError(
                    f"einsum(): subscript {label} is repeated for operand {which} but the sizes don't match, "
                    f"{x.shape[b]} != {x.shape[a]}"
                )
            rest = [at for at in range(len(labels)) if at not in (a, b)]
            at = _C.arange(x.shape[a], device=x.device)
            x, labels = x.permute([a, b, *rest])[at, at], [label, *(labels[at] for at in rest)]
    return x, labels


def _sum_out(x, labels: list, kept: set):
    """Without the dimensions whose labels nobody needs."""
    dims = [at for at, label in enumerate(labels) if label not in kept]
    return (x.sum(dims), [label for label in labels if label in kept]) if dims else (x, labels)


def _contract(a, of_a: list, b, of_b: list, kept: set):
    """The product of two operands, summed over labels that are in both and in none of `kept`; one batched product."""
    shared = [label for label in of_a if label in of_b]
    batch, summed = [x for x in shared if x in kept], [x for x in shared if x not in kept]
    a, of_a = _sum_out(a, of_a, kept | set(shared))
    b, of_b = _sum_out(b, of_b, kept | set(shared))
    only_a, only_b = [x for x in of_a if x not in shared], [x for x in of_b if x not in shared]
    size_a, size_b = dict(zip(of_a, a.shape)), dict(zip(of_b, b.shape))
    both = {label: max(size_a[label], size_b[label]) if 0 not in (size_a[label], size_b[label]) else 0
            for label in shared}  # fmt: skip

    def laid_out(x, labels, order, inner, last):
        """As batches of matrices."""
        x = x.permute([labels.index(label) for label in order])
        x = x.expand([both.get(label, size) for label, size in zip(order, x.shape)])
        return x.reshape([math.prod(both[label] for label in batch), inner, last])

    m, n = math.prod(size_a[x] for x in only_a), math.prod(size_b[x] for x in only_b)
    k = math.prod(both[x] for x in summed)
    product = laid_out(a, of_a, batch + only_a + summed, m, k) @ laid_out(b, of_b, batch + summed + only_b, k, n)
    sizes = [both[x] for x in batch] + [size_a[x] for x in only_a] + [size_b[x] for x in only_b]
    return product.reshape(sizes), batch + only_a + only_b


def _spelt(args: tuple) -> tuple:
    """(equation, operands) of operands with a list of subscripts each, and perhaps one of the result."""

    def letters(subscripts) -> str:
        for s in subscripts:
            if s is not ... and not 0 <= s < 52:
                raise ValueError("einsum(): subscripts in subscript list are not within the valid range [0, 52)")
        return "".join("..." if s is ... else chr((ord("A") if s < 26 else ord("a") - 26) + s) for s in subscripts)

    terms = ",".join(letters(subscripts) for subscripts in args[1::2])
    if len(args) % 2:
        return f"{terms}->{letters(args[-1])}", *args[:-1:2]
    return terms, *args[::2]


def einsum(*args):
    """Sums of products of elements: "ij,jk->ik" is a product of matrices. Operands are taken from left to right."""
    if len(args) < 2:
        raise ValueError("einsum(): must specify the equation string and at least one operand, or at least one operand "
                         "and its subscripts list")  # fmt: skip
    if not isinstance(args[0], str):
        args = _spelt(args)
    operands = tuple(args[1]) if len(args) == 2 and isinstance(args[1], (list, tuple)) else args[1:]
    if not operands:
        raise ValueError("einsum(): must provide at least one operand")
    labels, result = _parse(args[0], operands)
    single = [_diagonals(x, term, k) for k, (x, term) in enumerate(zip(operands, labels))]
    operands, labels = [x for x, _ in single], [term for _, term in single]
    _sizes(labels, operands)
    x, of_x = operands[0], labels[0]
    for at in range(1, len(operands)):
        later = {label for term in labels[at + 1 :] for label in term}
        x, of_x = _contract(x, of_x, operands[at], labels[at], later | set(result))
    x, of_x = _sum_out(x, of_x, set(result))
    return x.permute([of_x.index(label) for label in result])


shells_of_module(globals())
_OF_TORCH = (
    "atleast_1d", "atleast_2d", "atleast_3d", "block_diag", "cartesian_prod", "cdist", "chain_matmul", "istft", "lu",
    "pca_lowrank", "split", "stft", "svd_lowrank", "tensordot", "unique", "unique_consecutive", "unravel_index",
)  # fmt: skip
__all__ = [*_OF_TORCH, "broadcast_shapes", "broadcast_tensors", "einsum", "meshgrid", "norm"]


def __getattr__(name: str):
    from . import _absent

    if name in _OF_TORCH:
        import narthex

        return getattr(narthex, name)
    raise _absent.absent("torch.functional", name)
