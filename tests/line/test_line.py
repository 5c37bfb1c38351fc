"""The rows under pytest."""

import pytest

from tests.line.rows import CLAUSES, ROWS


@pytest.mark.parametrize("row", ROWS, ids=[row.clause for row in ROWS])
def test_row(row):
    row.function()


def test_every_clause_has_a_row():
    assert sorted({row.clause for row in ROWS}) == sorted(CLAUSES)
