"""Reads a pickle as data: a machine of its own for the opcodes that checkpoints use.

Nothing that the file names is imported or called. A global stands for one of the functions in `known`, each written for
this purpose or allowed by the caller; only they are called, and only dictionaries that they made and objects of allowed
classes take attributes.
"""

import pickle
import pickletools
from collections import OrderedDict

_MARK = object()
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_FRESH = {"EMPTY_TUPLE": tuple, "EMPTY_LIST": list, "EMPTY_DICT": dict, "EMPTY_SET": set}
_VALUES = {
    "BININT", "BININT1", "BININT2", "INT", "LONG", "LONG1", "LONG4", "BINFLOAT", "FLOAT", "BINUNICODE", "UNICODE",
    "SHORT_BINUNICODE", "BINUNICODE8", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8", "SHORT_BINSTRING",
    "BINSTRING", "STRING",
}  # fmt: skip
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_IGNORED = {"PROTO", "FRAME"}


class Global:
    """A function or class that the file names and that the reader knows: `make(*args)` stands for calling it.
    `allowed`: objects of this class may be made without their __init__ and be given attributes."""

    def __init__(self, name: str, make=None, value=None, allowed: bool = False) -> None:
        self.name, self.make, self.value, self.allowed = name, make, value, allowed


class _Machine:
    def __init__(self, known, persistent) -> None:
        self.known, self.persistent = known, persistent
        self.stack, self.memo, self.allowed = [], {}, set()

    def since_mark(self) -> list:
        """Takes what lies above the last mark, and the mark."""
        at = len(self.stack) - 1
        while at >= 0 and self.stack[at] is not _MARK:
            at -= 1
        if at < 0:
            raise pickle.UnpicklingError("a mark is missing")
        taken = self.stack[at + 1 :]
        del self.stack[at:]
        return taken

    def take(self, n: int = 1) -> list:
        """Takes the n uppermost values."""
        if len(self.stack) < n or any(value is _MARK for value in self.stack[len(self.stack) - n :]):
            raise pickle.UnpicklingError("a value is missing")
        taken = self.stack[len(self.stack) - n :]
        del self.stack[len(self.stack) - n :]
        return taken

    def top(self, *kinds):
        """The uppermost value, which must be of one of the types `kinds`."""
        if not self.stack or not isinstance(self.stack[-1], kinds):
            found = type(self.stack[-1]).__name__ if self.stack else "nothing"
            raise pickle.UnpicklingError(f"an entry is added to {found}")
        return self.stack[-1]

    def find(self, name: str) -> None:
        found = self.known(name)
        if found.allowed:
            self.allowed.add(found.make)
        self.stack.append(found.value if found.make is None else found)

    def call(self, makes_new: bool = False) -> None:
        """Calls a function with arguments; `makes_new`: an object of a class, whose __init__ is not called."""
        function, args = self.take(2)
        if not isinstance(function, Global) or not isinstance(args, tuple):
            raise pickle.UnpicklingError(f"{function!r} cannot be called")
        bare = makes_new and function.allowed and isinstance(function.make, type)
        try:
            self.stack.append(function.make.__new__(function.make, *args) if bare else function.make(*args))
        except (TypeError, ValueError, OverflowError) as error:
            raise pickle.UnpicklingError(f"{function.name}: {error}") from None

    def build(self) -> None:
        """Attributes of the value below: an object of an allowed class, or an OrderedDict (a state's _metadata)."""
        (state,) = self.take()
        below = self.top(object)
        if type(below) in self.allowed and hasattr(below, "__setstate__"):
            below.__setstate__(state)
        elif (type(below) in self.allowed or isinstance(below, OrderedDict)) and isinstance(state, dict):
            below.__dict__.update(state)
        else:
            raise pickle.UnpicklingError(f"attributes cannot be set on {type(below).__name__}")

    def set_items(self, items: list) -> None:
        if len(items) % 2:
            raise pickle.UnpicklingError("a key has no value")
        self.top(dict).update(zip(items[::2], items[1::2]))

    def step(self, name: str, argument) -> None:
        """One opcode."""
        stack = self.stack
        if name in _VALUES:
            stack.append(argument)
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in _FRESH:
            stack.append(_FRESH[name]())
        elif name in _TUPLES:
            stack.append(tuple(self.take(_TUPLES[name])))
        elif name in ("BINPUT", "LONG_BINPUT", "PUT"):
            self.memo[argument] = self.top(object)
        elif name == "MEMOIZE":
            self.memo[len(self.memo)] = self.top(object)
        elif name in ("BINGET", "LONG_BINGET", "GET"):
            stack.append(self.memo[argument])
        elif name not in _IGNORED:
            step = _STEPS.get(name)
            if step is None:
                raise pickle.UnpicklingError(f"opcode {name} is not one that checkpoints need")
            step(self, argument)


def _stack_global(machine: _Machine, _) -> None:
    module, name = machine.take(2)
    machine.find(f"{module} {name}")


_STEPS = {
    "MARK": lambda m, _: m.stack.append(_MARK),
    "POP": lambda m, _: m.take(),
    "POP_MARK": lambda m, _: m.since_mark(),
    "TUPLE": lambda m, _: m.stack.append(tuple(m.since_mark())),
    "LIST": lambda m, _: m.stack.append(m.since_mark()),
    "DICT": lambda m, _: (lambda items: (m.stack.append({}), m.set_items(items)))(m.since_mark()),
    "FROZENSET": lambda m, _: m.stack.append(frozenset(m.since_mark())),
    "APPEND": lambda m, _: (lambda item: m.top(list).append(item))(m.take()[0]),
    "APPENDS": lambda m, _: (lambda items: m.top(list).extend(items))(m.since_mark()),
    "SETITEM": lambda m, _: m.set_items(m.take(2)),
    "SETITEMS": lambda m, _: m.set_items(m.since_mark()),
    "ADDITEMS": lambda m, _: (lambda items: m.top(set).update(items))(m.since_mark()),
    "GLOBAL": lambda m, name: m.find(name),
    "STACK_GLOBAL": _stack_global,
    "REDUCE": lambda m, _: m.call(),
    "NEWOBJ": lambda m, _: m.call(makes_new=True),
    "BUILD": lambda m, _: m.build(),
    "BINPERSID": lambda m, _: m.stack.append(m.persistent(m.take()[0])),
}


def read(data, known, persistent):
    """The value in `data`, bytes or a binary file, of which one pickle is read. `known(name)` gives the Global for
    "module name" or raises; `persistent(id)` a storage."""
    machine = _Machine(known, persistent)
    try:
        for opcode, argument, _ in pickletools.genops(data):
            if opcode.name == "STOP":
                return machine.take()[0]
            machine.step(opcode.name, argument)
    except (ValueError, KeyError, TypeError) as error:
        raise pickle.UnpicklingError(f"damaged pickle: {type(error).__name__}: {error}") from None
    raise pickle.UnpicklingError("damaged pickle: it has no end")
