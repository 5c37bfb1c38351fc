"""PyTorch's own samples of its operators (op_db), and six ways to run an entry by Narthex against them:

value: Narthex equals PyTorch; gradient: so do the gradients of its results; second: in float64, theirs; forward: so do
their tangents, from the same tangents of the arguments; fake: on fake tensors the same call says
the sizes, strides and dtypes that the real call gives; compiled: a full graph of the call, and of its backward, gives
what the eager call gives. A way is a function that raises where Narthex does not do as it should.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import narthex as nt
import torch
from narthex import _C
from torch._dynamo.exc import Unsupported, UserError
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, FakeTensorMode

DTYPES = (torch.float32, torch.int64, torch.bool, torch.bfloat16, torch.complex64, torch.complex32)
COMPLEX = torch.complex64  # runs every way
MOST = {torch.float32: 24, torch.complex64: 12}  # samples of a dtype
OTHERS = 8  # of the dtypes beside the first
SEED = 42  # random operators get the same on both sides
NO_VALUES = ("empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "empty_permuted")


# Called otherwise than by the operator's own signature.
def eigenvectors(function: Callable[..., Any]) -> Callable[..., Any]:
    """Eigenvalues, and eigenvectors without their phases, which are free."""

    def run(x: Any, *args: Any, **options: Any) -> Any:
        values, vectors = function(x, *args, **options)
        return values, vectors.abs()

    return run


def singular_vectors(function: Callable[..., Any]) -> Callable[..., Any]:
    """Singular values and vectors; those of complex matrices without their phases."""

    def run(x: Any, *args: Any, **options: Any) -> Any:
        u, s, v = function(x, *args, **options)
        return (u.abs(), s, v.abs()) if x.dtype.is_complex else (u, s, v)

    return run


def low_rank(function: Callable[..., Any]) -> Callable[..., Any]:
    """Of a product of two matrices, without the signs or phases of the vectors, which are free."""

    def run(a: Any, b: Any, **options: Any) -> Any:
        u, s, v = function(a @ b.mT, **options)
        return u.abs(), s, v.abs()

    return run


def indices_pooled(x: Any, **options: Any) -> Any:
    """What max_pool2d_with_indices_backward makes of ones."""
    kernel_size, stride, *others = (options[k] for k in ("kernel_size", "stride", "padding", "dilation", "ceil_mode"))
    sizes = (kernel_size, kernel_size if stride is None else stride, *others)
    out, at = nt.nn.functional.max_pool2d_with_indices(x, *sizes)
    return nt.ops.aten.max_pool2d_with_indices_backward.default(nt.ones_like(out), x, *sizes, at)


# By the entry's name, or by its identity, of one variant.
CALLS: dict[str, Callable[..., Any]] = {
    "__getitem__": lambda x, at: x[at],
    "__radd__": lambda x, y: y + x,
    "__rmul__": lambda x, y: y * x,
    "__rsub__": lambda x, y: y - x,
    "__rpow__": lambda x, y: y**x,
    "__rmod__": lambda x, y: y % x,
    "__rmatmul__": lambda x, y: y @ x,
    "__rand__": lambda x, y: y & x,
    "__ror__": lambda x, y: y | x,
    "__rxor__": lambda x, y: y ^ x,
    "where": lambda x, condition, other: nt.where(condition, x, other),
    "nn.functional.embedding": lambda weight, at, **options: nt.nn.functional.embedding(at, weight, **options),
    "polygamma": lambda x, n: nt.polygamma(n, x),
    "special.polygamma": lambda x, n: nt.special.polygamma(n, x),
    "linalg.eigh": eigenvectors(nt.linalg.eigh),
    "linalg.eig": eigenvectors(nt.linalg.eig),
    "linalg.svd": singular_vectors(nt.linalg.svd),
    "svd": singular_vectors(nt.svd),
    "zero_": lambda x: nt.zero_(x * 1),
    "item": lambda x: x.item(),
    "einsum": lambda tensors, equation: nt.einsum(equation, tensors),
    "svd_lowrank": low_rank(nt.svd_lowrank),
    "pca_lowrank": low_rank(nt.pca_lowrank),
    "linalg.pinv.singular": lambda a, b: nt.linalg.pinv(a @ b.mT),
    "linalg.lstsq.grad_oriented": lambda a, b, driver: nt.linalg.lstsq(a, b, driver=driver)[:2],
    "max_pool2d_with_indices_backward": indices_pooled,
    "normal.in_place": lambda x, mean, std: x.normal_(mean, std),
    "normal.number_mean": lambda std, mean, *size, **options: nt.normal(mean, std, *size, **options),
}
THEIRS: dict[str, Callable[..., Any]] = {
    "svd_lowrank": low_rank(torch.svd_lowrank),
    "pca_lowrank": low_rank(torch.pca_lowrank),
    "item": lambda x: x.item(),
    "linalg.eigh": eigenvectors(torch.linalg.eigh),
    "linalg.eig": eigenvectors(torch.linalg.eig),
    "linalg.svd": singular_vectors(torch.linalg.svd),
    "svd": singular_vectors(torch.svd),
    "zero_": lambda x: torch.zero_(x * 1),
    "rand_like": torch.rand_like,  # the entry calls randn_like
}


# What makes matrices of which every tangent is one that the operator is made for.
SHAPING = {"gradcheck_wrapper_hermitian_input", "gradcheck_wrapper_triangular_input"}


class Other(Exception):
    """A sample with something that has no counterpart in Narthex at all."""


def at(root: Any, name: str) -> Any:
    """What is called `a.b` in `root`, None if it is not there."""
    for part in name.split("."):
        try:
            root = getattr(root, part)
        except (AttributeError, NotImplementedError):
            return None
    return root


def find(name: str) -> Callable[..., Any] | None:
    """Narthex's function of op_db's name: of the module, a method, a property or an operator by its ATen name."""
    if name in CALLS:
        return CALLS[name]
    value = at(nt, name)
    if callable(value) and not isinstance(value, type):
        return value
    value = None if "." in name else at(nt.Tensor, name)
    if callable(value):
        return value
    if value is not None:
        return lambda x: getattr(x, name)
    return at(nt.ops.aten, name.removeprefix("ops.aten."))


def identity(op: Any) -> str:
    """`div.floor_rounding`"""
    return op.name + ("." + op.variant_test_name if op.variant_test_name else "")


def function_of(op: Any) -> Callable[..., Any] | None:
    """Narthex's function of an entry."""
    return CALLS.get(identity(op)) or find(op.name)


def around(value: torch.Tensor) -> torch.Tensor:
    """All memory of a tensor that lies in a larger one, else the tensor."""
    storage = value.untyped_storage()
    if storage.nbytes() <= value.numel() * value.itemsize or value.numel() == 0:
        return value
    return torch.empty(0, dtype=value.dtype).set_(storage)


def over(value: Any, known: dict[Any, Any] | None = None) -> Any:
    """`value` with Narthex's tensors over the same memory; `known` keeps what of it there is already, so that tensors
    that share a storage do so here."""
    if isinstance(value, torch.Tensor):
        if value.layout != torch.strided or value.is_conj() or value.is_neg():
            raise Other
        if value.is_meta:
            return nt.empty_strided(value.shape, value.stride(), dtype=over(value.dtype), device="meta")
        storage = (value.untyped_storage().data_ptr(), value.dtype)
        if known is not None and storage in known:
            return known[storage].as_strided(value.shape, value.stride(), value.storage_offset())
        made = whole = _C.from_dlpack(torch._C._to_dlpack(inside := around(value)))
        made = made if inside is value else made.as_strided(value.shape, value.stride(), value.storage_offset())
        if known is not None and value.numel():
            known[storage] = whole
        return made.requires_grad_() if value.requires_grad else made
    if isinstance(value, (torch.dtype, torch.memory_format, torch.layout)):
        name = str(value).rpartition(".")[2]
        if not hasattr(nt, name):
            raise Other
        return getattr(nt, name)
    if isinstance(value, torch.device):
        return nt.device(str(value))
    if isinstance(value, dict):
        return {name: over(item, known) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return (list if isinstance(value, list) else tuple)(over(item, known) for item in value)
    if value is None or isinstance(value, (bool, int, float, complex, str, slice)) or value is Ellipsis:
        return value
    raise Other


def tensors(value: Any) -> list[Any]:
    """The tensors in `value`, in order."""
    if isinstance(value, (torch.Tensor, _C.TensorBase)):
        return [value]
    values = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [tensor for item in values for tensor in tensors(item)]


def changed(value: Any, change: Callable[[Any], Any], kind: type = _C.TensorBase) -> Any:
    """`value` with `change` of every tensor, Narthex's or of another class, in the place of that tensor."""
    if isinstance(value, kind):
        return change(value)
    if isinstance(value, dict):
        return {name: changed(item, change, kind) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return (list if isinstance(value, list) else tuple)(changed(item, change, kind) for item in value)
    return value


class Refused(Exception):
    """Narthex refuses a way of which PyTorch says that it needs the elements, as PyTorch does."""


class Sample:
    """One call, here and there: the arguments share their memory."""

    def __init__(self, op: Any, dtype: torch.dtype, given: Any) -> None:
        self.name, self.dtype = op.name, dtype
        self.there = ([given.input, *given.args], dict(given.kwargs))
        self.here = over(self.there)
        self.function = function_of(op)
        self.function_there = THEIRS.get(op.name, op.op)
        wrapper = op.gradcheck_wrapper
        name = getattr(wrapper, "__name__", "")
        named = set(wrapper.__code__.co_names) if name == "<lambda>" else {name}
        self.wrapper = wrapper if named & SHAPING else None
        self.text = given.summary() if hasattr(given, "summary") else str(given)

    def call(self, arguments: Any = None) -> Any:
        args, keywords = arguments or self.here
        nt.manual_seed(SEED)
        return self.function(*args, **keywords)

    def call_there(self, arguments: Any = None) -> Any:
        args, keywords = arguments or self.there
        torch.manual_seed(SEED)
        return self.function_there(*args, **keywords)


def samples(op: Any, dtype: torch.dtype) -> Iterator[Sample]:
    """Those that PyTorch itself computes on the CPU and that can be said to Narthex."""
    torch.manual_seed(0)
    wants = (dtype.is_complex or (dtype.is_floating_point and dtype.itemsize >= 4)) and op.supports_autograd
    for given, _ in zip(op.sample_inputs("cpu", dtype, requires_grad=wants), range(MOST.get(dtype, OTHERS))):
        try:
            sample = Sample(op, dtype, given)
            sample.call_there()
        except (Other, RuntimeError):
            continue
        yield sample


# ---- the six ways ---------------------------------------------------------------------------------------------------
TOLERANCES = {
    torch.float32: {"rtol": 1e-4, "atol": 5e-5},
    torch.complex64: {"rtol": 1e-4, "atol": 5e-5},
    torch.bfloat16: {"rtol": 1.6e-2, "atol": 1e-2},
    torch.float16: {"rtol": 1.6e-2, "atol": 1e-2},
    torch.complex32: {"rtol": 1.6e-2, "atol": 1e-2},
}


def close(mine: Any, theirs: torch.Tensor, **tolerance: float) -> None:
    assert str(mine.layout) == str(theirs.layout)
    if theirs.layout != torch.strided:
        mine, theirs = mine.to_dense(), theirs.to_dense()
    torch.testing.assert_close(
        torch.from_dlpack(mine.detach()), theirs.detach(), equal_nan=True, check_stride=False, **tolerance
    )


# PyTorch may round sums in between, or lose digits: what it computes in a wider dtype says who is right.
WIDER = {torch.bfloat16: torch.float32, torch.float32: torch.float64, torch.complex64: torch.complex128,
         torch.complex32: torch.complex64}


def wider(sample: Sample) -> Any:
    """PyTorch's arguments in a dtype of more digits."""

    def widen(x: torch.Tensor) -> torch.Tensor:
        return x.detach().to(WIDER[x.dtype]).requires_grad_(x.requires_grad) if x.dtype in WIDER else x

    return changed(sample.there, widen, torch.Tensor)


def run_value(sample: Sample) -> None:
    theirs, mine = sample.call_there(), sample.call()
    if not tensors(theirs):
        assert mine == theirs or mine != mine and theirs != theirs
        return
    mine, theirs = tensors(mine), tensors(theirs)
    assert len(mine) == len(theirs)
    for ours, wanted in zip(mine, theirs):
        assert tuple(ours.shape) == tuple(wanted.shape) and str(ours.dtype) == str(wanted.dtype)
    if sample.name in NO_VALUES:
        return
    try:
        for ours, wanted in zip(mine, theirs):
            close(ours, wanted, **TOLERANCES.get(sample.dtype, {}))
    except AssertionError:
        if sample.dtype not in WIDER:
            raise
        for ours, wanted in zip(mine, tensors(sample.call_there(wider(sample)))):
            close(ours, wanted.to(getattr(torch, str(ours.dtype).rpartition(".")[2])), **TOLERANCES[sample.dtype])


def weights_of(results: list[Any]) -> list[torch.Tensor]:
    """The same random numbers for results of the same sizes."""
    generator = torch.Generator().manual_seed(1)
    dtype = lambda one: getattr(torch, str(one.dtype).rpartition(".")[2])  # noqa: E731
    return [torch.randn(tuple(one.shape), generator=generator).to(dtype(one)) for one in results]


def gradients(module: Any, results: Any, arguments: Any) -> tuple[list[int], list[Any]]:
    """Which results have a gradient, and what each argument that wants one gets of all of them."""
    results, inputs = tensors(results), [one for one in tensors(arguments) if one.requires_grad]
    where = [k for k, one in enumerate(results) if one.requires_grad]
    outputs = [results[k] for k in where]
    weights = weights_of(outputs)
    weights = weights if module is torch else list(map(over, weights))
    return where, list(module.autograd.grad(outputs, inputs, weights, allow_unused=True)) if where else []


def is_zero(tensor: Any) -> bool:
    return tensor is None or not torch.from_dlpack(tensor.detach()).any()


def compare_gradients(mine: list[Any], theirs: list[Any]) -> None:
    for ours, wanted in zip(mine, theirs):
        if ours is None or wanted is None:  # PyTorch and we may each say zero by None
            assert is_zero(ours) and is_zero(wanted)
        else:
            close(ours, wanted.to(getattr(torch, str(ours.dtype).rpartition(".")[2])), rtol=1e-3, atol=1e-4)


def run_gradient(sample: Sample) -> None:
    where, theirs = gradients(torch, sample.call_there(), sample.there)
    where_here, mine = gradients(nt, sample.call(), sample.here)
    assert where_here == where, f"results {where_here} have a gradient, in PyTorch {where}"
    try:
        compare_gradients(mine, theirs)
    except AssertionError:
        arguments = wider(sample)
        compare_gradients(mine, gradients(torch, sample.call_there(arguments), arguments)[1])


def second_gradients(module: Any, results: Any, arguments: Any) -> list[Any]:
    """Of the gradients of the results, times random numbers: what the arguments that want a gradient and the weights of
    the results get."""
    results, inputs = tensors(results), [one for one in tensors(arguments) if one.requires_grad]
    outputs = [one for one in results if one.requires_grad]
    given = weights_of(outputs)
    given = [one.requires_grad_() for one in (given if module is torch else map(over, given))]
    first = module.autograd.grad(outputs, inputs, given, create_graph=True, allow_unused=True) if outputs else ()
    first = [one if one is not None and one.requires_grad else None for one in first]
    weights = weights_of([one for one in inputs])
    weights = [one for one, got in zip(weights if module is torch else map(over, weights), first) if got is not None]
    first = [one for one in first if one is not None]
    return list(module.autograd.grad(first, inputs + given, weights, allow_unused=True)) if first else []


def run_second(sample: Sample) -> None:
    """Where PyTorch has none Narthex may have one; where all is zero each may say None."""
    try:
        theirs = second_gradients(torch, sample.call_there(), sample.there)
    except RuntimeError:
        return
    mine = second_gradients(nt, sample.call(), sample.here)
    for ours, wanted in zip(mine, theirs, strict=bool(mine and theirs)):
        if ours is None or wanted is None:
            assert is_zero(wanted) if ours is None else nt.allclose(ours, nt.zeros_like(ours))
        else:
            close(ours, wanted, rtol=1e-6, atol=1e-7)
    assert theirs or all(nt.allclose(one, nt.zeros_like(one)) for one in mine if one is not None)
    assert mine or all(map(is_zero, theirs))


def theirs_needs_elements(sample: Sample, way: str) -> bool:
    """Whether PyTorch refuses the same call, and says that it hangs on the elements."""
    if way == "fake":
        try:
            with FakeTensorMode() as mode:
                sample.call_there(changed(sample.there, mode.from_tensor, torch.Tensor))
        except (DataDependentOutputException, DynamicOutputShapeException):
            return True
        except RuntimeError as error:
            return "its data is not allocated yet" in str(error)
        return False
    torch._dynamo.reset()
    function = sample.function_there

    def call(args: Any, keywords: Any) -> Any:
        return function(*args, **keywords)

    try:
        torch.compile(call, backend="eager", fullgraph=True)(*sample.there)
    except (Unsupported, UserError) as error:
        return any(text in str(error) for text in ("ata dependent", "ata-dependent", "Dynamic shape", "Tensor.item"))
    return False


def tangents_of(module: Any, call: Callable[..., Any], arguments: Any, given: list[Any]) -> list[Any]:
    """The tangents of the results of a call whose arguments that want gradients have those that are given."""
    rest, kind = iter(given), torch.Tensor if module is torch else _C.TensorBase
    forward = module.autograd.forward_ad

    def dual(tensor: Any) -> Any:
        return forward.make_dual(tensor.detach(), next(rest)) if tensor.requires_grad else tensor

    with forward.dual_level():
        results = tensors(call(changed(arguments, dual, kind)))
        return [forward.unpack_dual(one).tangent for one in results]


def run_forward(sample: Sample) -> None:
    """Where PyTorch has no tangent Narthex may have one."""
    given = weights_of([one for one in tensors(sample.there) if one.requires_grad])
    call, call_there = sample.call, sample.call_there
    if sample.wrapper:
        call = lambda both: sample.wrapper(sample.function, *both[0], **both[1])  # noqa: E731
        call_there = lambda both: sample.wrapper(sample.function_there, *both[0], **both[1])  # noqa: E731
    try:
        theirs = tangents_of(torch, call_there, sample.there, given)
    except (NotImplementedError, RuntimeError):
        return
    mine = tangents_of(nt, call, sample.here, list(map(over, given)))
    assert len(mine) == len(theirs)
    try:
        compare_gradients(mine, theirs)
    except AssertionError:
        wide = [one.to(WIDER.get(one.dtype, one.dtype)) for one in given]
        compare_gradients(mine, tangents_of(torch, call_there, wider(sample), wide))


def run_fake(sample: Sample) -> None:
    real = tensors(sample.call())
    try:
        fake = tensors(sample.call(changed(sample.here, _C.fake_like)))
    except RuntimeError as error:
        if theirs_needs_elements(sample, "fake"):
            raise Refused from error
        raise
    assert len(fake) == len(real)
    takes = bool(tensors(sample.here))
    for said, meant in zip(fake, real):
        assert said._is_fake or not takes
        assert (tuple(said.shape), str(said.dtype)) == (tuple(meant.shape), str(meant.dtype))
        counts = [d for d in range(meant.ndim) if meant.shape[d] > 1] if meant.numel() > 1 else []
        assert [said.stride()[d] for d in counts] == [meant.stride()[d] for d in counts]


def equal(mine: Any, expected: Any) -> None:
    """Of the same function run in two ways: no other tolerance than that of sums in another order."""
    torch.testing.assert_close(
        torch.from_dlpack(mine.detach()), torch.from_dlpack(expected.detach()), equal_nan=True, rtol=1e-5, atol=1e-6
    )


def run_compiled(sample: Sample) -> None:
    eager = sample.call()

    def function(args: Any, keywords: Any) -> Any:
        return sample.function(*args, **keywords)

    compiled = nt.compile(function, fullgraph=True)
    nt.manual_seed(SEED)
    try:
        got = compiled(*sample.here)
    except RuntimeError as error:
        if theirs_needs_elements(sample, "compiled"):
            raise Refused from error
        raise
    if not tensors(eager):
        assert got == eager or got != got and eager != eager
    assert len(tensors(got)) == len(tensors(eager))
    for ours, wanted in zip(tensors(got), tensors(eager)):
        assert tuple(ours.shape) == tuple(wanted.shape) and ours.dtype == wanted.dtype
        if sample.name not in NO_VALUES:
            equal(ours, wanted)
    where, expected = gradients(nt, eager, sample.here)
    where_compiled, found = gradients(nt, got, sample.here)
    assert where_compiled == where
    for ours, wanted in zip(found, expected):
        if ours is None or wanted is None:
            assert is_zero(ours) and is_zero(wanted)
        else:
            equal(ours, wanted)


WAYS = {
    "value": run_value,
    "gradient": run_gradient,
    "second": run_second,
    "forward": run_forward,
    "fake": run_fake,
    "compiled": run_compiled,
}
