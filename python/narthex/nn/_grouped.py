"""Products of groups of rows, columns or inner places with a matrix each."""

from .. import _C


def _check(a, b, offs, bias, out_dtype) -> None:
    for name, matrix in (("mat_a", a), ("mat_b", b)):
        if matrix.dtype not in (_C.float32, _C.bfloat16, _C.float16):
            kind = matrix.dtype.kind
            raise RuntimeError(f"Expected {name} to be Float32, BFloat16 or Float16 matrix, got {kind}")
        if matrix.dim() not in (2, 3):
            raise RuntimeError(f"{name} has to be 2 or 3d")
    both = a.dim() == b.dim() == 3
    if a.size(-1) != b.size(-2):
        raise RuntimeError("contraction dimension of mat_a and mat_b must match")
    if both != (offs is None):
        raise RuntimeError("Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d")
    if offs is not None and offs.dim() != 1:
        raise RuntimeError("offs has to be 1D")
    if offs is not None and offs.dtype is not _C.int32:
        raise RuntimeError("Offsets have to be int32")
    if bias is not None:
        raise RuntimeError("Bias not supported yet")
    if out_dtype is not None and out_dtype is not a.dtype:
        raise RuntimeError("Grouped gemm output dtype must match `mat_a` dtype")
    batches = [len(offs)] if offs is not None else []
    if len({*batches, *(m.size(0) for m in (a, b) if m.dim() == 3)}) > 1:
        raise RuntimeError("matrix batch sizes have to match")


def grouped_mm(mat_a, mat_b, *, offs=None, bias=None, out_dtype=None):
    """The product of each group with its matrix. `offs`, int32: where each group ends.

    (m, k) with (n_groups, k, n): groups of rows. (n_groups, m, k) with (k, n): groups of columns of mat_b.
    (m, k) with (k, n): groups of inner places, a product each. Without offs, of three dimensions both: bmm.
    Rows and columns behind the last group are 0; PyTorch leaves them as they are in memory."""
    _check(mat_a, mat_b, offs, bias, out_dtype)
    if offs is None:
        return _C.bmm(mat_a, mat_b)
    ends = offs.tolist()
    parts = [(ends[k - 1] if k else 0, end) for k, end in enumerate(ends)]
    if mat_a.dim() == mat_b.dim() == 2:
        return _C.stack([mat_a[:, begin:end] @ mat_b[begin:end] for begin, end in parts])
    if mat_a.dim() == 2:
        made = [mat_a[begin:end] @ mat_b[k] for k, (begin, end) in enumerate(parts)]
        rest = mat_a.size(0) - (ends[-1] if ends else 0)
        return _C.cat([*made, mat_a.new_zeros(rest, mat_b.size(2))])
    made = [mat_a[k] @ mat_b[:, begin:end] for k, (begin, end) in enumerate(parts)]
    rest = mat_b.size(1) - (ends[-1] if ends else 0)
    return _C.cat([*made, mat_a.new_zeros(mat_a.size(1), rest)], 1)
