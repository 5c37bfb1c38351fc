"""Jacobians, Hessians and their products with vectors, of functions of tensors; by autograd, once or twice."""

import narthex as torch

__all__ = ["vjp", "jvp", "jacobian", "hessian", "hvp", "vhp"]
_V_NONE_OUT = (
    "The vector v can only be None if the user-provided function returns a single Tensor with a single element."
)
_V_NONE_IN = (
    "The vector v can only be None if the input to the user-provided function is a single Tensor with a single element."
)
_ONLY_VECTORS = (
    "Computing Jacobian using forward-AD or forward-over-reverse Hessian isonly implemented for `vectorize=True`."
)


# _as_tuple, _grad_postprocess, _tuple_postprocess and _construct_standard_basis_for have PyTorch's names: packages that
# make Jacobians of their own take them from here.
def _as_tuple(inp, arg_name: str | None = None, fn_name: str | None = None) -> tuple:
    """(whether `inp` is a tuple, its tensors); without the names that an error tells, anything, in a tuple."""
    is_tuple = isinstance(inp, tuple)
    if arg_name is None and fn_name is None:
        return tuple(inp) if isinstance(inp, tuple | list) else (inp,)
    if isinstance(inp, torch.Tensor):
        return False, (inp,)
    name = f"The {arg_name} given to {fn_name} must be either a Tensor or a tuple of Tensors but the"
    if not is_tuple:
        raise TypeError(f"{name} given {arg_name} has type {type(inp)}.")
    for index, each in enumerate(inp):
        if not isinstance(each, torch.Tensor):
            raise TypeError(f"{name} value at index {index} has type {type(each)}.")
    return True, inp


def _call(func, inputs: tuple, given_to: str) -> tuple:
    return _as_tuple(func(*inputs), "outputs of the user-provided function", given_to)


def _inputs(inputs: tuple, create_graph: bool) -> tuple:
    """Tensors that require grad: with a graph they lead on to those given, without they begin anew."""
    if create_graph:
        return tuple(each.view_as(each) if each.requires_grad else each.detach().requires_grad_() for each in inputs)
    return tuple(each.detach().requires_grad_() for each in inputs)


def _tuple_postprocess(res: tuple, to_unpack):
    """`res`, or what stands in it, where `to_unpack` says that it was no tuple; two of that: of `res`, of its rows."""
    if isinstance(to_unpack, tuple):
        if len(to_unpack) != 2:
            raise AssertionError("Expected to_unpack tuple to have exactly 2 elements")
        if not to_unpack[1]:
            res = tuple(row[0] for row in res)
        to_unpack = to_unpack[0]
    return res if to_unpack else res[0]


def _results(values: tuple, is_tuple: bool, create_graph: bool):
    if not create_graph:
        values = tuple(each.detach() if each.requires_grad else each for each in values)
    return _tuple_postprocess(values, is_tuple)


def _grad_postprocess(inputs, create_graph: bool):
    """Without a graph what stands in tuples of tuples is cut off from its past."""
    if create_graph:
        return inputs
    return tuple(_grad_postprocess(each, False) for each in inputs) if isinstance(inputs, tuple) else inputs.detach()


def _construct_standard_basis_for(tensors: tuple, tensor_numels: tuple) -> tuple:
    """Of the identity as long as all elements together the columns of each tensor, of its type."""
    if len(tensors) != len(tensor_numels):
        raise AssertionError(
            "Expected tensors and tensor_numels to have the same length, "
            f"but got {len(tensors)} and {len(tensor_numels)}"
        )
    if not tensors:
        raise AssertionError("Expected at least one tensor")
    total, before, chunks = sum(tensor_numels), 0, []
    for tensor, n in zip(tensors, tensor_numels, strict=True):
        chunk = tensor.new_zeros(total, n)
        chunk.diagonal(-before).fill_(1)
        chunks.append(chunk)
        before += n
    return tuple(chunks)


def _check_v(v: tuple, like: tuple, like_is_tuple: bool) -> None:
    if len(v) != len(like):
        if like_is_tuple:
            raise RuntimeError(f"v is a tuple of invalid length: should be {len(like)} but got {len(v)}.")
        raise RuntimeError("The given v should contain a single Tensor.")
    for index, (one, other) in enumerate(zip(v, like)):
        if one.shape != other.shape:
            place = f"Entry {index} in " if like_is_tuple else ""
            raise RuntimeError(f"{place}v has invalid size: should be {other.shape} but got {one.shape}.")


def _vector(v, like: tuple, like_is_tuple: bool, given_to: str, none_text: str) -> tuple:
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(none_text)
        return tuple(torch.ones_like(each) for each in like)
    _, v = _as_tuple(v, "v", given_to)
    _check_v(v, like, like_is_tuple)
    return v


def _check_grads(values: tuple, inputs: tuple, strict: bool, what: str) -> None:
    """`what`: 'outputs', 'jacobian' or 'hessian'; without strict nothing is asked."""
    if not strict:
        return
    for index, value in enumerate(values):
        if value is None:
            raise RuntimeError(_INDEPENDENT[what].format(index))
        if not value.requires_grad:
            raise RuntimeError(_NO_GRAD[what].format(index))


_NO_GRAD = {
    "outputs": "Output {} of the user-provided function does not require gradients. The outputs must be computed "
    "in a differentiable manner from the input when running in strict mode.",
    "jacobian": "The jacobian of the user-provided function is independent of input {}. This is not allowed in "
    "strict mode when create_graph=True.",
    "hessian": "While computing the hessian, found that the jacobian of the user-provided function with respect to "
    "input {} is independent of the input. This is not allowed in strict mode. You should ensure that your function is "
    "twice differentiable and that the jacobian depends on the inputs (this would be violated by a linear function for "
    "example).",
}
_INDEPENDENT = {
    "outputs": "The output of the user-provided function is independent of input {}. This is not allowed in strict "
    "mode.",
    "jacobian": _NO_GRAD["jacobian"],
    "hessian": _NO_GRAD["hessian"],
}


def _grad(outputs: tuple, inputs: tuple, vectors, create_graph: bool) -> tuple:
    """Gradients or None; of what requires grad alone."""
    vectors = (None,) * len(outputs) if vectors is None else vectors
    pairs = [(out, v) for out, v in zip(outputs, vectors) if out is not None and out.requires_grad]
    if not pairs:
        return (None,) * len(inputs)
    roots, seeds = zip(*pairs)
    return torch.autograd.grad(roots, inputs, seeds, allow_unused=True, create_graph=create_graph, retain_graph=True)


def _filled(gradients: tuple, like: tuple, strict: bool, create_graph: bool, text: str) -> tuple:
    """Zeros for those that are not there; an error instead when `strict`."""
    filled = []
    for index, (gradient, each) in enumerate(zip(gradients, like)):
        if gradient is None and strict:
            raise RuntimeError(text.format(index))
        if strict and create_graph and not gradient.requires_grad:
            raise RuntimeError(_NO_GRAD["jacobian"].format(index))
        filled.append(torch.zeros_like(each) if gradient is None else gradient)
    return tuple(filled)


def vjp(func, inputs, v=None, create_graph: bool = False, strict: bool = False) -> tuple:
    """(func(inputs), v times its Jacobian)."""
    with torch.enable_grad():
        is_tuple, inputs = _as_tuple(inputs, "inputs", "vjp")
        inputs = _inputs(inputs, create_graph)
        out_is_tuple, outputs = _call(func, inputs, "vjp")
        _check_grads(outputs, inputs, strict, "outputs")
        v = _vector(v, outputs, out_is_tuple, "vjp", _V_NONE_OUT)
    with torch.set_grad_enabled(create_graph or torch.is_grad_enabled()):
        gradients = _grad(outputs, inputs, v, create_graph)
        product = _filled(gradients, inputs, strict, create_graph, _INDEPENDENT["outputs"])
    return _results(outputs, out_is_tuple, create_graph), _results(product, is_tuple, create_graph)


def _forward_product(outputs: tuple, inputs: tuple, v: tuple, strict: bool, create_graph: bool) -> tuple:
    """The Jacobian times v: the gradient, with respect to w, of what w times the Jacobian is."""
    w = tuple(torch.zeros_like(out).requires_grad_() for out in outputs)
    gradients = _grad(outputs, inputs, w, True)
    if strict:
        _check_grads(gradients, inputs, strict, "outputs")
    product = _grad(gradients, w, v, create_graph)
    return _filled(product, outputs, strict and create_graph, create_graph, _NO_GRAD["jacobian"])


def jvp(func, inputs, v=None, create_graph: bool = False, strict: bool = False) -> tuple:
    """(func(inputs), its Jacobian times v), by differentiating twice."""
    with torch.enable_grad():
        is_tuple, inputs = _as_tuple(inputs, "inputs", "jvp")
        inputs = _inputs(inputs, create_graph)
        v = _vector(v, inputs, is_tuple, "jvp", _V_NONE_IN)
        out_is_tuple, outputs = _call(func, inputs, "jvp")
        _check_grads(outputs, inputs, strict, "outputs")
        product = _forward_product(outputs, inputs, v, strict, create_graph)
    return _results(outputs, out_is_tuple, create_graph), _results(product, out_is_tuple, create_graph)


def _row(out, at: int, inputs: tuple, index: int, strict: bool, create_graph: bool) -> tuple:
    gradients = _grad((out.reshape(-1)[at],), inputs, None, create_graph)
    for k, gradient in enumerate(gradients):
        if strict and gradient is None:
            raise RuntimeError(
                f"Output {index} of the user-provided function is independent of input {k}. "
                "This is not allowed in strict mode."
            )
        if strict and create_graph and not gradient.requires_grad:
            raise RuntimeError(_NO_GRAD["jacobian"].format(k))
    return tuple(torch.zeros_like(x) if g is None else g for g, x in zip(gradients, inputs))


def _rows(outputs: tuple, inputs: tuple, strict: bool, create_graph: bool) -> tuple:
    """For each output, for each input the block of the Jacobian, of both sizes one behind the other."""
    blocks = []
    for index, out in enumerate(outputs):
        rows = [_row(out, at, inputs, index, strict, create_graph) for at in range(out.numel())]
        blocks.append(
            tuple(
                torch.stack([row[k] for row in rows]).view(out.shape + x.shape)
                if rows
                else x.new_zeros(out.shape + x.shape)
                for k, x in enumerate(inputs)
            )
        )
    return tuple(blocks)


def _columns(func, inputs: tuple) -> tuple:
    """The same by products with each unit vector."""

    def products(k: int, unit):
        v = tuple(unit if j == k else torch.zeros_like(x) for j, x in enumerate(inputs))
        return jvp(func, inputs, v)

    out_is_tuple, outputs = _call(func, inputs, "jacobian")
    columns = []
    for k, x in enumerate(inputs):
        units = torch.eye(x.numel(), dtype=x.dtype, device=x.device).view((x.numel(), *x.shape))
        tangents = [_as_tuple(products(k, unit)[1], "v", "jvp")[1] for unit in units]
        columns.append(
            tuple(torch.stack([t[i] for t in tangents], -1).view(out.shape + x.shape) for i, out in enumerate(outputs))
        )
    return out_is_tuple, tuple(zip(*columns))


def jacobian(
    func,
    inputs,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
):
    """The Jacobian of each output by each input, of both sizes one behind the other."""
    assert strategy in ("forward-mode", "reverse-mode"), (
        'Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your function has more outputs than '
        'inputs, "forward-mode" tends to be more performant. Otherwise, prefer to use "reverse-mode".'
    )
    where = "torch.autograd.functional.jacobian: "
    if strategy == "forward-mode" and create_graph:
        raise NotImplementedError(
            where + '`create_graph=True` and `strategy="forward-mode"` are not supported together (yet). '
            'Please either set `create_graph=False` or `strategy="reverse-mode"`.'
        )
    if strategy == "forward-mode" and strict:
        raise RuntimeError(
            where + '`strict=True` and `strategy="forward-mode"` are not supported together (yet). '
            'Please either set `strict=False` or `strategy="reverse-mode"`.'
        )
    if strategy == "forward-mode" and not vectorize:
        raise NotImplementedError(_ONLY_VECTORS)
    if strict and vectorize:
        raise RuntimeError(
            where + "`strict=True` and `vectorized=True` are not supported together. "
            "Please either set `strict=False` or `vectorize=False`."
        )
    with torch.enable_grad():
        is_tuple, inputs = _as_tuple(inputs, "inputs", "jacobian")
        if strategy == "forward-mode":
            out_is_tuple, blocks = _columns(func, _inputs(inputs, False))
            return _grad_postprocess(_tuple_postprocess(blocks, (out_is_tuple, is_tuple)), False)
        inputs = _inputs(inputs, create_graph)
        out_is_tuple, outputs = _call(func, inputs, "jacobian")
        _check_grads(outputs, inputs, strict, "outputs")
        blocks = _rows(outputs, inputs, strict, create_graph)
    return _grad_postprocess(_tuple_postprocess(blocks, (out_is_tuple, is_tuple)), create_graph)


def _one_number(func, given_to: str):
    """`func`, whose result must be one tensor with one element; as a tensor."""

    def called(*inputs):
        is_tuple, outputs = _call(func, inputs, given_to)
        if is_tuple:
            raise RuntimeError(f"The function given to {given_to} should return a single Tensor")
        if outputs[0].numel() != 1:
            raise RuntimeError(
                f"The Tensor returned by the function given to {given_to} should contain a single element"
            )
        return outputs[0].squeeze()

    return called


def hessian(
    func,
    inputs,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
):
    """The Hessian of a function with one number: for each input by each input."""
    assert outer_jacobian_strategy in ("forward-mode", "reverse-mode"), (
        'Expected strategy to be either "forward-mode" or "reverse-mode".'
    )
    is_tuple, inputs = _as_tuple(inputs, "inputs", "hessian")
    number = _one_number(func, "hessian")

    def gradients(*inner):
        inner = tuple(x if x.requires_grad else x.requires_grad_() for x in inner)
        out = number(*inner)
        _check_grads((out,), inner, strict, "outputs")
        got = _grad((out,), inner, None, True)
        if strict:
            _check_grads(got, inner, True, "hessian")
        return tuple(torch.zeros_like(x) if g is None else g for g, x in zip(got, inner))

    blocks = jacobian(gradients, inputs, create_graph, strict, vectorize, outer_jacobian_strategy)
    return blocks if is_tuple else blocks[0][0]


def vhp(func, inputs, v=None, create_graph: bool = False, strict: bool = False) -> tuple:
    """(func(inputs), v times its Hessian)."""
    with torch.enable_grad():
        is_tuple, inputs = _as_tuple(inputs, "inputs", "vhp")
        inputs = _inputs(inputs, create_graph)
        v = _vector(v, inputs, is_tuple, "vhp", _V_NONE_IN)
        out = _one_number(func, "vhp")(*inputs)
        _check_grads((out,), inputs, strict, "outputs")
        first = _grad((out,), inputs, None, True)
        _check_grads(first, inputs, strict, "hessian")
        product = _filled(_grad(first, inputs, v, create_graph), inputs, strict, create_graph, _NO_GRAD["hessian"])
    return _results((out,), False, create_graph), _results(product, is_tuple, create_graph)


def hvp(func, inputs, v=None, create_graph: bool = False, strict: bool = False) -> tuple:
    """(func(inputs), its Hessian times v), by differentiating what w times the Hessian is with respect to w."""
    with torch.enable_grad():
        is_tuple, inputs = _as_tuple(inputs, "inputs", "hvp")
        inputs = _inputs(inputs, create_graph)
        v = _vector(v, inputs, is_tuple, "hvp", _V_NONE_IN)
        out = _one_number(func, "hvp")(*inputs)
        _check_grads((out,), inputs, strict, "outputs")
        first = _grad((out,), inputs, None, True)
        _check_grads(first, inputs, strict, "hessian")
        w = tuple(torch.zeros_like(x).requires_grad_() for x in inputs)
        double = _grad(first, inputs, w, True)
        _check_grads(double, inputs, strict, "hessian")
        product = _filled(_grad(double, w, v, create_graph), inputs, strict, create_graph, _NO_GRAD["hessian"])
    return _results((out,), False, create_graph), _results(product, is_tuple, create_graph)
