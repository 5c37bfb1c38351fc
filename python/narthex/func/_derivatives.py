"""grad, vjp, jvp, jacrev, jacfwd, hessian, linearize: autograd at levels.

A level gives its function tensors of its own (`_enter`): connected to those outside when these require grad, else
leaves without a past. What it returns keeps its graph when that leads to anything but the level's own leaves
(`_leave`).
"""

import narthex as torch

from .. import _C
from .._vmap import map_rows, of_all_levels
from ..utils._pytree import tree_flatten, tree_map, tree_unflatten, treespec_pprint


# ---- levels --------------------------------------------------------------------------------------------------
def _enter_leaf(x):
    if not isinstance(x, torch.Tensor):
        raise ValueError(f"Thing passed to transform API must be Tensor, got {type(x)}")
    if not (x.is_floating_point() or x.is_complex()):
        raise RuntimeError("only Tensors of floating point dtype can require gradients")
    x = of_all_levels(x)
    return x.view_as(x) if x.requires_grad else x.detach().requires_grad_()


def _enter(tree):
    """(the same tree of tensors of this level, a list of them)."""
    leaves, spec = tree_flatten(tree)
    made = [_enter_leaf(x) for x in leaves]
    return tree_unflatten(made, spec), made


def _leave(tree, own: list, wanted: bool):
    """Results as those outside see them; `wanted`: gradients are recorded there."""

    def settled(x):
        if not isinstance(x, torch.Tensor) or not x.requires_grad:
            return x
        return x if wanted and _C.grad_reaches(x, own) else x.detach()

    return tree_map(settled, tree)


def _wants(own: list, wanted: bool, *trees) -> bool:
    """Whether what is computed now from these must have a graph."""
    tensors = [x for tree in trees for x in tree_flatten(tree)[0] if isinstance(x, torch.Tensor)]
    return wanted and any(_C.grad_reaches(x, own) for x in tensors)


# ---- arguments -----------------------------------------------------------------------------------------------
def _checked_argnums(argnums, n: int):
    if isinstance(argnums, int):
        numbers = (argnums,)
    elif isinstance(argnums, tuple):
        if not argnums:
            raise RuntimeError("argnums must be non-empty")
        if not all(isinstance(each, int) for each in argnums):
            raise RuntimeError(f"argnums elements must be int, got {tuple(type(each) for each in argnums)}")
        numbers = argnums
    else:
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    for number in numbers:
        if not -n <= number < n:
            raise RuntimeError(f"Got argnum={number}, but only {n} positional inputs")
    wrapped = tuple(number % n for number in numbers)
    if len(set(wrapped)) != len(wrapped):
        raise RuntimeError(f"argnums elements must be unique, got {argnums}")
    return wrapped[0] if isinstance(argnums, int) else wrapped


def _chosen(args: tuple, argnums):
    return args[argnums] if isinstance(argnums, int) else tuple(args[number] for number in argnums)


def _replaced(args: tuple, argnums, new) -> tuple:
    args = list(args)
    for number, value in ((argnums, new),) if isinstance(argnums, int) else zip(argnums, new):
        args[number] = value
    return tuple(args)


def _gradients(outputs: list, inputs: list, vectors: list, create_graph: bool) -> list:
    """Zeros where there is no way from an output to an input."""
    pairs = [(out, v) for out, v in zip(outputs, vectors) if out.requires_grad]
    if not pairs:
        return [torch.zeros_like(x) for x in inputs]
    roots, seeds = zip(*pairs)
    got = torch.autograd.grad(roots, inputs, seeds, retain_graph=True, create_graph=create_graph, allow_unused=True)
    return [torch.zeros_like(x) if gradient is None else gradient for gradient, x in zip(got, inputs)]


# ---- of one number -------------------------------------------------------------------------------------------
def _number_of(output, has_aux: bool) -> tuple:
    aux = None
    if has_aux:
        if not (isinstance(output, tuple) and len(output) == 2):
            raise RuntimeError(
                "grad_and_value(f)(*args): output of function f should be a tuple: (output, aux) if has_aux is True"
            )
        output, aux = output
        _only_tensors(aux, "Expected tensors, got unsupported type {}")
    where = "grad_and_value(f)(*args): Expected f(*args) to return a "
    if not isinstance(output, torch.Tensor):
        raise RuntimeError(f"{where}Tensor, got {type(output)}")
    if output.dim() != 0:
        raise RuntimeError(
            f"{where}scalar Tensor, got tensor with {output.dim()} dims. "
            "Maybe you wanted to use the vjp or jacrev APIs instead?"
        )
    return output, aux


def _only_tensors(tree, text: str) -> list:
    leaves = tree_flatten(tree)[0]
    for leaf in leaves:
        if not isinstance(leaf, torch.Tensor):
            raise RuntimeError(text.format(type(leaf)))
    return leaves


def grad_and_value(func, argnums=0, has_aux: bool = False):
    """A function that gives (gradients of func's one number by its arguments `argnums`, that number); with `has_aux`
    func gives (number, more) and the result is (gradients, (number, more))."""

    def wrapper(*args, **kwargs):
        wanted = torch.is_grad_enabled()
        with torch.enable_grad():
            numbers = _checked_argnums(argnums, len(args))
            inner, own = _enter(_chosen(args, numbers))
            output, aux = _number_of(func(*_replaced(args, numbers, inner), **kwargs), has_aux)
            create_graph = _wants(own, wanted, output)
            gradients = _gradients([output], own, [torch.ones_like(output)], create_graph)
            gradients = _leave(tree_unflatten(gradients, tree_flatten(inner)[1]), own, wanted)
            output, aux = _leave(output, own, wanted), _leave(aux, own, wanted)
        return (gradients, (output, aux)) if has_aux else (gradients, output)

    return _named(wrapper, func)


def grad(func, argnums=0, has_aux: bool = False):
    """As grad_and_value, without the number: the gradients, or (gradients, more)."""
    both = grad_and_value(func, argnums, has_aux)

    def wrapper(*args, **kwargs):
        gradients, value = both(*args, **kwargs)
        return (gradients, value[1]) if has_aux else gradients

    return _named(wrapper, func)


def _named(wrapper, func):
    for name in ("__name__", "__qualname__", "__doc__", "__module__"):
        if hasattr(func, name):
            setattr(wrapper, name, getattr(func, name))
    wrapper.__wrapped__ = func
    return wrapper


# ---- products ------------------------------------------------------------------------------------------------
class _Called:
    """func at `primals`: its outputs, in this level, and what follows from them."""

    def __init__(self, func, primals: tuple, has_aux: bool, name: str):
        self.wanted, self.name, self.aux = torch.is_grad_enabled(), name, None
        with torch.enable_grad():
            self.inner, self.own = _enter(primals)
            outputs = func(*self.inner)
            if has_aux:
                if not (isinstance(outputs, tuple) and len(outputs) == 2):
                    raise RuntimeError(
                        f"{name}: output of function f should be a tuple: (output, aux) if has_aux is True"
                    )
                outputs, self.aux = outputs
            self.raw = _only_tensors(
                outputs, f"{name}: expected f(*primals) to return only tensors, got unsupported type {{}}"
            )
            self.spec = tree_flatten(outputs)[1]
            self.outputs = _leave(outputs, self.own, self.wanted)
            self.aux = _leave(self.aux, self.own, self.wanted)
        self.forward = None
        self.is_linked = _wants(self.own, self.wanted, self.raw)  # once: walking the graph takes its time

    def times(self, cotangents: list) -> list:
        """Cotangents, one an output, times the Jacobian."""
        with torch.enable_grad():
            for index, (v, out) in enumerate(zip(cotangents, self.raw)):
                if v.shape != out.shape:
                    raise RuntimeError(
                        f"Mismatch in shape: grad_output[{index}] has a shape of {v.shape} "
                        f"and output[{index}] has a shape of {out.shape}."
                    )
            create_graph = self.is_linked or _wants(self.own, self.wanted, cotangents)
            return _leave(_gradients(self.raw, self.own, cotangents, create_graph), self.own, self.wanted)

    def transpose(self) -> tuple:
        """(cotangents w that are variables, w times the Jacobian)."""
        if self.forward is None:
            with torch.enable_grad():
                depends = [out for out in self.raw if out.requires_grad]
                w = [torch.zeros_like(out).requires_grad_() for out in depends]
                self.forward = w, _gradients(depends, self.own, w, True)
        return self.forward

    def jacobian_times(self, tangents: list, strict: bool = False) -> list:
        """The Jacobian times tangents, one an input: how w times the Jacobian depends on w."""
        if strict and not all(out.requires_grad for out in self.raw):
            raise RuntimeError(
                "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. "
                "This is not allowed with strict=True."
            )
        for x, t in zip(self.own, tangents):
            if x.shape != t.shape:
                raise RuntimeError(
                    "Trying to set a forward gradient that has a different size than that of the original Tensor, this "
                    f"is not supported. Tensor is of size {list(x.shape)} while the given forward gradient is of size "
                    f"{list(t.shape)}."
                )
        with torch.enable_grad():
            w, back = self.transpose()
            create_graph = self.is_linked or _wants(self.own, self.wanted, tangents)
            got = iter(_gradients(back, w, tangents, create_graph))
            products = [next(got) if out.requires_grad else torch.zeros_like(out) for out in self.raw]
            return _leave(products, self.own + w, self.wanted)


def vjp(func, *primals, has_aux: bool = False):
    """(func(*primals), a function that takes cotangents and gives their product with the Jacobian, one a primal)."""
    called = _Called(func, primals, has_aux, "vjp(f, *primals)")
    spec = tree_flatten(primals)[1]

    def wrapper(cotangents):
        leaves, given = tree_flatten(cotangents)
        if given != called.spec:
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree structure of outputs to the "
                f"function. cotangents: {treespec_pprint(given)}, primal output: {treespec_pprint(called.spec)}"
            )
        return tree_unflatten(called.times(leaves), spec)

    return (called.outputs, wrapper, called.aux) if has_aux else (called.outputs, wrapper)


def _check_pair(primals, tangents, name: str) -> list:
    if not isinstance(primals, tuple):
        raise RuntimeError(f"{name}: Expected primals to be a tuple. E.g. it should be valid to call f(*primals).")
    leaves, spec = tree_flatten(primals)
    given, given_spec = tree_flatten(tangents)
    if spec != given_spec:
        raise RuntimeError(
            f"{name}: Expected primals and tangents to have the same python structure. For example, if primals is a "
            f"tuple of 3 tensors, tangents also must be. Got primals with structure {spec} and "
            f"tangents with structure {given_spec}"
        )
    for what, tree in (("primals", leaves), ("tangents", given)):
        if not tree:
            raise RuntimeError(f"{name}: Expected {what} to contain at least one Tensor.")
        for leaf in tree:
            if not isinstance(leaf, torch.Tensor):
                raise RuntimeError(f"{name}: Expected {what} to only contain Tensors, got {type(leaf)}")
    return given


def jvp(func, primals, tangents, *, strict: bool = False, has_aux: bool = False):
    """(func(*primals), its Jacobian times the tangents), and with `has_aux` what func gives beside its output."""
    name = "jvp(f, primals, tangents)"
    given = _check_pair(primals, tangents, name)
    called = _Called(func, primals, has_aux, name)
    products = tree_unflatten(called.jacobian_times(given, strict), called.spec)
    return (called.outputs, products, called.aux) if has_aux else (called.outputs, products)


def linearize(func, *primals):
    """(func(*primals), a function of tangents: the Jacobian there times them)."""
    name = "linearize(f, *primals)"
    called = _Called(func, primals, False, name)

    def product(*tangents):
        return tree_unflatten(called.jacobian_times(_check_pair(primals, tangents, name)), called.spec)

    return called.outputs, product


# ---- Jacobians -----------------------------------------------------------------------------------------------
def _units(x):
    return torch.eye(x.numel(), dtype=x.dtype, device=x.device).view(x.numel(), *x.shape)


def _alone(at: int, unit, like: list) -> list:
    return [unit if k == at else torch.zeros_like(x) for k, x in enumerate(like)]


def _by_rows(called: _Called, chunk_size=None) -> list:
    """For each output and each input the block of the Jacobian, of both sizes one behind the other."""
    blocks = []
    for k, out in enumerate(called.raw):
        if out.numel() == 0:
            blocks.append([_empty(out, x) for x in called.own])
            continue
        rows = map_rows(lambda unit, k=k: called.times(_alone(k, unit, called.raw)), [_units(out)], chunk_size)
        blocks.append([row.reshape(*out.shape, *x.shape) for row, x in zip(rows, called.own)])
    return blocks


def _by_columns(called: _Called, chunk_size=None) -> list:
    blocks = [[_empty(out, x) for x in called.own] for out in called.raw]
    called.transpose()
    for j, x in enumerate(called.own):
        if x.numel() == 0:
            continue
        column = lambda unit, j=j: called.jacobian_times(_alone(j, unit, called.own))  # noqa: E731
        columns = map_rows(column, [_units(x)], chunk_size)
        for k, out in enumerate(called.raw):
            blocks[k][j] = columns[k].movedim(0, -1).reshape(*out.shape, *x.shape)
    return blocks


def _empty(out, x):
    return torch.zeros(tuple(out.shape) + tuple(x.shape), dtype=out.dtype, device=out.device)


def _jacobian(func, argnums, has_aux: bool, name: str, blocks_of, chunk_size=None):
    def wrapper(*args, **kwargs):
        numbers = _checked_argnums(argnums, len(args))
        chosen = _chosen(args, numbers)

        def inner(*primals):
            return func(*_replaced(args, numbers, primals[0] if isinstance(numbers, int) else primals), **kwargs)

        primals = (chosen,) if isinstance(numbers, int) else chosen
        called = _Called(inner, primals, has_aux, name)
        spec = tree_flatten(chosen)[1]
        rows = [tree_unflatten(row, spec) for row in blocks_of(called, chunk_size)]
        jacobian = tree_unflatten(rows, called.spec)
        return (jacobian, called.aux) if has_aux else jacobian

    return _named(wrapper, func)


def jacrev(func, argnums=0, *, has_aux: bool = False, chunk_size=None, _preallocate_and_copy: bool = False):
    """A function that gives the Jacobian of func by its arguments `argnums`: all rows in one backward, or `chunk_size`
    of them at a time."""
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")
    return _jacobian(func, argnums, has_aux, "vjp(f, *primals)", _by_rows, chunk_size)


def jacfwd(func, argnums=0, has_aux: bool = False, *, randomness: str = "error"):
    """The same column by column: the better choice where there are fewer inputs than outputs."""
    return _jacobian(func, argnums, has_aux, "jvp(f, primals, tangents)", _by_columns)


def hessian(func, argnums=0):
    """A function that gives the Hessian of func by its arguments `argnums`."""
    return jacfwd(jacrev(func, argnums), argnums)
