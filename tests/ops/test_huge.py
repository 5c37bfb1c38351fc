"""Expanded tensors whose elements would take more bytes than can be counted: an error where room would be made."""

from __future__ import annotations

from typing import Any

import narthex as nt
import pytest
import torch

HUGE = 2**61


def one(m: Any, dtype: str = "float64") -> Any:
    return m.ones(1, dtype=getattr(m, dtype))


def place(m: Any) -> Any:
    return m.zeros(1, dtype=m.int64)


# Beside PyTorch.
PRODUCTS: dict[str, Any] = {
    "elements": lambda m: one(m).expand(2**40, 2**40),
    "elements that wrap to none": lambda m: one(m).expand(8, HUGE),
    "mm": lambda m: one(m).expand(8, 2**59) @ one(m).expand(2**59, 1),
    "mv": lambda m: one(m).expand(8, 2**59) @ one(m).expand(2**59),
    "bmm": lambda m: m.bmm(one(m).expand(1, 8, 2**59), one(m).expand(1, 2**59, 1)),
    "mm of halves": lambda m: one(m, "float16").expand(8, 2**59) @ one(m, "float16").expand(2**59, 1),
}
# PyTorch goes through the elements, or falls.
OTHERS: dict[str, Any] = {
    "mm of integers": lambda m: place(m).expand(8, 2**59) @ place(m).expand(2**59, 1),
    "dot": lambda m: one(m).expand(HUGE) @ one(m).expand(HUGE),
    "index_put_": lambda m: m.zeros(3).index_put_((place(m).expand(HUGE),), m.ones(1)),
    "index_add_": lambda m: m.zeros(3).index_add_(0, place(m).expand(HUGE), m.ones(1).expand(HUGE)),
    "index_select": lambda m: m.zeros(3).index_select(0, place(m).expand(2 * HUGE)),
    "scatter": lambda m: m.zeros(3).scatter(0, place(m).expand(HUGE), 1.0),
    "argmax": lambda m: one(m).expand(HUGE).argmax(),
    "argmax of rows": lambda m: one(m).expand(2, HUGE).argmax(1),
    "sort": lambda m: one(m).expand(HUGE).sort(),
}


def text(m: Any, f: Any) -> str:
    with pytest.raises(RuntimeError) as error:
        f(m)
    return str(error.value)


@pytest.mark.parametrize("name", PRODUCTS)
def test_as_pytorch(name: str) -> None:
    assert text(nt, PRODUCTS[name]) == text(torch, PRODUCTS[name])


@pytest.mark.parametrize("name", OTHERS)
def test_refused(name: str) -> None:
    assert text(nt, OTHERS[name]).startswith("Storage size calculation overflowed with sizes=[")


def test_many_elements_without_room() -> None:
    assert one(nt).expand(2, HUGE).shape == (2, HUGE)
    assert one(nt).expand(HUGE)[HUGE - 1].item() == 1
