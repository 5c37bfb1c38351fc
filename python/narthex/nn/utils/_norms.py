"""What weight norm and spectral norm compute, as hooks and as parametrizations."""

from ... import _C


def norm_except_dim(v, power: int = 2, dim: int = 0):
    """The norms of `v` over all dimensions but one, which keep their places; -1: one norm of all elements."""
    if dim == -1:
        return v.norm(power)
    rows = v.transpose(0, dim).reshape(v.size(dim), -1).norm(power, 1)
    sizes = [1] * v.dim()
    sizes[dim] = v.size(dim)
    return rows.view(sizes)


def weight_of(v, g, dim: int):
    """`v` with the norms `g`."""
    return v * (g / norm_except_dim(v, 2, dim))


def unit(vector, eps: float, out=None):
    """The vector of length 1 in its direction."""
    from ..functional import normalize

    return normalize(vector, dim=0, eps=eps, out=out)


def as_matrix(weight, dim: int):
    """The weight with the dimension `dim` in front and all others behind it."""
    if dim != 0:
        weight = weight.permute(dim, *[d for d in range(weight.dim()) if d != dim])
    return weight.reshape(weight.size(0), -1)


def iterate(matrix, u, v, times: int, eps: float) -> None:
    """Steps of power iteration, which write into `u` and then `v`; of the transposed matrix the other way round."""
    for _ in range(times):
        unit(_C.mv(matrix, v), eps, u)
        unit(_C.mv(matrix.t(), u), eps, v)
