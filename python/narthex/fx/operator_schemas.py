"""Arguments of calls by the signature of what is called: of operators by their schemas, of Python functions and of
layers by their own."""

import inspect
import numbers
import typing
from typing import Any, NamedTuple

from .._ops import OpOverload, OpOverloadPacket
from ._of_schema import _default


class ArgsKwargsPair(NamedTuple):
    """What is given by place and by name."""

    args: tuple
    kwargs: dict


# ---- signatures ----
def _type_of(text: str):
    """The Python type of a schema's."""
    import narthex

    plain = {
        "Tensor": narthex.Tensor, "int": int, "SymInt": int, "float": float, "bool": bool, "str": str,
        "complex": complex, "Scalar": numbers.Number, "Device": narthex.device, "ScalarType": int, "Layout": int,
        "MemoryFormat": int, "Generator": narthex.Generator,
    }  # fmt: skip
    text = text.partition("(")[0] + text.partition(")")[2]  # without what is written
    if text.endswith("?"):
        return _type_of(text[:-1]) | None
    if text.endswith("]"):
        return list[_type_of(text[: text.rindex("[")])]
    return plain.get(text, Any)


def _signature(schema) -> inspect.Signature:
    """Of an operator; `self` is `input`."""
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = [
        inspect.Parameter(
            {"self": "input", "from": "from_"}.get(argument.name, argument.name),
            kinds[argument.kwarg_only],
            default=inspect.Parameter.empty if argument.default_value is None else _default(argument.default_value),
            annotation=_type_of(str(argument.type)),
        )
        for argument in schema.arguments
    ]
    return inspect.Signature(parameters)


def _overloads_of(target) -> list:
    """The operators that a function of torch may come to."""
    import narthex

    if isinstance(target, OpOverload):
        return [target]
    packet = target if isinstance(target, OpOverloadPacket) else None
    if packet is None and isinstance(target, type(narthex.add)):
        packet = getattr(narthex.ops.aten, target.__name__, None)
    if packet is None:
        return []
    names = sorted(packet.overloads(), key=lambda name: (name.endswith("out"), name != "Tensor"))
    return [getattr(packet, name) for name in names]


def get_signature_for_torch_op(op, return_schemas: bool = False):
    """The signatures of the operators that a function of torch may come to, or None; with return_schemas also these."""
    schemas = [overload._schema for overload in _overloads_of(op)]
    signatures = [_signature(schema) for schema in schemas] or None
    return (signatures, schemas or None) if return_schemas else signatures


def check_for_mutable_operation(target, args: tuple, kwargs: dict) -> None:
    """Raises where a call would write one of its arguments."""
    for overload in _overloads_of(target):
        try:
            _signature(overload._schema).bind(*args, **kwargs)
        except TypeError:
            continue
        if overload._schema.is_mutable:
            raise RuntimeError(
                f"Tried to trace mutable operation {overload._schema}. FX only supports functional code, so operations "
                "that mutate operands in-place (e.g. via `out` arguments) are not supported"
            )


# ---- types ----
def create_type_hint(x):
    """list[T] or tuple[T, ...] of a list or tuple of types, of which one stands for all of them."""
    if not isinstance(x, (list, tuple)):
        return x
    kind = list if isinstance(x, list) else tuple
    inner = [create_type_hint(item) for item in x]
    for base in inner:
        if all(isinstance(item, type) and isinstance(base, type) and issubclass(item, base) for item in inner):
            return list[base] if kind is list else tuple[base, ...]
    return list[Any] if kind is list else tuple[Any, ...]


def type_matches(signature_type, argument_type) -> bool:
    """Whether an argument of that type may be given for a parameter of this one."""
    import narthex

    origin = typing.get_origin(signature_type)
    inner = typing.get_args(signature_type)
    if signature_type is argument_type or signature_type is Any:
        return True
    if type(None) in inner:
        return any(item is argument_type or type_matches(item, argument_type) for item in inner)
    if origin in (list, tuple):
        if argument_type is int and inner and inner[0] is int:  # one for all
            return True
        given = typing.get_args(argument_type)
        parts = [item for item in given if item is not Ellipsis]
        sequence = typing.get_origin(argument_type) in (list, tuple) and bool(parts)
        return sequence and all(type_matches(inner[0], item) for item in parts)
    if signature_type is int and argument_type is narthex.dtype:
        return True
    if signature_type is numbers.Number and argument_type in (int, float):
        return True
    return (
        isinstance(argument_type, type)
        and isinstance(signature_type, type)
        and issubclass(argument_type, signature_type)
    )


def _fits(signature: inspect.Signature, arg_types: tuple, kwarg_types: dict) -> bool:
    try:
        bound = signature.bind(*arg_types, **kwarg_types)
    except TypeError:
        return False
    return all(type_matches(signature.parameters[name].annotation, kind) for name, kind in bound.arguments.items())


# ---- calls ----
def _pair(signature: inspect.Signature, args: tuple, kwargs: dict, only_kwargs: bool) -> ArgsKwargsPair | None:
    """The arguments with the defaults of those that are left out; None where the signature takes any number of them."""
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    if any(parameter.kind not in kinds for parameter in signature.parameters.values()):
        return None
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        return None
    bound.apply_defaults()
    named = dict(bound.arguments)
    if only_kwargs:
        return ArgsKwargsPair((), named)
    placed = [named.pop(name) for name in list(signature.parameters)[: len(args)]]
    return ArgsKwargsPair(tuple(placed), named)


def normalize_function(
    target,
    args: tuple,
    kwargs: dict | None = None,
    arg_types: tuple | None = None,
    kwarg_types: dict | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """The arguments of a call of a function of torch, of nn.functional or of Python; None where its signature is not
    known. Types choose among operators of one name.

    Raises RuntimeError where several operators take what is given."""
    kwargs = kwargs or {}
    overloads = _overloads_of(target)
    if not overloads:
        try:
            signature = inspect.signature(target)
        except (TypeError, ValueError):
            return None
        of_c = inspect.isbuiltin(target)
        return None if of_c else _pair(signature, args, kwargs, normalize_to_only_use_kwargs)
    taking = []
    for overload in overloads:
        signature = _signature(overload._schema)
        try:
            signature.bind(*args, **kwargs)
        except TypeError:
            continue
        taking.append(signature)
    if len(taking) > 1 and (arg_types is not None or kwarg_types is not None):
        fitting = [each for each in taking if _fits(each, tuple(arg_types or ()), kwarg_types or {})]
        taking = fitting[:1]
    if len(taking) > 1:
        known = "\n".join(str(overload._schema) for overload in overloads)
        raise RuntimeError(
            f"Tried to normalize arguments to {getattr(target, '__module__', 'torch')}.{target.__name__} but the "
            "schema match was ambiguous! Please provide argument types to the normalize_arguments() call. "
            f"Available schemas:\n{known}"
        )
    return _pair(taking[0], args, kwargs, normalize_to_only_use_kwargs) if taking else None


def normalize_module(
    root, target: str, args: tuple, kwargs: dict | None = None, normalize_to_only_use_kwargs: bool = False
) -> ArgsKwargsPair | None:
    """The arguments of a call of one of torch.nn's layers, `target` in `root`; None of another module."""
    import narthex

    try:
        module = root.get_submodule(target)
    except AttributeError as error:
        raise RuntimeError(
            f"Tried to normalize arguments to module target {target} but root did not have that target!"
        ) from error
    if getattr(narthex.nn, type(module).__name__, None) is not type(module):
        return None
    signature = inspect.signature(type(module).forward.__get__(module))
    return _pair(signature, args, kwargs or {}, normalize_to_only_use_kwargs)
