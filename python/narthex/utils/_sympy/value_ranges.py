"""ValueRanges: the bounds of a size."""

from dataclasses import dataclass

from .numbers import int_oo


@dataclass(frozen=True)
class ValueRanges:
    """lower and upper, both inside."""

    lower: int
    upper: int

    @classmethod
    def of(cls, lower: int, upper: int) -> "ValueRanges":
        """With int_oo in place of a bound that is none."""
        return cls(lower, int_oo if upper >= int_oo else upper)

    def __contains__(self, x) -> bool:
        return self.lower <= x <= self.upper

    def issubset(self, other: "ValueRanges") -> bool:
        """Whether all of it lies in the other one."""
        return other.lower <= self.lower and self.upper <= other.upper

    def is_singleton(self) -> bool:
        """Whether there is one number in it."""
        return self.lower == self.upper

    def __repr__(self) -> str:
        return f"VR[{self.lower}, {self.upper}]"
