"""torch.linalg: factorizations, solutions, norms. What works on elements are operators; what is said here is glue."""

from collections import namedtuple

from . import _C
from ._absent import getter as _getter
from ._C import _LinAlgError as LinAlgError  # noqa: F401
from ._shells import shells_of_module as _shells
from .amp.autocast_mode import in_float32

_operators = {
    name.rpartition(".linalg_")[2]: function
    for name, function in _C.functions.items()
    if name.startswith("torch._C._linalg.linalg_")
}
globals().update(_operators)
matmul = _C.matmul
inv, inv_ex, matrix_rank, pinv = (_operators[name] for name in ("inv", "inv_ex", "matrix_rank", "pinv"))
solve, svdvals, vector_norm = (_operators[name] for name in ("solve", "svdvals", "vector_norm"))
_lstsq_result = namedtuple("linalg_lstsq", ("solution", "residuals", "rank", "singular_values"))
_LARGE = dict.fromkeys((_C.float64, _C.complex128), 2.220446049250313e-16)  # the distance of 1 from the next number


def _given(out, value):
    """`value`, in `out` if that is there."""
    return value if out is None else out.copy_(value)


def _check(name: str, condition: bool, text: str) -> None:
    if not condition:
        raise RuntimeError(f"linalg.{name}: {text}")


def _check_square(name: str, A) -> None:
    _check(name, A.ndim >= 2, "The input tensor A must have at least 2 dimensions.")
    rows, columns = A.shape[-2], A.shape[-1]
    text = f"A must be batches of square matrices, but they are {rows} by {columns} matrices"
    _check(name, rows == columns, text)


def norm(A, ord=None, dim=None, keepdim: bool = False, *, out=None, dtype=None):
    """The norm of vectors (one dimension, or all of them) or of matrices (two)."""
    dims = None if dim is None else [dim] if isinstance(dim, int) else list(dim)
    if dims is not None and len(dims) not in (1, 2):
        raise RuntimeError(f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {dims}")
    if dims is None and ord is not None:
        text = f"If dim is not specified but ord is, the input must be 1D or 2D. Got {A.ndim}D."
        _check("norm", A.ndim in (1, 2), text)
    if ord is not None and (len(dims) if dims is not None else A.ndim) == 2:
        return matrix_norm(A, ord, dims or (0, 1), keepdim, out=out, dtype=dtype)
    outs = {} if out is None else {"out": out}
    return vector_norm(A, 2 if ord is None else ord, dims, keepdim, dtype=dtype, **outs)


def matrix_norm(A, ord="fro", dim=(-2, -1), keepdim: bool = False, *, dtype=None, out=None):
    """The norm of the matrices that two dimensions hold: fro, nuc, inf, -inf, 1, -1, 2, -2."""
    _check("matrix_norm", A.ndim >= 2, "The input tensor A must have at least 2 dimensions.")
    if not (A.dtype.is_floating_point or A.dtype.is_complex):
        raise RuntimeError(f"linalg.matrix_norm: Expected a floating point or complex tensor as input. Got {A.dtype}")
    _check("matrix_norm", len(dim) == 2, f"dim must be a 2-tuple. Got {' '.join(map(str, dim))}")
    if isinstance(ord, str):
        _check("matrix_norm", ord in ("fro", "nuc"), f"Order {ord} not supported.")
    else:
        known = abs(ord) in (1, 2, float("inf"))
        _check("matrix_norm", known, f"Order {ord} not supported.")
    row, column = (one % A.ndim if -A.ndim <= one < A.ndim else _wrong_dim(one, A.ndim) for one in dim)
    _check("matrix_norm", row != column, f"dims must be different. Got ({dim[0]}, {dim[1]})")
    if ord == "fro":
        return _given(out, vector_norm(A, 2, [row, column], keepdim, dtype=dtype))
    A = A if dtype is None else A.to(dtype)
    if ord == "nuc" or abs(ord) == 2:
        values = svdvals(A.movedim((row, column), (-2, -1)))
        found = values.sum(-1) if ord == "nuc" else values.amax(-1) if ord > 0 else values.amin(-1)
        for at in sorted((row, column)) if keepdim else ():
            found = found.unsqueeze(at)
        return _given(out, found)
    summed, chosen = (row, column) if abs(ord) == 1 else (column, row)
    sums = vector_norm(A, 1, [summed], True)
    found = sums.amax(chosen, True) if ord > 0 else sums.amin(chosen, True)
    return _given(out, found if keepdim else found.squeeze(max(row, column)).squeeze(min(row, column)))


def _wrong_dim(dim: int, n: int):
    raise IndexError(f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {dim})")


def cond(A, p=None, *, out=None):
    """How much an error in b can grow in the solution of A x = b."""
    _check("cond", A.ndim >= 2, "The input tensor A must have at least 2 dimensions.")
    if p is None or (not isinstance(p, str) and abs(p) == 2):
        values = svdvals(A)
        large, small = values.amax(-1), values.amin(-1)
        return _given(out, small / large if p == -2 else large / small)
    _check_square("cond", A)
    if A.numel() == 0:
        return _given(out, A.new_zeros(A.shape[:-2]))
    inverse, info = inv_ex(A)
    inverse = inverse.masked_fill((info != 0).unsqueeze(-1).unsqueeze(-1), float("inf"))
    return _given(out, matrix_norm(A, p) * matrix_norm(inverse, p))


def matrix_power(A, n: int, *, out=None):
    """A multiplied by itself n times; its inverse where n is negative."""
    if not isinstance(n, int):
        raise TypeError(f"linalg_matrix_power(): argument 'n' (position 2) must be int, not {type(n).__name__}")
    _check_square("matrix_power", A)
    if n == 0:
        one = A.clone().zero_()
        one.diagonal(0, -2, -1).fill_(1)
        return _given(out, one)
    base = inv(A) if n < 0 else A
    found, n = None, abs(n)
    while n:
        if n % 2:
            found = base if found is None else found @ base
        n //= 2
        base = base @ base if n else base
    return _given(out, found.clone() if found is A else found)


def multi_dot(tensors, *, out=None):
    """The product of a chain of matrices, in the order that takes the fewest multiplications."""
    tensors = list(tensors)
    n = len(tensors)
    if n < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {n}")
    for at, one in enumerate(tensors):
        outer = at in (0, n - 1)
        if one.ndim != 2 and not (outer and one.ndim == 1):
            dims = "must be 1D or 2D" if outer else "must be 2D"
            raise RuntimeError(
                f"multi_dot(): tensor {at} was {one.ndim}D. {'The first and last' if outer else 'It'} {dims}"
            )
    first, last = tensors[0].ndim == 1, tensors[-1].ndim == 1
    chain = [tensors[0].unsqueeze(0) if first else tensors[0], *tensors[1:]]
    chain[-1] = chain[-1].unsqueeze(1) if last else chain[-1]
    for at, (left, right) in enumerate(zip(chain, chain[1:])):
        if left.shape[1] != right.shape[0]:
            shapes = f"{list(left.shape)} and {list(right.shape)}"
            raise RuntimeError(f"multi_dot(): tensors {at} and {at + 1} with shapes {shapes} cannot be multiplied")
    found = _chain(chain, _splits([one.shape[0] for one in chain] + [chain[-1].shape[1]]), 0, n - 1)
    if last:
        found = found.squeeze(1)
    return _given(out, found.squeeze(0) if first else found)


def _splits(sizes: list) -> dict:
    """Where each part of a chain of matrices is best divided."""
    n, cost, best = len(sizes) - 1, {}, {}
    for at in range(n):
        cost[at, at] = 0
    for length in range(1, n):
        for start in range(n - length):
            end = start + length
            choices = [
                (cost[start, k] + cost[k + 1, end] + sizes[start] * sizes[k + 1] * sizes[end + 1], k)
                for k in range(start, end)
            ]
            cost[start, end], best[start, end] = min(choices)
    return best


def _chain(tensors: list, best: dict, start: int, end: int):
    if start == end:
        return tensors[start]
    middle = best[start, end]
    return _chain(tensors, best, start, middle) @ _chain(tensors, best, middle + 1, end)


def vander(x, N: int | None = None):
    """The powers 0 to N-1 of the elements, along a new last dimension."""
    x = x.unsqueeze(-1) if x.ndim == 0 else x
    count = x.shape[-1] if N is None else N
    _check("vander", count > 1, f"N must be greater than 1. Got {count}")
    if not x.dtype.is_floating_point and not x.dtype.is_complex:
        x = x.to(_C.int64)
    column = x.unsqueeze(-1)
    powers = _C.cumprod(column.expand([*x.shape, count - 1]), -1)
    return _C.cat([_C.ones_like(column), powers], -1)


def diagonal(A, *, offset: int = 0, dim1: int = -2, dim2: int = -1):
    """A view of the diagonals of matrices."""
    return _C.diagonal(A, offset, dim1, dim2)


def _numel(sizes) -> int:
    found = 1
    for size in sizes:
        found *= size
    return found


def tensorinv(A, ind: int = 2, *, out=None):
    """The inverse of A as a map from its last dimensions to the first `ind`."""
    _check("tensorinv", ind > 0, "Expected a strictly positive integer for 'ind'")
    front, back = list(A.shape[:ind]), list(A.shape[ind:])
    n, m = _numel(front), _numel(back)
    text = (
        f"Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), but got {m} != {n}"
    )
    _check("tensorinv", n == m, text)
    return _given(out, inv(A.reshape(n, m)).reshape(back + front))


def tensorsolve(A, B, dims=None, *, out=None):
    """The X with tensordot(A, X, X.ndim) = B; the dimensions `dims` of A go to its end first."""
    if dims is not None:
        kept = [at for at in range(A.ndim) if at not in [dim % A.ndim for dim in dims]]
        A = A.permute(kept + [dim % A.ndim for dim in dims])
    back = list(A.shape[B.ndim :])
    n, m = _numel(A.shape[: B.ndim]), _numel(back)
    text = "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == prod(self.shape[:other.ndim])"
    _check("tensorsolve", n == m, f"{text}, but got {m} != {n}")
    return _given(out, solve(A.reshape(n, m), B.reshape(n)).reshape(back))


@in_float32
def lstsq(A, B, rcond: float | None = None, *, driver: str | None = None):
    """The X for which A X is nearest to B, with the squares of what is left, the rank and the singular values of A."""
    prefix = "torch.linalg.lstsq: "
    if A.ndim < 2:
        raise RuntimeError(prefix + "input must have at least 2 dimensions.")
    if B.ndim < 1:
        raise RuntimeError(prefix + "other must have at least 1 dimension.")
    if A.dtype != B.dtype:
        raise RuntimeError(
            prefix + "Expected input and other to have the same dtype, but got input's dtype "
            f"{A.dtype} and other's dtype {B.dtype}"
        )
    if driver not in (None, "gels", "gelsy", "gelsd", "gelss"):
        raise RuntimeError(prefix + "parameter `driver` should be one of (gels, gelsy, gelsd, gelss)")
    vector = A.ndim == B.ndim + 1 and list(A.shape[:-1]) == list(B.shape)
    right = B.unsqueeze(-1) if vector else B
    rows, columns = A.shape[-2], A.shape[-1]
    if right.shape[-2] != rows:
        raise RuntimeError(
            prefix
            + (
                "input.size(-2) should match other.size(-2)"
                if not vector and B.ndim > 1
                else "input.size(-2) should match other.size(-1)"
            )
        )
    bound = _LARGE.get(A.dtype, 1.1920928955078125e-07) * max(rows, columns) if rcond is None else rcond
    found = pinv(A, rtol=bound) @ right
    left = A.reshape(-1)[:0].abs()  # nothing, which has a history, as in PyTorch
    ranks = matrix_rank(A, rtol=bound) if driver != "gels" else left.detach().to(_C.int64)
    values = svdvals(A.detach()) if driver in ("gelsd", "gelss") else left.detach().clone()
    if rows > columns and driver not in (None, "gelsy") and (driver == "gels" or bool((ranks == columns).all())):
        left = ((A @ found - right).abs() ** 2).sum(-2)
    return _lstsq_result(found.squeeze(-1) if vector else found, left, ranks, values)


_shells(globals(), set())
__getattr__ = _getter("torch.linalg")
