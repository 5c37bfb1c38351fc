"""torch.quasirandom: Sobol's points, the same as PyTorch's."""

from functools import lru_cache

from . import _C

_BITS = 30


@lru_cache(maxsize=1)
def _table() -> tuple:
    """The polynomials and first direction numbers of Joe and Kuo, which the package scipy has."""
    from importlib.util import find_spec
    from pathlib import Path

    found = find_spec("scipy")
    path = found and Path(found.origin).parent / "stats" / "_sobol_direction_numbers.npz"
    if not path or not path.exists():
        raise ImportError(
            "SobolEngine needs the direction numbers of Joe and Kuo, which the package scipy has: pip install scipy"
        )
    import numpy

    with numpy.load(path) as archive:
        return archive["poly"].tolist(), archive["vinit"].tolist()


def _directions(polynomial: int, first: list) -> list:
    """The direction numbers of one dimension, highest bit first, by the recurrence of its polynomial."""
    degree = polynomial.bit_length() - 1
    odd = first[:degree] if degree else [1] * _BITS
    for i in range(degree, _BITS if degree else 0):
        new = odd[i - degree]
        for k in range(1, degree + 1):
            if polynomial >> (degree - k) & 1:
                new ^= odd[i - k] << k
        odd.append(new)
    return [number << (_BITS - 1 - i) for i, number in enumerate(odd)]


def _scrambled(state, matrix):
    """Each direction number times the dimension's lower triangular matrix of bits, whose diagonal is ones."""
    dimension = state.shape[0]
    rows = matrix.tril(-1) + _C.eye(_BITS, dtype=_C.int64)
    weights = 2 ** _C.arange(_BITS - 1, -1, -1, dtype=_C.int64)  # bits highest first
    bits = (state.unsqueeze(-1) // weights) % 2  # dimension, number, bit
    mixed = (rows.unsqueeze(1) * bits.unsqueeze(2)).sum(-1) % 2
    return (mixed * weights).sum(-1).reshape(dimension, _BITS)


class SobolEngine:
    """Points in the unit cube of `dimension` that fill it evenly; with `scramble` they are moved at random."""

    MAXBIT = _BITS
    MAXDIM = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if dimension > self.MAXDIM or dimension < 1:
            raise ValueError(f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}]")
        self.seed, self.scramble, self.dimension = seed, scramble, dimension
        polynomials, first = _table()
        self.sobolstate = _C.tensor(
            [_directions(polynomials[d], first[d]) for d in range(dimension)], dtype=_C.int64, device="cpu"
        )
        self.shift = _C.zeros(dimension, dtype=_C.int64, device="cpu")
        if scramble:
            self._scramble()
        self.quasi = self.shift.clone()
        self._first_point = (self.quasi / 2**_BITS).reshape(1, -1)
        self.num_generated = 0

    def _scramble(self) -> None:
        generator = None
        if self.seed is not None:
            generator = _C.Generator().manual_seed(self.seed)
        ones = _C.randint(2, (self.dimension, _BITS), device="cpu", generator=generator)
        self.shift = (ones * 2 ** _C.arange(0, _BITS, dtype=_C.int64)).sum(1)
        matrix = _C.randint(2, (self.dimension, _BITS, _BITS), device="cpu", generator=generator)
        self.sobolstate = _scrambled(self.sobolstate, matrix)

    def _at(self, first: int, n: int):
        """`n` points as integers, from the one of number `first` on: by the Gray codes of their numbers."""
        numbers = _C.arange(first, first + n, dtype=_C.int64)
        codes = numbers ^ (numbers // 2)
        points = self.shift.unsqueeze(0).expand(n, self.dimension)
        for bit in range((first + n).bit_length()):
            chosen = (codes // 2**bit % 2).unsqueeze(1)
            points = points ^ (chosen * self.sobolstate[:, bit])
        return points

    def draw(self, n: int = 1, out=None, dtype=None):
        """The next `n` points, (n, dimension), of the default dtype unless one is given."""
        dtype = _C.get_default_dtype() if dtype is None else dtype
        n_new = n if self.num_generated else n - 1
        if n_new < 0:
            raise RuntimeError(
                f"Trying to create tensor with negative dimension {n_new}: [{n_new}, {self.dimension}]"
            )  # fmt: skip
        after = max(self.num_generated, 1)
        points = self._at(after, n_new)
        result = points.to(dtype) * 2.0**-_BITS
        if self.num_generated == 0:
            result = _C.cat((self._first_point.to(dtype), result), -2)
        if n_new:
            self.quasi = points[-1].clone()
        self.num_generated += n
        return result if out is None else out.resize_(result.shape).copy_(result)

    def draw_base2(self, m: int, out=None, dtype=None):
        """The next 2**m points; the number of all that were drawn must be a power of 2."""
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1):
            raise ValueError(
                "The balance properties of Sobol' points require n to be a power of 2. "
                f"{self.num_generated} points have been previously generated, then: n={self.num_generated}+2**{m}="
                f"{total}. If you still want to do this, please use 'SobolEngine.draw()' instead."
            )
        return self.draw(n=n, out=out, dtype=dtype)

    def reset(self) -> "SobolEngine":
        """Begins again."""
        self.quasi.copy_(self.shift)
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> "SobolEngine":
        """Leaves out the next `n` points."""
        self.num_generated += n
        if self.num_generated > 1:
            self.quasi = self._at(self.num_generated - 1, 1)[0].clone()
        return self

    def __repr__(self) -> str:
        words = [f"dimension={self.dimension}"]
        if self.scramble:
            words.append("scramble=True")
        if self.seed is not None:
            words.append(f"seed={self.seed}")
        return f"{type(self).__name__}({', '.join(words)})"
