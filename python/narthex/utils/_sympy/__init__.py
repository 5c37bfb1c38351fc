"""Bounds of sizes: numbers.int_oo and value_ranges.ValueRanges. There is no sympy here: expressions are
torch.export's."""
