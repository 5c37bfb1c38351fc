"""Modules of settings (torch._dynamo.config and others): every name that PyTorch has, with its default, in settings.txt
beside the module, a line each: `name default`, or `name -> module.name` for another name of the same setting.

A setting that takes effect here is named where its module is made; setting another one is kept, changes nothing, and is
told at the end of `narthex run`.
"""

import os
import sys
from contextlib import ContextDecorator
from importlib import import_module
from types import ModuleType

without_effect: dict = {}  # full names of settings that a program changed and that change nothing here


def _read(path: str) -> tuple:
    """({name: default}, {name: (module, name)})."""
    import ast

    defaults, aliases = {}, {}
    with open(path) as file:
        lines = file.read().splitlines()
    for line in lines:
        name, _, text = line.partition(" ")
        if text.startswith("-> "):
            module, _, other = text[3:].rpartition(".config.")
            aliases[name] = (f"{module}.config", other)
        else:
            defaults[name] = set() if text == "set()" else ast.literal_eval(text)
    return defaults, aliases


class ConfigModule(ModuleType):
    """A module whose attributes are settings. AttributeError for names that PyTorch does not have."""

    def _start(self, effective: dict, on_set=None) -> None:
        title = "torch" + self.__name__.removeprefix("narthex")
        held = {"_title": title, "_effective": effective, "_aliases": {}, "_default": dict(effective)}
        self.__dict__.update(held, _is_read=False, _on_set=on_set, _values=dict(effective))

    def _know_all(self) -> None:
        """Reads settings.txt, once; what takes effect is known without it."""
        if not self._is_read:
            defaults, aliases = _read(os.path.join(os.path.dirname(self.__file__), "settings.txt"))
            self.__dict__.update(_is_read=True, _aliases=aliases, _default={**defaults, **self._effective})
            self.__dict__["_values"] = {**defaults, **self._values}

    def _where(self, name: str) -> tuple:
        """(module, name) that holds the setting; AttributeError: there is none."""
        if name in self._effective:
            return self, name
        self._know_all()
        while name in self._aliases:
            title, name = self._aliases[name]
            if title != self._title:
                return import_module("narthex" + title.removeprefix("torch"))._where(name)
        if name not in self._values:
            raise AttributeError(f"{self._title}.{name} does not exist")
        return self, name

    def __getattr__(self, name: str):
        if name.startswith("__"):
            raise AttributeError(name)
        if name not in self._effective:
            self._know_all()
            if name not in self._values and name not in self._aliases and self._has_inside(name):
                return SubConfigProxy(self, f"{name}.")
        module, name = self._where(name)
        return module._values[name]

    def _has_inside(self, name: str) -> bool:
        return any(each.startswith(f"{name}.") for each in self._values)

    def __setattr__(self, name: str, value) -> None:
        if name.startswith("__"):
            return super().__setattr__(name, value)
        module, name = self._where(name)
        before, module._values[name] = module._values[name], value
        if name not in module._effective and before != value:
            without_effect[f"{module._title}.{name}"] = None
        if module._on_set is not None:
            module._on_set(name, value)
        return None

    def __delattr__(self, name: str) -> None:
        module, name = self._where(name)
        setattr(module, name, module._default[name])

    def __dir__(self) -> list:
        self._know_all()
        return sorted({*super().__dir__(), *self._values, *self._aliases})

    # ---- all of them
    def shallow_copy_dict(self) -> dict:
        """{name: value}."""
        self._know_all()
        return dict(self._values)

    get_config_copy = to_dict = shallow_copy_dict

    def get_type(self, config_name: str) -> type:
        """The type of a setting's default."""
        module, name = self._where(config_name)
        return type(module._default[name])

    def is_default(self, name: str) -> bool:
        """Whether it has the value that it had at first."""
        module, name = self._where(name)
        return module._values[name] == module._default[name]

    def save_config(self) -> bytes:
        """What load_config takes."""
        import pickle

        return pickle.dumps(self.shallow_copy_dict(), protocol=2)

    def load_config(self, maybe_pickled_config) -> None:
        """Sets what save_config gave, or a dict."""
        if isinstance(maybe_pickled_config, bytes):
            maybe_pickled_config = _plain_pickle(maybe_pickled_config)
        self._know_all()
        for name, value in maybe_pickled_config.items():
            if name in self._values and self._values[name] != value:
                setattr(self, name, value)

    def codegen_config(self) -> str:
        """Lines that set what is not the default."""
        rows = [(name, value) for name, value in sorted(self.shallow_copy_dict().items()) if not self.is_default(name)]
        return "\n".join(f"{self._title}.{name} = {value!r}" for name, value in rows)

    def get_hash(self) -> bytes:
        """Another one for other settings."""
        import hashlib

        text = repr(sorted(self.shallow_copy_dict().items(), key=lambda row: row[0]))
        return hashlib.md5(text.encode(), usedforsecurity=False).digest()

    def patch(self, arg1=None, arg2=None, **kwargs) -> "ConfigPatch":
        """A context manager and decorator: these settings inside, the former ones behind it. patch("name", value),
        patch({"name": value}) or patch(name=value)."""
        if arg1 is not None:
            if arg2 is not None:
                changes = {arg1: arg2}
            elif isinstance(arg1, dict):
                changes = arg1
            else:
                raise AssertionError("expected 'dict' got " + type(arg1).__name__)
            if kwargs:
                raise AssertionError("expected `kwargs` to be empty")
            return ConfigPatch(self, dict(changes))
        return ConfigPatch(self, kwargs)


def _plain_pickle(data: bytes):
    """A pickle of plain values; nothing that one names is made."""
    import io
    import pickle

    class Plain(pickle.Unpickler):
        def find_class(self, module: str, name: str):
            if (module.replace("__builtin__", "builtins"), name) == ("builtins", "set"):
                return set
            raise pickle.UnpicklingError(f"load_config: {module}.{name} in the settings")

    return Plain(io.BytesIO(data)).load()


class ConfigPatch(ContextDecorator):
    """What ConfigModule.patch returns."""

    def __init__(self, config: ConfigModule, changes: dict) -> None:
        for name in changes:
            config._where(name)
        self.config, self.changes, self.before = config, changes, []

    def _recreate_cm(self):
        return ConfigPatch(self.config, self.changes)

    def __enter__(self) -> None:
        values = {}
        for name in self.changes:
            module, own = self.config._where(name)
            values[name] = module._values[own]
        self.before.append(values)
        for name, value in self.changes.items():
            setattr(self.config, name, value)

    def __exit__(self, *exception) -> None:
        for name, value in self.before.pop().items():
            setattr(self.config, name, value)


class SubConfigProxy:
    """config.triton: the settings whose names begin with "triton."."""

    def __init__(self, config: ConfigModule, prefix: str) -> None:
        super().__setattr__("_config", config)
        super().__setattr__("_prefix", prefix)

    def __getattr__(self, name: str):
        if name.startswith("__"):
            raise AttributeError(name)
        return self._config.__getattr__(self._prefix + name)

    def __setattr__(self, name: str, value) -> None:
        self._config.__setattr__(self._prefix + name, value)

    def __delattr__(self, name: str) -> None:
        self._config.__delattr__(self._prefix + name)


def install(name: str, effective: dict, on_set=None) -> None:
    """Makes the module of that name a ConfigModule. effective: the settings that change something here, with their
    defaults; on_set(name, value) is called behind each that is set."""
    module = sys.modules[name]
    module.__class__ = ConfigModule
    module._start(effective, on_set)
