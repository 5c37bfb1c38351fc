"""gradcheck and gradgradcheck: derivatives by autograd beside derivatives by differences.

A complex number counts as two real ones here, so there is one Jacobian of real numbers to compare, for each output and
input: a row for each part of the input, a column for each part of the output. As in PyTorch the name stands for this
module when it is imported and for the function in it when it is called, so the module can be called, too.
"""

import sys
import types
import warnings

import narthex as torch


class GradcheckError(RuntimeError):
    """What gradcheck found wrong."""


def _as_tuple(value) -> tuple:
    if isinstance(value, tuple):
        return value
    return tuple(value) if isinstance(value, list) else (value,)


def _is_differentiable(value) -> bool:
    return isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())


def _parts(value):
    """Its numbers one behind the other, of a complex tensor their parts."""
    value = value.detach()
    value = torch.view_as_real(value.resolve_conj()) if value.is_complex() else value
    return value.reshape(-1)


def _checked(inputs) -> list:
    """Indices of those that are differentiated."""
    chosen = []
    for index, each in enumerate(inputs):
        if not (isinstance(each, torch.Tensor) and each.requires_grad):
            continue
        chosen.append(index)
        if each.dtype not in (torch.float64, torch.complex128):
            warnings.warn(
                f"Input #{index} requires gradient and is not a double precision floating point or complex. This check "
                "will likely fail if all the inputs are not of double precision floating point or complex. ",
                stacklevel=4,
            )
        if any(stride == 0 and size > 1 for stride, size in zip(each.stride(), each.shape)):
            raise RuntimeError(
                f"The {index}th input has a dimension with stride 0. gradcheck only supports inputs that are "
                "non-overlapping to be able to compute the numerical gradients correctly. You should call "
                ".contiguous on the input before passing it to gradcheck."
            )
    if not chosen:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of them have requires_grad=True."
        )
    return chosen


def _outputs(func, inputs: tuple) -> tuple:
    return tuple(out for out in _as_tuple(func(*inputs)) if _is_differentiable(out))


# ---- the two Jacobians ---------------------------------------------------------------------------------------
def _numerical(func, inputs: tuple, index: int, eps: float) -> list:
    """By central differences: for each output [parts of the input, parts of the output]."""
    with torch.no_grad():
        moved = inputs[index].detach().clone()
        given = (*inputs[:index], moved, *inputs[index + 1 :])
        parts = torch.view_as_real(moved) if moved.is_complex() else moved
        places = [()]
        for size in parts.shape:
            places = [(*place, k) for place in places for k in range(size)]
        rows = []
        for place in places:
            before = parts[place].item()
            sides = []
            for step in (-eps, eps):
                parts[place] = before + step
                sides.append([_parts(out).clone() for out in _outputs(func, given)])
            parts[place] = before
            rows.append([(high - low) / (2 * eps) for low, high in zip(*sides)])
        outs = [_parts(out) for out in _outputs(func, given)]
        return [
            torch.stack([row[k] for row in rows]) if rows else out.new_zeros(0, out.numel())
            for k, out in enumerate(outs)
        ]


def _units(out) -> list:
    """Gradients of an output that pick one part of one element."""
    units = []
    for k in range(out.numel()):
        for part in (1, 1j) if out.is_complex() else (1,):
            unit = torch.zeros(out.numel(), dtype=out.dtype, device=out.device)
            unit[k] = torch.tensor(part, dtype=out.dtype)
            units.append(unit.view(out.shape))
    return units


def _backward(out, inputs: tuple, gradient) -> tuple:
    return torch.autograd.grad(out, inputs, gradient, retain_graph=True, allow_unused=True)


def _analytical(out, inputs: tuple, check_dtypes: bool = False) -> list:
    """By autograd: for each input [parts of the input, parts of the output]."""
    columns = []
    for unit in _units(out):
        gradients = _backward(out, inputs, unit)
        for gradient, each in zip(gradients, inputs):
            if gradient is None:
                continue
            if gradient.shape != each.shape:
                raise GradcheckError("Analytical gradient has incorrect size")
            if check_dtypes and gradient.dtype != each.dtype:
                raise GradcheckError("Analytical gradient has dtype mismatch")
        columns.append([torch.zeros_like(_parts(x)) if g is None else _parts(g) for g, x in zip(gradients, inputs)])
    return [
        torch.stack([column[k] for column in columns], 1) if columns else _parts(x).new_zeros(_parts(x).numel(), 0)
        for k, x in enumerate(inputs)
    ]


def _tangents(func, inputs: tuple, chosen: list, tangents: dict) -> list:
    """The parts of the tangents of the outputs, from those of chosen inputs; the others' are zero."""
    forward = torch.autograd.forward_ad
    with forward.dual_level():
        given = list(inputs)
        for index in chosen:
            primal = inputs[index].detach()
            tangent = tangents.get(index)
            given[index] = forward.make_dual(primal, torch.zeros_like(primal) if tangent is None else tangent)
        pairs = [forward.unpack_dual(out) for out in _outputs(func, tuple(given))]
        return [
            torch.zeros_like(_parts(primal)) if tangent is None else _parts(tangent.to(primal.dtype))
            for primal, tangent in pairs
        ]


def _forward_jacobian(func, inputs: tuple, chosen: list, index: int, batched: bool = False) -> list:
    """By forward mode: for each output [parts of the input, parts of the output]; batched: by vmap."""
    units = _units(inputs[index].detach())
    if batched and units:
        rows = torch.vmap(lambda unit: tuple(_tangents(func, inputs, chosen, {index: unit})))(torch.stack(units))
        return list(rows)
    rows = [_tangents(func, inputs, chosen, {index: unit}) for unit in units]
    return [torch.stack(column) for column in zip(*rows)]


# ---- the checks ----------------------------------------------------------------------------------------------
_NOT_AGAIN = (
    "Backward is not reentrant, i.e., running backward with same input and grad_output multiple times gives different "
    "values, although analytical gradient matches numerical gradient.The tolerance for nondeterminism was {}."
)


def _compare(name: tuple, numerical, analytical, atol: float, rtol: float, mode: str = "") -> None:
    if torch.allclose(analytical, numerical.to(analytical.dtype), rtol, atol):
        return
    raise GradcheckError(
        f"Jacobian {mode}mismatch for output {name[0]} with respect to input {name[1]},\n"
        f"numerical:{numerical}\nanalytical:{analytical}\n"
    )


def _check_slow(func, inputs, chosen, outputs, options: dict) -> None:
    leaves = tuple(inputs[index] for index in chosen)
    numerical = [_numerical(func, inputs, index, options["eps"]) for index in chosen]
    for k, out in enumerate(outputs):
        if not out.requires_grad:
            if any(float(block[k].abs().max()) > options["atol"] for block in numerical if block[k].numel()):
                raise GradcheckError("Numerical gradient for function expected to be zero")
            continue
        first = _analytical(out, leaves, options["check_grad_dtypes"])
        again = _analytical(out, leaves)
        for j, block in enumerate(first):
            _compare((k, j), numerical[j][k], block, options["atol"], options["rtol"])
        for block, other in zip(first, again):
            if block.numel() and float((block - other).abs().max()) > options["nondet_tol"]:
                raise GradcheckError(_NOT_AGAIN.format(options["nondet_tol"]))


_BY_TANGENTS = "computed with forward mode "


def _check_forward_slow(func, inputs, chosen, options: dict) -> None:
    for j, index in enumerate(chosen):
        numerical = _numerical(func, inputs, index, options["eps"])
        for k, block in enumerate(_forward_jacobian(func, inputs, chosen, index)):
            _compare((k, j), numerical[k], block, options["atol"], options["rtol"], _BY_TANGENTS)


def _check_forward_batched(func, inputs, chosen) -> None:
    for index in chosen:
        one_by_one = _forward_jacobian(func, inputs, chosen, index)
        for k, block in enumerate(_forward_jacobian(func, inputs, chosen, index, batched=True)):
            if not torch.allclose(block, one_by_one[k]):
                raise GradcheckError(
                    f"For output {k} and input {index}: vmap over forward mode gives {block}, not {one_by_one[k]}"
                )


def _direction(like):
    if not like.is_complex():
        return torch.rand_like(like.detach())
    return torch.view_as_complex(torch.rand_like(torch.view_as_real(like.detach()).contiguous()))


def _check_fast(func, inputs, chosen, outputs, options: dict) -> None:
    """One random direction of each input and each output; where they disagree, the slow check says what is wrong."""
    leaves, eps = tuple(inputs[index] for index in chosen), options["eps"]
    state = torch.get_rng_state()
    try:
        torch.manual_seed(0)
        for k, out in enumerate(outputs):
            v = _direction(out)
            gradients = _backward(out, leaves, v) if out.requires_grad else (None,) * len(leaves)
            for index, gradient in zip(chosen, gradients):
                u = _direction(inputs[index])
                sides = []
                with torch.no_grad():
                    for step in (-eps, eps):
                        moved = (*inputs[:index], inputs[index].detach() + step * u, *inputs[index + 1 :])
                        sides.append(_parts(_outputs(func, moved)[k]))
                slope = ((sides[1] - sides[0]) / (2 * eps)).dot(_parts(v).to(sides[0].dtype))
                ours = torch.zeros_like(slope) if gradient is None else _parts(gradient).dot(_parts(u)).to(slope.dtype)
                room = options["atol"] * max(1.0, float(_parts(u).abs().sum()) * float(_parts(v).abs().sum()))
                if not torch.allclose(ours, slope, options["rtol"], room):
                    _check_slow(func, inputs, chosen, outputs, options)
                    raise GradcheckError(
                        f"Jacobian mismatch for output {k} with respect to input {index},\n"
                        f"numerical:{slope}\nanalytical:{ours}\n"
                    )
    finally:
        torch.set_rng_state(state)


def _check_forward_fast(func, inputs, chosen, options: dict) -> None:
    """One random direction of each input; where an output's slope is another one, the slow check says what is wrong."""
    state, eps = torch.get_rng_state(), options["eps"]
    try:
        torch.manual_seed(0)
        for index in chosen:
            u, sides = _direction(inputs[index]), []
            with torch.no_grad():
                for step in (-eps, eps):
                    moved = (*inputs[:index], inputs[index].detach() + step * u, *inputs[index + 1 :])
                    sides.append([_parts(out) for out in _outputs(func, moved)])
            slopes = [(high - low) / (2 * eps) for low, high in zip(*sides)]
            room = options["atol"] * max(1.0, float(_parts(u).abs().sum()))
            for k, tangent in enumerate(_tangents(func, inputs, chosen, {index: u})):
                if not torch.allclose(tangent, slopes[k].to(tangent.dtype), options["rtol"], room):
                    _check_forward_slow(func, inputs, chosen, options)
                    _compare((k, index), slopes[k], tangent, room, options["rtol"], _BY_TANGENTS)
    finally:
        torch.set_rng_state(state)


def _check_scaling(outputs, inputs, chosen) -> None:
    """Gradients of zero give zero, and an undefined one is as good as zero."""
    leaves = tuple(inputs[index] for index in chosen)
    with_grad = [out for out in outputs if out.requires_grad]
    if not with_grad:
        return
    zeros = tuple(torch.zeros_like(out) for out in with_grad)
    for gradient in torch.autograd.grad(with_grad, leaves, zeros, retain_graph=True, allow_unused=True):
        if gradient is not None and bool((gradient != 0).any()):
            raise GradcheckError("backward not multiplied by grad_output")


def _check_undefined(outputs, inputs, chosen) -> None:
    leaves = tuple(inputs[index] for index in chosen)
    with_grad = [out for out in outputs if out.requires_grad]
    for k, out in enumerate(with_grad if len(with_grad) > 1 else ()):
        v = torch.ones_like(out)
        full = tuple(v if j == k else torch.zeros_like(other) for j, other in enumerate(with_grad))
        alone = _backward(out, leaves, v)
        whole = torch.autograd.grad(with_grad, leaves, full, retain_graph=True, allow_unused=True)
        for one, other in zip(alone, whole):
            one = torch.zeros_like(other) if one is None and other is not None else one
            if one is not None and other is not None and not torch.allclose(one, other):
                raise GradcheckError("Expected backward function to handle undefined output grads.")


def gradcheck(
    func,
    inputs,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked=None,
) -> bool:
    """Whether the gradients that autograd gives of `func` at `inputs` are those by differences; else GradcheckError."""
    assert check_forward_ad or check_backward_ad, (
        "Expected at least one of check_forward_ad or check_backward_ad to be True"
    )
    assert not (check_batched_grad and not check_backward_ad), (
        "Setting check_batched_grad=True requires check_backward_ad to be True"
    )
    assert not (check_batched_forward_grad and not check_forward_ad), (
        "Setting check_batched_forward_grad=True requires check_forward_ad to be True"
    )
    if check_batched_grad:
        raise NotImplementedError("gradcheck: check_batched_grad is not there; leave it out")
    options = {"eps": eps, "atol": atol, "rtol": rtol, "nondet_tol": nondet_tol, "check_grad_dtypes": check_grad_dtypes}
    wanted = {"backward": check_backward_ad, "undefined": check_undefined_grad, "forward": check_forward_ad}
    wanted |= {"batched": check_batched_forward_grad, "fast": fast_mode}
    return _check(func, _as_tuple(inputs), raise_exception, wanted, options)


def _check(func, inputs: tuple, raises: bool, wanted: dict, options: dict) -> bool:
    try:
        chosen = _checked(inputs)
        with torch.enable_grad():
            outputs = _outputs(func, inputs)
            if wanted["backward"]:
                (_check_fast if wanted["fast"] else _check_slow)(func, inputs, chosen, outputs, options)
            if wanted["forward"]:
                (_check_forward_fast if wanted["fast"] else _check_forward_slow)(func, inputs, chosen, options)
            if wanted["batched"]:
                _check_forward_batched(func, inputs, chosen)
            if wanted["backward"]:
                _check_scaling(outputs, inputs, chosen)
            if wanted["backward"] and wanted["undefined"]:
                _check_undefined(outputs, inputs, chosen)
    except GradcheckError:
        if raises:
            raise
        return False
    return True


def gradgradcheck(
    func,
    inputs,
    grad_outputs=None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """The same of the gradients themselves: their gradients by `inputs` and by `grad_outputs`, which are random."""
    assert check_fwd_over_rev or check_rev_over_rev, (
        "Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True"
    )
    inputs = _as_tuple(inputs)
    if grad_outputs is None:
        seeds = []
        for out in _outputs(func, inputs):
            dtype = out.dtype if out.dtype in (torch.float64, torch.complex128) else torch.float64
            seed = torch.testing.make_tensor(
                out.shape, dtype=dtype, device=out.device, low=-1, high=1, noncontiguous=gen_non_contig_grad_outputs
            )
            seeds.append(seed.requires_grad_())
        grad_outputs = tuple(seeds)
    grad_outputs = _as_tuple(grad_outputs)
    n = len(grad_outputs)

    def gradients(*given):
        given_inputs, seeds = given[: len(given) - n], given[len(given) - n :]
        with torch.enable_grad():
            leaves = tuple(
                now if now.requires_grad else now.requires_grad_()
                for now, was in zip(given_inputs, inputs)
                if isinstance(was, torch.Tensor) and was.requires_grad
            )
            pairs = [pair for pair in zip(_outputs(func, given_inputs), seeds) if pair[0].requires_grad]
            outputs, seeds = zip(*pairs)
            got = torch.autograd.grad(outputs, leaves, seeds, create_graph=True, allow_unused=True)
        return tuple(gradient for gradient in got if gradient is not None)

    return gradcheck(
        gradients,
        (*inputs, *grad_outputs),
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
        fast_mode=fast_mode,
        masked=masked,
    )


# ---- older names ---------------------------------------------------------------------------------------------
def _warn(name: str) -> None:
    warnings.warn(
        f"`{name}` was part of PyTorch's private API and not meant to be exposed. We are deprecating it and it "
        "will be removed in a future version of PyTorch. If you have a specific use for this or feature request for "
        "this to be a stable API, please file us an issue at https://github.com/pytorch/pytorch/issues/new",
        FutureWarning,
        stacklevel=3,
    )


def get_numerical_jacobian(fn, inputs, target=None, eps: float = 1e-3, grad_out: float = 1.0) -> tuple:
    """By differences: for each tensor of `inputs` (of `target`) [its elements, elements of the one result]."""
    _warn("get_numerical_jacobian")
    if grad_out != 1.0:
        raise ValueError(
            "Expected grad_out to be 1.0. get_numerical_jacobian no longer supports values of grad_out != 1.0."
        )
    inputs = _as_tuple(inputs)
    wanted = inputs if target is None else _as_tuple(target)
    at = [
        k
        for k, x in enumerate(inputs)
        if isinstance(x, torch.Tensor) and any(x is each for each in wanted) and x.requires_grad
    ]
    return tuple(_numerical(lambda *given: fn(given), inputs, k, eps)[0] for k in at)


def get_numerical_jacobian_wrt_specific_input(
    fn, input_idx, inputs, outputs, eps, input=None, is_forward_ad=False
) -> tuple:
    """By differences: for each output [elements of that input, elements of the output]."""
    return tuple(_numerical(fn, _as_tuple(inputs), input_idx, eps))


def get_analytical_jacobian(inputs, output, nondet_tol: float = 0.0, grad_out: float = 1.0) -> tuple:
    """By autograd: (Jacobians, whether two runs agreed, whether sizes and dtypes were right)."""
    _warn("get_analytical_jacobian")
    if grad_out != 1.0:
        raise ValueError(
            "Expected grad_out to be 1.0. get_analytical_jacobian no longer supports values of grad_out != 1.0."
        )
    leaves = tuple(x for x in _as_tuple(inputs) if isinstance(x, torch.Tensor) and x.requires_grad)
    first, again = _analytical(output, leaves), _analytical(output, leaves)
    steady = all(not a.numel() or float((a - b).abs().max()) <= nondet_tol for a, b in zip(first, again))
    return tuple(first), steady, True, True


class _Module(types.ModuleType):
    def __call__(self, *args, **keywords) -> bool:
        return gradcheck(*args, **keywords)


sys.modules[__name__].__class__ = _Module
