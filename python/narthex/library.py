"""torch.library: operators whose kernels, shape rules and derivatives are Python functions.

`custom_op` makes one of a function; `define`, `impl`, `register_fake` and `register_autograd` make one of parts. Each
is found under `torch.ops` and called like any operator. In a captured function a call of one with a shape rule is a
node of the graph, whatever its kernel does; a kernel without one runs as the Python that it is.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from functools import partial

from . import _C
from ._schema import Schema, parse
from .autograd.function import Function
from .autograd.grad_mode import no_grad

__all__ = [
    "Library", "custom_op", "define", "get_ctx", "impl", "infer_schema", "opcheck", "register_autocast",
    "register_autograd", "register_fake", "register_kernel", "register_torch_dispatch", "register_vmap",
]  # fmt: skip

_fallbacks: dict[str, Callable] = {}  # by device type, for operators without a kernel there
_operators: dict[str, PythonOperator] = {}  # by "namespace::name.overload"
_packets: dict[tuple, PythonPacket] = {}  # by namespace and name
_waiting: dict[str, Callable] = {}  # shape rules of operators that are not there yet
_in_graphs: set[str] = set()  # what the core knows by name: such an entry stays, whichever operator has the name
_WRITTEN = re.compile(r"Tensor\(\w+!\)")

# Which devices a dispatch key stands for; None: all. The two composites differ in whether autograd sees what they do.
_DEVICES = {"CPU": "cpu", "PrivateUse1": "npu", "NPU": "npu", "CUDA": "cuda", "XPU": "xpu", "MPS": "mps",
            "CompositeExplicitAutograd": None, "CompositeImplicitAutograd": None}  # fmt: skip


class PythonOperator:
    """One overload. `kernels` by device type, None for every other; `composite`: its kernel is seen by autograd."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.namespace, _, name = schema.name.partition("::")
        self._packet, _, self._overload = name.partition(".")
        self._overloadname = self._overload or "default"
        self.__name__, self.__module__ = f"{self._packet}.{self._overloadname}", f"torch._ops.{self.namespace}"
        self.kernels: dict[str | None, Callable] = {}
        self.composite = self.fake = self.backward = self.setup_context = self.vmap = None
        self.node = None  # what graphs hold a call of; None: they do not
        self.functional = None  # of one that writes: the operator that gives what it writes, which graphs hold

    def name(self) -> str:
        """ "namespace::name.overload" """
        return self.schema.name

    @property
    def overloadpacket(self) -> PythonPacket:
        """All overloads of its name."""
        return _packets.setdefault((self.namespace, self._packet), PythonPacket(self.namespace, self._packet))

    _overloadpacket = overloadpacket

    @property
    def _schema(self) -> str:
        return str(self.schema)

    @property
    def _qualname(self) -> str:
        return self.schema.name

    def __call__(self, *args, **kwargs):
        values = self.schema.bind(args, kwargs)
        if self.composite is not None:
            return self.schema.call(self.composite, values)
        if any(_C._batch_levels(tensor) for tensor in _tensors(values)):
            return self.mapped(values)
        if _C.is_grad_enabled() and any(tensor.requires_grad for tensor in _tensors(values)):
            return _Recorded.apply(self, *values)
        return self.run(values)

    def mapped(self, values: list):
        """Under vmap: by the rule that was registered, else one slice after the other."""
        from ._vmap import by_rule, by_slices

        again = lambda *each: self.schema.call(self, list(each))  # noqa: E731
        if self.vmap is None and any(argument.written for argument in self.schema.arguments):
            raise NotImplementedError(f"{self.schema.name}: under vmap, what writes needs a rule: register_vmap")
        if self.vmap is None:
            return by_slices(again, tuple(values))

        def rule(info, in_dims, *each):
            call = lambda *args, **kwargs: self.vmap(info, in_dims[: len(args)], *args, **kwargs)  # noqa: E731
            return self.schema.call(call, list(each))

        return by_rule(rule, tuple(values))

    def run(self, values: list):
        """The kernel for the tensors' device; in a captured function the node that stands for it."""
        if self.functional is not None and _C.is_capturing() and not self.meets_what_it_writes(values):
            return _written_after(self, values)
        if self.node is not None and _C.is_capturing():
            return self.schema.call(self.node, values)
        return self.compute(values)

    def meets_what_it_writes(self, values: list) -> bool:
        """Whether an argument sees what is written through another, in the same memory: then the kernel is followed."""
        for argument, value in zip(self.schema.arguments, values):
            if not argument.written:
                continue
            if sum(_C.shares_memory(value, tensor) for tensor in _tensors(values)) > 1:
                return True
        return False

    def shape(self, values: list):
        """What the shape rule gives for tensors without elements."""
        with no_grad():
            return self.schema.call(self.fake, values)

    def compute(self, values: list):
        """The kernel for the tensors' device."""
        tensors = _tensors(values)
        kind = next((tensor.device.type for tensor in tensors), "cpu")
        kernel = self.kernels.get(kind, self.kernels.get(None))
        if kernel is None and kind in _fallbacks:
            kernel = partial(_fallbacks[kind], self)
        if kernel is None:
            raise NotImplementedError(
                f"Could not run '{self.schema.name}' with arguments from the '{kind.upper()}' backend: it has kernels "
                f"for {', '.join(str(each) for each in self.kernels) or 'no device'}"
            )
        with no_grad():
            return self.schema.call(kernel, values)

    def __repr__(self) -> str:
        return f"<OpOverload(op='{self.namespace}.{self._packet}', overload='{self._overloadname}')>"

    def __str__(self) -> str:
        return f"{self.namespace}.{self._packet}.{self._overloadname}"


class PythonPacket:
    """All overloads of a name; calling it takes the first that fits."""

    def __init__(self, namespace: str, name: str) -> None:
        self._namespace, self.__name__ = namespace, name

    def _all(self) -> list:
        prefix = f"{self._namespace}::{self.__name__}"
        return [op for name, op in _operators.items() if name == prefix or name.startswith(prefix + ".")]

    def overloads(self) -> list:
        """The overloads' names; "default" is the one without a name."""
        return [op._overloadname for op in self._all()]

    def __call__(self, *args, **kwargs):
        operators = self._all()
        for op in operators:
            try:
                op.schema.bind(args, kwargs)
            except TypeError:
                if op is operators[-1]:
                    raise
                continue
            return op(*args, **kwargs)

    def __getattr__(self, name: str):
        for op in self._all():
            if op._overloadname == name:
                return op
        raise AttributeError(f"The underlying op of '{self._namespace}.{self.__name__}' has no overload name '{name}'")

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self._namespace}.{self.__name__}')>"

    def __str__(self) -> str:
        return f"{self._namespace}.{self.__name__}"


def packet(namespace: str, name: str) -> PythonPacket | None:
    """What torch.ops has under these names, or None; one object each."""
    found = _packets.setdefault((namespace, name), PythonPacket(namespace, name))
    return found if found._all() else None


def _tensors(values: list) -> list:
    found = []
    for value in values:
        if isinstance(value, _C.TensorBase):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += [each for each in value if isinstance(each, _C.TensorBase)]
    return found


class _Recorded(Function):
    """A call whose derivative is what register_autograd was given."""

    @staticmethod
    def forward(ctx, op, *values):
        result = op.run(list(values))
        ctx.op = op
        if op.setup_context is not None:
            positional, keywords = op.schema.split(list(values))
            takes = inspect.signature(op.setup_context).parameters
            more = {"keyword_only_inputs": keywords} if "keyword_only_inputs" in takes else {}
            op.setup_context(ctx, tuple(positional), **more, output=result) if "output" in takes else op.setup_context(
                ctx, tuple(positional), result
            )
        return result

    @staticmethod
    def backward(ctx, *grads):
        op = ctx.op
        if op.backward is None:
            raise RuntimeError(
                f"Trying to backward through {op.schema.name} but no autograd formula was registered. Please use "
                "register_autograd to add one."
            )
        found = op.backward(ctx, *grads)
        found = list(found) if isinstance(found, (tuple, list)) else [found]
        return None, *found, *[None] * (len(op.schema.arguments) - len(found))


def _operator(op) -> PythonOperator:
    """The operator of a name, a packet, an overload, or what custom_op made."""
    if isinstance(op, CustomOpDef):
        op = op._opoverload
    if isinstance(op, PythonPacket):
        op = op.default
    if isinstance(op, PythonOperator):
        return op
    name = op if isinstance(op, str) else op.name()
    name = name.removesuffix(".default")
    if name not in _operators:
        raise RuntimeError(f"operator {name} does not exist: torch.library.define makes one; PyTorch's are fixed")
    return _operators[name]


def _define(schema: Schema) -> PythonOperator:
    if schema.name in _operators or (schema.name in _C.op_names() and schema.name not in _in_graphs):
        raise RuntimeError(f"{schema.name}: an operator of this name and overload is there already")
    op = _operators[schema.name] = PythonOperator(schema)
    _put_fake(op, _waiting.pop(schema.name, None))
    return op


def _put_fake(op: PythonOperator, fn: Callable | None) -> None:
    """Gives it its shape rule; graphs hold calls of what has one and gives tensors."""
    op.fake = fn
    results = [each.split()[0] for each in op.schema.returns.strip("()").split(",") if each.strip()]
    written = [argument for argument in op.schema.arguments if argument.written]
    if set(results) - {"Tensor"} or (fn is None and (results or not written)):
        return
    if written:
        if all(_WRITTEN.fullmatch(argument.type) for argument in written):
            op.functional = _functional_form(op, len(results))
        return
    arguments = tuple((argument.name, argument.type, argument.kwarg_only) for argument in op.schema.arguments)
    if _C.define_operator(op.schema.name, str(op.schema), arguments, len(results), op):
        _in_graphs.add(op.schema.name)
        op.node = _C.op_function(op.schema.name, f"torch.ops.{op}")


def _functional_form(op: PythonOperator, n: int) -> PythonOperator | None:
    """The operator that leaves its arguments alone: behind the n results come the written arguments' new values."""
    places = [k for k, argument in enumerate(op.schema.arguments) if argument.written]
    arguments = [argument._replace(type=_WRITTEN.sub("Tensor", argument.type)) for argument in op.schema.arguments]
    name = f"functional::{op.schema.name.replace('::', '__')}"
    returns = ", ".join(["Tensor"] * (n + len(places)))
    form = PythonOperator(Schema(name, tuple(arguments), returns if n + len(places) == 1 else f"({returns})"))

    def apart(call: Callable, *values):
        own = list(values)
        for k in places:
            own[k] = values[k].clone()
        results = call(own) if call is not None else None
        results = [] if n == 0 else [results] if n == 1 else list(results)
        results += [own[k] for k in places]
        return results[0] if len(results) == 1 else tuple(results)

    by_name = [argument.name for argument in arguments if argument.kwarg_only]
    form.kernels[None] = lambda *values, **named: apart(op.compute, *values, *(named[each] for each in by_name))
    shape = None if op.fake is None else op.shape
    _operators[name] = form
    _put_fake(form, lambda *values, **named: apart(shape, *values, *(named[each] for each in by_name)))
    return form if form.node is not None else None


def _written_after(op: PythonOperator, values: list):
    """A call in a captured function: what it writes is written behind it."""
    results = op.functional.run(values)
    results = list(results) if isinstance(results, tuple) else [results]
    written = [value for argument, value in zip(op.schema.arguments, values) if argument.written]
    n = len(results) - len(written)
    for argument, value in zip(written, results[n:]):
        argument.copy_(value)
    return None if n == 0 else results[0] if n == 1 else tuple(results[:n])


def _put_kernel(op: PythonOperator, fn: Callable, types) -> None:
    """`types`: a dispatch key or a device type, or several of them."""
    for key in [types] if isinstance(types, str) or types is None else types:
        if key == "Meta":
            _put_fake(op, fn)
        elif key == "CompositeImplicitAutograd":
            op.composite = fn
        elif key is None or key == "default" or key in _DEVICES:
            op.kernels[_DEVICES.get(key)] = fn
        elif key in _DEVICES.values():
            op.kernels[key] = fn
        else:
            raise NotImplementedError(f"torch.library: kernels for the dispatch key {key} are not there yet; register_"
                                      "autograd gives a derivative")  # fmt: skip


class Library:
    """A namespace's definitions (DEF, FRAGMENT) or kernels (IMPL); they are gone when it is destroyed."""

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("DEF", "IMPL", "FRAGMENT"):
            raise ValueError("Unsupported library kind: ", kind)
        if ns in ("aten", "prims") and kind != "FRAGMENT":
            raise NotImplementedError(f"Library({ns!r}, {kind!r}): operators of PyTorch are entries in ops/ and fixed")
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        self._defined: list = []
        self._fallbacks: list = []

    def _name(self, op_name) -> str:
        name = op_name if isinstance(op_name, str) else _operator(op_name).schema.name
        return name if "::" in name else f"{self.ns}::{name}"

    def define(self, schema: str, alias_analysis: str = "", *, tags=()) -> str:
        """Adds an operator by its signature and returns its name."""
        if alias_analysis not in ("", "FROM_SCHEMA", "CONSERVATIVE"):
            raise RuntimeError(f"Invalid alias_analysis type {alias_analysis}")
        parsed = parse(schema if "::" in schema.partition("(")[0] else f"{self.ns}::{schema}")
        _define(parsed)
        self._defined.append(parsed.name)
        return parsed.name.partition("::")[2]

    def impl(self, op_name, fn: Callable, dispatch_key: str = "", *, with_keyset: bool = False, allow_override=True):
        """Gives an operator its kernel for a dispatch key. Raises RuntimeError where it has one and allow_override is
        False."""
        if not callable(fn):
            raise TypeError(f"Input function is required to be a callable but found type {type(fn)}")
        if with_keyset:
            raise NotImplementedError("Library.impl: with_keyset is not there yet; leave it out")
        key = dispatch_key or self.dispatch_key or "CompositeImplicitAutograd"
        op = _operator(self._name(op_name))
        has = op.composite if key == "CompositeImplicitAutograd" else op.kernels.get(_DEVICES.get(key, key))
        if has is not None and not allow_override:
            raise RuntimeError(
                "This is not allowed since there's already a kernel registered from python overriding "
                f"{op.schema.name.partition('::')[2]}'s behavior for {key} dispatch key and {self.ns} namespace."
            )
        _put_kernel(op, fn, key)

    def fallback(self, fn, dispatch_key: str = "", *, with_keyset: bool = False):
        """fn(op, *args, **kwargs) is called for every operator in Python without a kernel for the device of
        `dispatch_key`; with_keyset: fn(key, op, *args, **kwargs). Operators of PyTorch have kernels for the CPU, where
        what an accelerator lacks is computed, too."""
        if self.ns != "_":
            where = 'Fallback can only be registered using library fragment on the global namespace "_" but it is '
            raise RuntimeError(where + self.ns)
        key = dispatch_key or self.dispatch_key
        if not key:
            raise AssertionError("dispatch_key must not be empty for fallback")
        if key not in _DEVICES:
            raise NotImplementedError(f"Library.fallback: the dispatch key {key} is not there yet; name a device's")
        _fallbacks[_DEVICES[key]] = (lambda op, *args, **kw: fn(key, op, *args, **kw)) if with_keyset else fn
        self._fallbacks.append(_DEVICES[key])

    def _register_fake(self, op_name, fn, _stacklevel=1) -> None:
        register_fake(self._name(op_name), fn)

    def _destroy(self) -> None:
        for name in self._defined:
            _operators.pop(name, None)
        self._defined.clear()
        for kind in self._fallbacks:
            _fallbacks.pop(kind, None)
        self._fallbacks.clear()


@contextmanager
def _scoped_library(*args, **kwargs):
    """A Library whose operators are gone behind the block."""
    lib = Library(*args, **kwargs)
    try:
        yield lib
    finally:
        lib._destroy()


def define(qualname: str, schema, *, lib: Library | None = None, tags=()):
    """Adds the operator `qualname` ("namespace::name") with a signature "(Tensor x) -> Tensor". define(library,
    "name(Tensor x) -> Tensor") decorates the kernel of the operator that it adds to a library."""
    if isinstance(qualname, Library):
        return _maybe_decorator(lambda fn: qualname.impl(qualname.define(schema), fn), None)
    if not isinstance(qualname, str):
        raise ValueError(f"define(qualname, schema): expected qualname to be instance of str, got {type(qualname)}")
    if "::" not in qualname:
        raise ValueError(f'Expected `{qualname}` to be of the form "<namespace>::<name>"')
    op = _define(parse(qualname + schema))
    if lib is not None:
        lib._defined.append(op.schema.name)
    return None


def _maybe_decorator(put: Callable, func):
    if func is not None:
        put(func)
        return None

    def decorate(fn):
        put(fn)
        return fn

    return decorate


def impl(qualname, types, func=None, *, lib: Library | None = None):
    """Gives an operator its kernel for device types ("cpu", "default": all) or dispatch keys; a decorator without
    `func`. impl(library, name, dispatch_key="") decorates a kernel of a library's operator."""
    if isinstance(qualname, Library):
        return _maybe_decorator(lambda fn: qualname.impl(types, fn, func or ""), None)
    return _maybe_decorator(lambda fn: _put_kernel(_operator(qualname), fn, types), func)


def register_kernel(op, device_types, func=None, /, *, lib: Library | None = None):
    """Gives an operator its kernel for device types, None for all; a decorator without `func`."""
    return _maybe_decorator(lambda fn: _put_kernel(_operator(op), fn, device_types), func)


def register_fake(op, func=None, /, *, lib: Library | None = None, _stacklevel: int = 1, allow_override: bool = True):
    """Gives an operator its shape rule; a decorator without `func`. Raises RuntimeError where it has one and
    allow_override is False."""

    def put(fn) -> None:
        has = _waiting.get(op) if isinstance(op, str) and op not in _operators else _operator(op).fake
        if has is not None and not allow_override:
            raise RuntimeError(f"register_fake(...): the operator {op} already has a fake impl registered")
        if isinstance(op, str) and op not in _operators:
            _waiting[op] = fn  # a package whose C++ library is not there gives rules for its operators all the same
        else:
            _put_fake(_operator(op), fn)

    return _maybe_decorator(put, func)


def impl_abstract(qualname, func=None, *, lib: Library | None = None, _stacklevel: int = 1):
    """The older name of register_fake."""
    return register_fake(qualname, func, lib=lib, _stacklevel=_stacklevel)


def register_autograd(op, backward: Callable, /, *, setup_context: Callable | None = None, lib=None) -> None:
    """Gives an operator its derivative: setup_context(ctx, inputs, output) keeps what backward(ctx, *grads) needs."""
    operator = _operator(op)
    operator.backward, operator.setup_context = backward, setup_context


def register_vmap(op, func=None, /, *, lib=None):
    """What an operator does under vmap: func(info, in_dims, *args, **kwargs) gives (results, their dimensions); a
    decorator without `func`. An operator without one is called slice by slice."""

    def put(fn):
        _operator(op).vmap = fn

    return _maybe_decorator(put, func)


def register_autocast(op, device_type: str, cast_inputs, /, *, lib=None):
    """Raises NotImplementedError."""
    raise NotImplementedError("torch.library.register_autocast is not there yet: cast in the kernel")


def register_torch_dispatch(op, torch_dispatch_class, func=None, /, *, lib=None):
    """Raises NotImplementedError."""
    raise NotImplementedError("torch.library.register_torch_dispatch: dispatch modes are not there yet")


def get_ctx():
    """Raises NotImplementedError."""
    raise NotImplementedError("torch.library.get_ctx: sizes that elements decide have no shape rule here")


def opcheck(op, args, kwargs=None, *, test_utils=None, raise_exception: bool = True, **tolerances):
    """Raises NotImplementedError."""
    raise NotImplementedError("torch.library.opcheck is not there yet: compare the operator with a reference")


# ---- operators of functions ----------------------------------------------------------------------------------------
_SINGLE = {_C.dtype: "ScalarType", _C.device: "Device", bool: "bool", int: "SymInt", float: "float", str: "str"}


def _type_text(hint, what: str) -> str:
    from . import Tensor, types

    if hint is Tensor or (isinstance(hint, type) and issubclass(hint, _C.TensorBase)):
        return "Tensor"
    if hint in _SINGLE:
        return _SINGLE[hint]
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if set(inside) == {int, float, bool} or hint is types.Number:
        return "Scalar"
    if type(None) in inside and len(inside) == 2:
        return _type_text(next(each for each in inside if each is not type(None)), what) + "?"
    if origin in (list, tuple, Sequence) and inside:
        return _type_text(inside[0], what) + "[]"
    raise ValueError(
        f"infer_schema(func): {what} has unsupported type {hint}. Please write a schema or annotate it with Tensor, "
        "int, float, bool, str, a dtype, a device, a list or an optional of them"
    )


def infer_schema(prototype_function: Callable, /, *, mutates_args, op_name: str | None = None, tags=()) -> str:
    """The signature of an annotated function, with the tensors of `mutates_args` ("unknown": all) as written ones.
    Tags, which change it for operators with out=, are not there."""
    if tags:
        raise NotImplementedError("infer_schema: tags are not there yet; leave them out")
    hints = typing.get_type_hints(prototype_function)
    parts, starred, count = [], False, 0
    for name, parameter in inspect.signature(prototype_function).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise ValueError("infer_schema(func): the function has *args or **kwargs, which signatures do not have")
        if name not in hints:
            raise ValueError(f"infer_schema(func): Parameter {name} must have a type annotation.")
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        text = _type_text(hints[name], f"Parameter {name}")
        if text.startswith("Tensor") and (mutates_args == "unknown" or name in mutates_args):
            text = text.replace("Tensor", f"Tensor(a{count}!)", 1)
        count += 1
        default = "" if parameter.default is parameter.empty else f"={_default_text(parameter.default)}"
        parts.append(f"{text} {name}{default}")
    known = inspect.signature(prototype_function).parameters
    unknown = set() if mutates_args == "unknown" else set(mutates_args) - set(known)
    if unknown:
        raise ValueError(f"{unknown} in mutates_args were not found in the function's arguments")
    returned = hints.get("return", inspect.Signature.empty)
    if returned is inspect.Signature.empty:
        raise ValueError("infer_schema(func): No return type annotation was provided. Please add one.")
    return f"{op_name or ''}({', '.join(parts)}) -> {_result_text(returned)}"


def _default_text(value) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value).removeprefix("torch.")


def _result_text(hint) -> str:
    if hint is None or hint is type(None):
        return "()"
    if typing.get_origin(hint) is tuple:
        return f"({', '.join(_type_text(each, 'Return') for each in typing.get_args(hint))})"
    return _type_text(hint, "Return")


class CustomOpDef:
    """An operator made of a function; calling it calls the operator."""

    def __init__(self, op: PythonOperator, fn: Callable) -> None:
        self._opoverload, self._init_fn = op, fn
        self._qualname, self._namespace, self._name = op.schema.name, op.namespace, op._packet
        self.__name__, self.__doc__ = op._packet, fn.__doc__

    def __call__(self, *args, **kwargs):
        return self._opoverload(*args, **kwargs)

    def register_kernel(self, device_types, fn=None, /):
        """A kernel for device types; a decorator without `fn`."""
        return register_kernel(self, device_types, fn)

    def register_fake(self, fn, /):
        """The shape rule; a decorator."""
        _put_fake(self._opoverload, fn)
        return fn

    def register_autograd(self, backward: Callable, /, *, setup_context: Callable | None = None) -> None:
        """The derivative."""
        register_autograd(self, backward, setup_context=setup_context)

    def register_vmap(self, func=None):
        """What it does under vmap; a decorator without `func`."""
        return register_vmap(self, func)

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"


def custom_op(name: str, fn: Callable | None = None, /, *, mutates_args, device_types=None, schema=None, tags=None):
    """Makes the operator `name` ("namespace::name") of a function whose annotations give its signature, unless
    `schema` does; `device_types`: those it is the kernel of, None: all. A decorator without `fn`."""

    def make(function: Callable) -> CustomOpDef:
        text = infer_schema(function, mutates_args=mutates_args) if schema is None else schema
        if "::" not in name:
            raise ValueError(f'Expected `{name}` to be of the form "<namespace>::<name>"')
        parsed = parse(name + text)
        _operators.pop(parsed.name, None)  # a module that is loaded again makes its operators again
        op = _define(parsed)
        _put_kernel(op, function, device_types)
        return CustomOpDef(op, function)

    return make if fn is None else make(fn)
