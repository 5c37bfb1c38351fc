"""torch._dynamo.utils.same: whether what a compiled program gave is what the program gives."""

import logging
import math
from collections import deque
from functools import partial

from .. import _C

log = logging.getLogger("narthex._dynamo.utils")


def rmse(ref, res):
    """The root of the mean of the squared differences."""
    return (ref - res).square().mean().sqrt()


def same(
    ref,
    res,
    fp64_ref=None,
    cos_similarity: bool = False,
    tol: float = 1e-4,
    equal_nan: bool = False,
    exact_dtype: bool = True,
    relax_numpy_equality: bool = False,
    ignore_non_fp: bool = False,
    log_error=log.error,
    **of_benchmarks,
) -> bool:
    """Whether `res` is `ref`, both nested: the same structure (AssertionError for another one), dtypes (exact_dtype)
    and, within `tol`, numbers. Where these are farther apart, `res` may be up to two or three times as far from
    fp64_ref, the same in float64, as `ref` is. cos_similarity: tensors as vectors point in one direction.
    ignore_non_fp: what is no float is left out. relax_numpy_equality: a number of numpy's is equal to one of Python's.
    """
    wanted = [name for name, value in of_benchmarks.items() if value and name != "iou_threshold"]
    if wanted:
        raise NotImplementedError(f"same: {wanted[0]} is not there")
    given = {"cos_similarity": cos_similarity, "tol": tol, "equal_nan": equal_nan, "exact_dtype": exact_dtype}
    given |= {"relax_numpy_equality": relax_numpy_equality, "ignore_non_fp": ignore_non_fp, "log_error": log_error}
    return _same(ref, res, ref if fp64_ref is None else fp64_ref, partial(same, **given), given)


def _same(ref, res, fp64, again, given: dict) -> bool:
    kind = type(ref)
    if isinstance(ref, (list, tuple, deque)) or kind.__name__ == "ParameterList":
        _check(isinstance(res, (list, tuple, deque)), f"type mismatch {kind} {type(res)}")
        if len(ref) != len(res):
            given["log_error"]("Length mismatch")
            return False
        return all(map(again, ref, res, fp64))
    if isinstance(ref, dict):
        _check(isinstance(res, dict), f"Expected res to be a dict, got {type(res)}")
        _check(set(ref) == set(res), f"keys mismatch {set(ref)} == {set(res)}")
        for key in sorted(ref):
            if not again(ref[key], res[key], fp64[key]):
                given["log_error"]("Accuracy failed for key name %s", key)
                return False
        return True
    if isinstance(ref, set):
        _check(isinstance(res, set), f"Expected res to be a set, got {type(res)}")
        _check(ref == res, f"elements mismatch {ref} == {res}")
        return True
    if isinstance(ref, (_C.TensorBase, float)) and kind.__module__ != "numpy":
        return _same_tensors(*map(_tensor, (ref, res, fp64)), **given)
    if isinstance(ref, (str, int, type(None), bool, _C.device)):
        return given["ignore_non_fp"] or _told(ref == res, given, "Accuracy failed (%s): %s != %s", kind, ref, res)
    if kind.__module__ == "numpy":
        return _same_of_numpy(ref, res, fp64, again, given)
    raise RuntimeError(f"unsupported type: {kind.__name__}")


def _check(holds: bool, text: str) -> None:
    if not holds:
        raise AssertionError(text)


def _told(holds, given: dict, *text) -> bool:
    if not holds:
        given["log_error"](*text)
    return bool(holds)


def _tensor(value):
    from .. import tensor

    return value if isinstance(value, _C.TensorBase) else tensor(value)


def _same_of_numpy(ref, res, fp64, again, given: dict) -> bool:
    if hasattr(ref, "__array__") and getattr(ref, "ndim", 0) > 0:
        from .. import as_tensor

        return type(ref) is type(res) and again(as_tensor(ref), as_tensor(res), fp64)
    if given["relax_numpy_equality"] and type(res).__module__ != "numpy":
        ref = ref.item()
    return _told(type(ref) is type(res) and ref == res, given, "Accuracy failed (numpy): %s != %s", ref, res)


def _same_tensors(
    ref, res, fp64, *, cos_similarity, tol, equal_nan, exact_dtype, relax_numpy_equality, ignore_non_fp, log_error
) -> bool:
    from .. import allclose, float32, float64, uint8

    close = partial(allclose, atol=tol, rtol=tol)
    _check(not ref._is_fake and not res._is_fake, "ref and res should not be a FakeTensor")
    if ref.is_sparse:
        _check(res.is_sparse, "Expected res to be sparse since ref is sparse")
        ref, res = ref.to_dense(), res.to_dense()
    if exact_dtype and ref.dtype != res.dtype:
        log_error("dtype mismatch %s, %s", ref.dtype, res.dtype)
        return False
    if exact_dtype and str(ref.dtype) == "torch.bool":
        good = ignore_non_fp or close(ref.to(uint8), res.to(uint8), equal_nan=equal_nan)
        return good or _told(False, {"log_error": log_error}, "Accuracy failed: uint8 tensor did not match")
    if cos_similarity:
        from ..nn.functional import cosine_similarity

        ref, res = ref.flatten().to(float32), res.flatten().to(float32)
        return close(ref, res, equal_nan=True) or bool(cosine_similarity(ref, res, dim=0, eps=1e-6) >= 0.99)
    if not exact_dtype:
        ref = ref.to(res.dtype)
    if close(ref, res, equal_nan=equal_nan):
        return True
    if fp64.dtype == float64:
        return _as_near(ref, res, fp64, tol, equal_nan, log_error)
    return ignore_non_fp or _told(False, {"log_error": log_error}, "Accuracy failed: allclose not within tol=%s", tol)


def _as_near(ref, res, fp64, tol: float, equal_nan: bool, log_error) -> bool:
    """Whether `res` is not much farther from the exact numbers than `ref`."""
    error, found = rmse(fp64, ref).item(), rmse(fp64, res).item()
    half = res.dtype.itemsize == 2
    small = fp64.numel() < 1000 or (ref.ndim == 4 and ref.shape[-1] == ref.shape[-2] == 1) or tol >= 2e-2
    good = found <= (3.0 if half or small else 2.0) * error + tol / 10.0
    good = good or (equal_nan and math.isnan(error) and math.isnan(found))
    return _told(good, {"log_error": log_error}, "RMSE (res-fp64): %.5f, (ref-fp64): %.5f", found, error)
