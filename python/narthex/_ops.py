"""torch.ops: every operator by namespace, name and overload: `torch.ops.aten.add.Tensor(x, y)`."""

import sys

from . import _C
from ._ops_in_python import IN_PYTHON


def _find(*names):
    """ops.aten.add.Tensor of its names: there is one object for each, and copies and pickles are that one."""
    found = ops
    for name in names:
        found = getattr(found, name)
    return found


def _raise_mismatch(error: TypeError, operator: str):
    """What PyTorch's operators raise where arguments fit no schema; what was raised inside of a call is left."""
    raise (RuntimeError(str(error)) if str(error).startswith(operator) else error) from error.__cause__


class OpOverload:
    """One operator. Calling it calls exactly this overload."""

    def __init__(self, namespace: str, name: str, overload: str) -> None:
        self.namespace, self._packet, self._overloadname = namespace, name, overload
        self._name = f"{namespace}::{name}" + ("" if overload == "default" else "." + overload)
        self.__name__, self.__module__ = f"{name}.{overload}", f"torch._ops.{namespace}"
        self._parsed = None
        self._op = _C.op_function(self._name, f"torch.ops.{namespace}.{name}.{overload}")

    def __call__(self, *args, **kwargs):
        try:
            return self._op(*args, **kwargs)
        except TypeError as error:
            _raise_mismatch(error, self._name)

    def name(self) -> str:
        """ "aten::add.Tensor" """
        return self._name

    def __reduce__(self):
        return _find, (self.namespace, self._packet, self._overloadname)

    @property
    def overloadpacket(self) -> "OpOverloadPacket":
        """torch.ops.aten.add of torch.ops.aten.add.Tensor."""
        return _find(self.namespace, self._packet)

    _overloadpacket = overloadpacket

    @property
    def _schema(self):
        if self._parsed is None:
            from ._function_schema import FunctionSchema

            self._parsed = FunctionSchema(_C.op_info(self._name)["schema"])
        return self._parsed

    def __repr__(self) -> str:
        return f"<OpOverload(op='{self.namespace}.{self._packet}', overload='{self._overloadname}')>"

    def __str__(self) -> str:
        return f"{self.namespace}.{self._packet}.{self._overloadname}"


class OpOverloadPacket:
    """All overloads of one name; calling it chooses by the arguments, as `torch.add` does."""

    def __init__(self, namespace: str, name: str) -> None:
        self._namespace, self.__name__, self.__module__ = namespace, name, f"torch._ops.{namespace}"
        self._known = self.overloads()  # what calls try; a call being captured asks for no names

    def __reduce__(self):
        return _find, (self._namespace, self.__name__)

    def overloads(self) -> list:
        """The overloads' names; "default" is the one without a name."""
        prefix = f"{self._namespace}::{self.__name__}"
        names = [name for name in _C.op_names() if name == prefix or name.startswith(prefix + ".")]
        return [name[len(prefix) + 1 :] or "default" for name in names]

    def __call__(self, *args, **kwargs):
        for overload in self._known:
            try:
                return getattr(self, overload)._op(*args, **kwargs)
            except TypeError as error:
                failure = error
        found = IN_PYTHON.get(self.__name__) if self._namespace == "aten" else None
        for overload in found.overloads() if found is not None else ():
            try:
                return vars(found)[overload](*args, **kwargs)
            except TypeError:
                pass
        known, self._known = self._known, self.overloads()  # a plugin may have added some
        if known != self._known:
            return self(*args, **kwargs)
        _raise_mismatch(failure, f"{self._namespace}::{self.__name__}")

    def __getattr__(self, name: str):
        if name.startswith("__") or name not in self.overloads():
            found = IN_PYTHON.get(self.__name__) if self._namespace == "aten" and not name.startswith("_") else None
            if found is not None and name in vars(found):
                setattr(self, name, vars(found)[name])
                return vars(found)[name]
            raise AttributeError(
                f"The underlying op of '{self._namespace}.{self.__name__}' has no overload name '{name}': "
                f"there are {', '.join(self.overloads())}"
            )
        overload = OpOverload(self._namespace, self.__name__, name)
        setattr(self, name, overload)
        return overload

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self._namespace}.{self.__name__}')>"

    def __str__(self) -> str:
        return f"{self._namespace}.{self.__name__}"


class _Namespace:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str):
        if "narthex.library" in sys.modules and (found := sys.modules["narthex.library"].packet(self._name, name)):
            return found
        packet = OpOverloadPacket(self._name, name)
        if name.startswith("__") or not packet._known:
            packet = IN_PYTHON.get(name) if self._name == "aten" else None
        if packet is None:
            raise AttributeError(
                f"'_OpNamespace' '{self._name}' object has no attribute '{name}': Narthex has no such operator"
            )
        setattr(self, name, packet)
        return packet

    def __reduce__(self):
        return _find, (self._name,)

    def __repr__(self) -> str:
        return f"<namespace torch.ops.{self._name}>"


class _Ops:
    @staticmethod
    def load_library(path) -> None:
        """Raises OSError: such libraries are built for PyTorch's C++."""
        raise OSError(f"{path}: a library of operators built for PyTorch, which Narthex cannot load")

    @staticmethod
    def import_module(module: str) -> None:
        """Imports a Python module that defines operators."""
        from importlib import import_module

        import_module(module)

    def __getattr__(self, name: str):
        if name.startswith("__"):
            raise AttributeError(name)
        namespace = _Namespace(name)
        setattr(self, name, namespace)
        return namespace


ops = _Ops()
