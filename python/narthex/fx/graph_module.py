"""GraphModule: a graph that can be called."""

import copy
import linecache
from pathlib import Path

from .. import _C
from ..nn import Module, Parameter
from .graph import Graph, PythonCode

_count = 0


def _compiled(code: PythonCode):
    """The function that the source defines; tracebacks show its lines."""
    global _count
    import narthex

    _count += 1
    name, scope = f"<eval_with_key>.{_count}", {"torch": narthex, **code.globals}
    linecache.cache[name] = (len(code.src), None, code.src.splitlines(keepends=True), name)
    exec(compile(code.src, name, "exec"), scope)
    return scope["forward"]


def _copy_attr(source, target: Module, path: str) -> None:
    """target.a.b = source.a.b; what stands between is made."""
    *names, last = path.split(".")
    for name in names:
        source = getattr(source, name)
        if getattr(target, name, None) is source:
            return  # it is all there
        if not hasattr(target, name):
            target.add_module(name, Module())
        target = getattr(target, name)
    value = getattr(source, last)
    if isinstance(value, _C.TensorBase) and not isinstance(value, Parameter):
        target.register_buffer(last, value)
    else:
        setattr(target, last, value)


def _assign_attribute(value, target: Module, path: str, persistent: bool = True) -> None:
    *names, last = path.split(".")
    for name in names:
        if not hasattr(target, name):
            target.add_module(name, Module())
        target = getattr(target, name)
    if isinstance(value, _C.TensorBase) and not isinstance(value, Parameter):
        target.register_buffer(last, value, persistent)
    else:
        setattr(target, last, value)


def _paths_of(graph: Graph) -> list:
    """The attributes that the graph names, as they are met."""
    return list(dict.fromkeys(node.target for node in graph.nodes if node.op in ("get_attr", "call_module")))


def _depth(path: str) -> int:
    return path.count(".")


def in_class(src: str, name: str) -> str:
    """The source of a forward as that of a module's class."""
    lines = [f"    {line}\n" if line else "\n" for line in src.splitlines()]
    return f"class {name}(torch.nn.Module):\n" + "".join(lines)


_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"  # in a module's meta: attributes that copies get, too


class _CodeOnlyModule(Module):
    """A module that holds what a dict of attributes says; copies of graph modules begin with one."""

    def __init__(self, body: dict) -> None:
        super().__init__()
        self.__dict__ = body


class GraphModule(Module):
    """A module whose forward is a graph. root: the module whose parameters and submodules the graph names, or a dict
    of them by path. With a `_C.Graph` in place of root it is that graph, which runs in C until recompile() is asked
    for."""

    # For classes of programs that go on from Module.__init__ and set a graph.
    _class_name, _captured, _graph, _code = "GraphModule", None, None, None
    _of_parameters: frozenset = frozenset()  # places of a captured graph's inputs that are parameters

    def __init__(self, root, graph: Graph | None = None, class_name: str = "GraphModule") -> None:
        super().__init__()
        own = {"_class_name": class_name, "_captured": None, "_graph": None, "_code": None, "meta": {}}
        self.__dict__.update(own)
        if isinstance(root, _C.Graph):
            self.__dict__["_captured"] = root
            return
        if graph is None:
            raise TypeError("GraphModule.__init__() missing 1 required positional argument: 'graph'")
        if isinstance(root, Module):
            self.training = root.training
        paths = _paths_of(graph)
        for path in paths if isinstance(root, Module) else sorted(paths, key=_depth):
            if isinstance(root, Module):
                _copy_attr(root, self, path)
            elif not isinstance(root, dict):
                raise RuntimeError(f"Unsupported type {root} passed for root!")
            elif path not in root:
                raise RuntimeError(f"Node referenced target {path} but that target was not provided in ``root``!")
            else:
                _assign_attribute(root[path], self, path)
        self.graph = graph

    @property
    def graph(self) -> Graph:
        """The graph. Edits take effect with recompile(); another graph that is set, at once."""
        if self._graph is None:
            self.__dict__["_graph"] = graph = Graph()
            graph._read(self._captured, as_spelled=True)
            graph.owning_module = self
            for place, node in enumerate(graph.find_nodes(op="placeholder")):
                node.type = Parameter if place in self._of_parameters else node.type
            for path in sorted(_paths_of(graph), key=_depth):
                value = next(node._c.value for node in graph.nodes if node.op == "get_attr" and node.target == path)
                _assign_attribute(value, self, path)
        return self._graph

    @graph.setter
    def graph(self, graph: Graph) -> None:
        if not isinstance(graph, Graph):
            raise AssertionError(f"Expected a Graph instance, but got {type(graph)}")
        self.__dict__["_graph"] = graph
        graph.owning_module = self
        self.recompile()

    @property
    def captured_graph(self) -> _C.Graph | None:
        """The captured graph that forward runs; None of a module that was built or recompiled in Python."""
        return self._captured if self._code is None else None

    @property
    def _has_open_sizes(self) -> bool:
        """Whether it is a captured graph that holds for more than one size."""
        graph = self.captured_graph
        return graph is not None and graph.has_numbers

    @property
    def was_edited(self) -> bool:
        """Whether the graph is another one than was captured, recompiled or not."""
        return self.captured_graph is None or (self._graph is not None and self._graph._edits != 0)

    def forward(self, *args):
        """Runs the captured graph operator by operator."""
        return self._captured(*args)

    def recompile(self) -> PythonCode:
        """Makes forward anew from the graph."""
        code = self.graph.python_code("self")
        nesting = getattr(self.graph._codegen, "pytree_info", None)
        if nesting is not None:
            self.__dict__.update(_in_spec=nesting.in_spec, _out_spec=nesting.out_spec)
        if self._code is None:  # each has a forward of its own, and with it a class
            self.__class__ = type(self._class_name, (type(self),), {"__module__": type(self).__module__})
        self.__dict__["_code"] = code.src
        type(self).forward = _compiled(code)
        return code

    @property
    def code(self) -> str:
        """The forward as Python source."""
        if self._code is None:
            return self.graph.python_code("self").src
        return self._code

    def print_readable(
        self,
        print_output: bool = True,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
        *,
        fast_sympy_print: bool = False,
        expanded_def: bool = False,
        additional_meta: list | None = None,
    ) -> str:
        """The forward with its class, of a captured graph with shapes and source lines; printed unless print_output
        is False. expanded_def: a line for each input; the other options change nothing."""
        src = self.graph.python_code("self", verbose=True, expanded_def=expanded_def).src.strip("\n").rstrip()
        text = in_class(src, self._class_name)
        if print_output:
            print(text)
        return text

    def add_submodule(self, target: str, m: Module) -> bool:
        """self.a.b = m for target "a.b", with modules made in between; whether it could be done."""
        *names, last = target.split(".")
        at = self
        for name in names:
            if not hasattr(at, name):
                at.add_module(name, Module())
            at = getattr(at, name)
            if not isinstance(at, Module):
                return False
        at.add_module(last, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Takes the submodule out; whether there was one."""
        *names, last = target.split(".")
        at = self
        for name in names:
            at = getattr(at, name, None)
            if not isinstance(at, Module):
                return False
        if not isinstance(getattr(at, last, None), Module):
            return False
        delattr(at, last)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Takes out the submodules that the graph does not name."""
        used = set()
        for node in self.graph.nodes:
            if node.op in ("call_module", "get_attr"):
                parts = node.target.split(".")
                used.update(".".join(parts[:n]) for n in range(1, len(parts) + 1))
                if node.op == "call_module":
                    inside = self.get_submodule(node.target)
                    used.update(f"{node.target}.{name}" for name, _ in inside.named_modules())
        for name in [name for name, _ in self.named_modules() if name and name not in used]:
            self.delete_submodule(name)

    def to_folder(self, folder, module_name: str = "FxModule") -> None:
        """Writes a package of Python: a class `module_name` with this forward, and its parameters beside it. Layers
        whose text is Python stand in it as that, others as files."""
        from ._to_folder import write

        write(self, Path(folder), module_name)

    def _root(self) -> Module:
        """A module with what this one holds."""
        root = Module()
        own = {"_graph", "_code", "_captured", "_class_name", "_modules", "_parameters", "_buffers"}
        root.__dict__.update({key: value for key, value in self.__dict__.items() if key not in own})
        for kind in ("_modules", "_parameters", "_buffers"):
            root.__dict__[kind] = dict(self.__dict__[kind])
        return root

    def __deepcopy__(self, memo):
        root = copy.deepcopy(self._root(), memo)
        made = GraphModule(root, copy.deepcopy(self.graph), self._class_name)
        for kind in ("_modules", "_parameters", "_buffers"):
            for name, value in root.__dict__[kind].items():
                made.__dict__[kind].setdefault(name, value)
        for name, value in root.__dict__.items():
            made.__dict__.setdefault(name, value)
        made.meta, made.training = copy.copy(self.meta), self.training
        return made

    def __copy__(self):
        return GraphModule(self, copy.deepcopy(self.graph), self._class_name)

    def __reduce__(self):
        if self._code is None:
            raise NotImplementedError("pickling a captured graph: recompile() it first")
        code = self.graph.python_code("self")
        names = {name: value for name, value in code.globals.items() if name != "torch"}
        return _rebuild, (self._root(), code.src, names, self._class_name)

    def __repr__(self) -> str:
        return (
            f"{super().__repr__()}\n{self.code}\n# To see more debug info, please use `graph_module.print_readable()`"
        )


def _rebuild(root: Module, src: str, names: dict, class_name: str) -> GraphModule:
    """A GraphModule of a pickle: its forward is traced again, submodules as they were called."""
    from ._symbolic_trace import Tracer

    class KeepModules(Tracer):
        def is_leaf_module(self, module, name):
            return True

    holder = type(class_name, (Module,), {"forward": _compiled(PythonCode(src, names))})()
    holder.__dict__.update(root.__dict__)
    return GraphModule(holder, KeepModules().trace(holder), class_name)
