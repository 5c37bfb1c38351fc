"""int_oo: no bound."""


class IntInfinity(int):
    """Larger than every size; as a number it is the largest one that a size can be."""

    def __new__(cls) -> "IntInfinity":
        return super().__new__(cls, 2**63 - 1)

    def __repr__(self) -> str:
        return "int_oo"

    __str__ = __repr__


class NegativeIntInfinity(int):
    """Smaller than every size."""

    def __new__(cls) -> "NegativeIntInfinity":
        return super().__new__(cls, -(2**63))

    def __repr__(self) -> str:
        return "-int_oo"

    __str__ = __repr__


int_oo = IntInfinity()
