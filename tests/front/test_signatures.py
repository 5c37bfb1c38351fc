"""How things are called is PyTorch's: names, order, kinds and defaults of the arguments of every public class, method
and function; what a call with wrong ones raises; which classes are below which."""

from __future__ import annotations

import enum
import inspect
import re
import types
import warnings
from collections import namedtuple
from collections.abc import Iterator
from typing import Any

import narthex as nt
import pytest
import torch
from both import LIBS, both
from narthex._later import Later

from tests.names import of, public, theirs

SPACES = tuple(
    """
    torch torch:Tensor torch.special torch.linalg torch.fft torch.signal.windows torch.sparse torch.masked
    torch.nn torch.nn.functional torch.nn.init torch.nn.parameter torch.nn.attention torch.nn.modules.module
    torch.nn.parallel torch.nn.utils torch.nn.utils.clip_grad torch.nn.utils.convert_parameters torch.nn.utils.fusion
    torch.nn.utils.parametrizations torch.nn.utils.parametrize torch.nn.utils.prune torch.nn.utils.rnn
    torch.nn.utils.stateless torch.nn.utils.memory_format
    torch.optim torch.optim.lr_scheduler torch.optim.optimizer torch.optim.swa_utils
    torch.distributions torch.distributions.constraints torch.distributions.constraint_registry
    torch.distributions.kl torch.distributions.transforms torch.distributions.utils
    torch.autograd torch.autograd.forward_ad torch.autograd.function torch.autograd.functional
    torch.autograd.grad_mode torch.autograd.gradcheck torch.autograd.graph torch.autograd.anomaly_mode
    torch.utils.data torch.utils.data.dataset torch.utils.data.distributed torch.utils.data.sampler
    torch.utils.data._utils.collate torch.utils.checkpoint torch.utils.hooks torch.utils.dlpack
    torch.utils.flop_counter torch.utils._pytree torch.utils.model_zoo
    torch.library torch.fx.node torch.fx.proxy torch.fx.interpreter torch.fx.subgraph_rewriter
    torch.compiler torch._dynamo torch.fx torch.fx.passes.infra.pass_base torch.fx.passes.infra.pass_manager
    torch.fx.passes.tools_common torch.fx.passes.operator_support
    torch.fx.passes.shape_prop torch.export.passes torch.export.dynamic_shapes torch._higher_order_ops
    torch._dynamo.backends.registry torch.fx.experimental.proxy_tensor torch.export torch.export.unflatten
    torch.export.exported_program torch.export.graph_signature torch.fx.graph torch.fx.graph_module
    torch.func torch.hub torch.random torch.quasirandom torch.testing torch.futures torch.amp torch.serialization
    """.split()
)
IN_C = "a function of C, which has no signature to ask for"
CONTEXT = "what a context can do, which is a FunctionCtx here and no Function"
PIPE = "a name that raises: data pipes are not there"
PROCESSES = "a name that raises: several processes are not there"
SIZES = "a size is a node where the program reads it, and no expression"
RAISES = "raises, whatever it is given"
REASONS = {
    "Tensor.backward": IN_C, "Tensor.split": IN_C, "Tensor.unflatten": IN_C, "split": IN_C, "initial_seed": IN_C,
    "MaskedTensor.is_sparse_csr": IN_C, "FunctionMeta": IN_C, "Node": IN_C,
    "Tensor.eig": RAISES, "Tensor.lstsq": RAISES, "Tensor.solve": RAISES, "Tensor.symeig": RAISES,
    "Library.register_symm_mem_args": PROCESSES,
    "ExportedProgram": "checks itself where it is given no verifiers, and keeps what the sizes of the example were",
    "CodeGen.generate_output": "is given the result's text", "PythonCode": "keeps no lines of nodes",
    "Graph.create_size_node": SIZES, "Graph.create_stride_node": SIZES, "Graph.create_storage_offset_node": SIZES,
    "Graph.materialize_symints": SIZES, "Graph.materialize_symint": SIZES,
    "Tensor.index": "is not there: docs/names.md",
    "MaskedTensor.unary": "its operators are no functions of aten",
    "MaskedTensor.is_sparse_coo": "holds no sparse data",
    "no_grad": "says that it takes a function, as it does in PyTorch, too",
    "help": "downloads nothing", "list": "downloads nothing", "load": "downloads nothing",
    "Function": CONTEXT, "InplaceFunction": CONTEXT, "CheckpointFunction": CONTEXT,
    "DistributedDataParallel": PROCESSES,
    "DFIterDataPipe": PIPE, "IterDataPipe": PIPE, "MapDataPipe": PIPE,
}  # fmt: skip
CONTEXTS = {name for name, why in REASONS.items() if why == CONTEXT}
OF_CONTEXT = vars(torch.autograd.function.FunctionCtx).keys()


def words(value: Any) -> str:
    """A default as text that is the same on both sides."""
    if isinstance(value, (types.FunctionType, type, type(nt.relu), type(nt.nn.functional.relu))):
        return value.__name__
    if isinstance(value, tuple) and not value:
        return "()"  # torch.Size([]) is one
    return re.sub(r" at 0x\w+|torch\.|_C\.|narthex\.", "", repr(value))


def told(function: Any) -> list[tuple[str, str, str]] | None:
    """(name, kind, default) of each argument; None where there is no signature to ask for."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    return [(p.name, p.kind.name, "" if p.default is p.empty else words(p.default)) for p in parameters]


def pairs(space: str) -> Iterator[tuple[str, Any, Any]]:
    """(name, ours, PyTorch's) of all that is public and called; names that are not there are in docs/names.md."""
    ours = of(space)
    for name in public(space):
        there = getattr(theirs(space), name, None)
        if not callable(there) or not (getattr(there, "__module__", None) or "").startswith("torch"):
            continue
        if isinstance(there, type) and (space == "torch" or issubclass(there, (enum.Enum, BaseException))):
            continue  # of torch itself: types of TorchScript and of storages
        try:
            here = getattr(ours, name)
        except (AttributeError, NotImplementedError):
            continue
        if not isinstance(here, Later):
            yield ("Tensor." * (space == "torch:Tensor") + name), here, there


def methods(name: str, here: type, there: type) -> Iterator[tuple[str, Any, Any]]:
    """The same of the public methods that Python has in a class; special ones are called by place."""
    for owner in there.__mro__:
        if not owner.__module__.startswith("torch") or owner in {torch.nn.Module, torch.Tensor} - {there}:
            continue
        for method, value in vars(owner).items():
            if name in CONTEXTS and method in OF_CONTEXT:
                continue
            if not method.startswith("_") and isinstance(value, (types.FunctionType, classmethod, staticmethod)):
                yield f"{name}.{method}", getattr(here, method, None), getattr(there, method)


def differs(here: Any, there: Any) -> str:
    """What of the signatures differs; what PyTorch leaves open by (*args, **kwargs) may be told here."""
    if here is None:
        return "is not there"
    mine, wanted = told(here), told(there)
    if wanted is None or mine == wanted or [kind for _, kind, _ in wanted] == ["VAR_POSITIONAL", "VAR_KEYWORD"]:
        return ""
    return f"{mine}\n    PyTorch: {wanted}"


@pytest.mark.parametrize("space", SPACES)
def test_signatures(space: str) -> None:
    wrong = []
    for full, here, there in pairs(space):
        if full == "Tensor" or full in REASONS and full not in CONTEXTS:
            continue
        each = [(full, here, there), *(methods(full, here, there) if isinstance(there, type) else ())]
        wrong += [f"{name}: {differs(mine, wanted)}" for name, mine, wanted in each
                  if name not in REASONS and differs(mine, wanted)]  # fmt: skip
    assert not wrong, "\n" + "\n".join(wrong)


def test_each_reason_is_needed() -> None:
    told_off = {}
    for space in SPACES:
        for full, here, there in pairs(space):
            each = [(full, here, there), *(methods(full, here, there) if isinstance(there, type) else ())]
            for name, mine, wanted in each:
                told_off.setdefault(name.partition(".")[0], set()).add((name, bool(differs(mine, wanted))))
    for name in REASONS.keys() - CONTEXTS:
        found = told_off.get(name.partition(".")[0], set())
        assert any(wrong for other, wrong in found if other == name or other.startswith(name + ".")), name


# ---- wrong arguments -------------------------------------------------------------------------------------------------
WRONG_IN = tuple(space for space in SPACES if space.startswith(("torch.nn", "torch.optim", "torch.distributions"))
                 or space in ("torch.utils.data", "torch.func", "torch.signal.windows"))  # fmt: skip
OTHER_NAME = {"threshold", "clip_grads_with_norm_", "get_total_norm"}  # PyTorch's errors name another function
BY_PYBIND = {"SDPBackend"}


def error_of(call: Any, *args: Any, **kwargs: Any) -> tuple[str, str] | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call(*args, **kwargs)
    except Exception as error:
        return type(error).__name__, str(error)
    return None


@pytest.mark.parametrize("space", WRONG_IN)
def test_wrong_keywords(space: str) -> None:
    """A keyword that is not there, an argument too many, one too few: of what Python defines, type and text."""
    wrong = []
    for name, here, there in pairs(space):
        arguments = told(there)
        if arguments is None or not isinstance(there, (type, types.FunctionType)) or name in REASONS:
            continue
        if name in OTHER_NAME or name in BY_PYBIND:
            continue
        kinds = {kind for _, kind, _ in arguments}
        needed = [object()] * sum(not default and kind.startswith("POSITIONAL") for _, kind, default in arguments)
        calls = [((), {})] if needed else []
        calls += [(needed, {"no_such": 1})] if "VAR_KEYWORD" not in kinds else []
        calls += [((*needed, *[1] * len(arguments), 1), {})] if "VAR_POSITIONAL" not in kinds else []
        for args, kwargs in calls:
            mine, wanted = (error_of(f, *args, **kwargs) for f in (here, there))
            if mine != wanted:
                wrong.append(f"{name}{tuple(args)}, {kwargs}: {mine}\n    PyTorch: {wanted}")
    assert not wrong, "\n" + "\n".join(wrong)


# ---- what is below what ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("space", ["torch.nn", "torch.optim", "torch.optim.lr_scheduler", "torch.distributions",
                                   "torch.distributions.transforms", "torch.distributions.constraints",
                                   "torch.utils.data", "torch.nn.utils.prune", "torch.autograd"])  # fmt: skip
def test_subclasses(space: str) -> None:
    """isinstance() says the same of layers, optimizers, schedules, distributions."""
    classes = [(name, here, there) for name, here, there in pairs(space) if isinstance(there, type)]
    classes += [("Module", nt.nn.Module, torch.nn.Module), ("Optimizer", nt.optim.Optimizer, torch.optim.Optimizer)]
    wrong = [
        f"{one} below {other}: {issubclass(here, above)}, PyTorch {issubclass(there, theirs_above)}"
        for one, here, there in classes
        for other, above, theirs_above in classes
        if issubclass(here, above) != issubclass(there, theirs_above)
    ]
    assert not wrong, "\n" + "\n".join(wrong)


# ---- wrong values, and what few calls need ---------------------------------------------------------------------------
def sgd(lib: Any, n: int = 1) -> Any:
    return lib.optim.SGD([lib.nn.Parameter(lib.ones(2)) for _ in range(n)], lr=0.1, momentum=0.9)


WRONG = {
    "pads_when_called": lambda lib: lib.nn.ZeroPad2d("x").padding,
    "unflatten": lambda lib: lib.nn.Unflatten(1, "x"),
    "unflatten_of": lambda lib: lib.nn.Unflatten(1, (2, 1.5)),
    "huber": lambda lib: lib.nn.HuberLoss(delta="x"),
    "bilinear": lambda lib: lib.nn.Bilinear(0, 2, 3),
    "fractional": lambda lib: lib.nn.FractionalMaxPool3d(-1, 2),
    "padding_mode": lambda lib: lib.nn.Conv1d(1, 1, 1, padding_mode=None),
    "no_parameter": lambda lib: lib.optim.SGD(["x"], lr=1),
    "factors": lambda lib: lib.optim.lr_scheduler.MultiplicativeLR(sgd(lib), "x"),
    "many_rates": lambda lib: lib.optim.lr_scheduler.OneCycleLR(sgd(lib), [1, 2], total_steps=3),
    "adafactor_lr": lambda lib: lib.optim.Adafactor([lib.ones(1)], lr=-1),
    "adafactor_decay": lambda lib: lib.optim.Adafactor([lib.ones(1)], weight_decay=-1),
    "chunks": lambda lib: lib.nn.LinearCrossEntropyOptions(batch_chunk_size="x"),
    "variable": lambda lib: lib.autograd.Variable(3),
    "forward_is_missing": lambda lib: lib.nn.Module()(1),
    "popitem_of_none": lambda lib: lib.nn.ParameterDict().popitem(),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_values(what: str) -> None:
    mine, wanted = both(WRONG[what])
    assert type(mine) is type(wanted) and str(mine) == str(wanted)


def test_small_calls() -> None:
    for lib in LIBS:
        values = lib.nn.ParameterDict({"a": lib.ones(1), "b": lib.zeros(1)})
        copied = values.copy()
        assert values.setdefault("c", 3) == 3 and values.setdefault("c", 4) == 3
        assert values.popitem() == ("c", 3) and list(values) == ["a", "b"] == list(copied)
        assert dict(values.fromkeys(["x", "y"], 5).items()) == {"x": 5, "y": 5}
        shared = lib.nn.Linear(1, 1)
        twice = lib.nn.Sequential(shared, shared)
        assert len(list(twice.modules())) == 2 and len(list(twice.modules(remove_duplicate=False))) == 3
        layer = lib.nn.PReLU(3)
        layer.weight.data.zero_()
        layer.reset_parameters()
        assert layer.weight.tolist() == [0.25] * 3 and lib.sym_sum(1, 2) == lib.sym_sum([1, 2]) == 3
        assert lib.manual_seed(seed=5).initial_seed() == 5
        assert isinstance(lib.nn.ZeroPad1d(1), lib.nn.ConstantPad1d) and lib.nn.ZeroPad1d(1).value == 0
        half = lib.distributions.HalfNormal(lib.ones(2))
        assert len(half.transforms) == 1 and half.expand([3, 2]).batch_shape == (3, 2)
        lazy = lib.nn.LazyBatchNorm1d(bias=False)
        lazy(lib.ones(2, 3))
        assert type(lazy) is lib.nn.BatchNorm1d and lazy.bias is None and lazy.weight.shape == (3,)
        pair, tree = namedtuple("pair", "a b"), lib.utils._pytree
        assert tree.is_namedtuple(pair) and tree.is_namedtuple(pair(1, 2)) and tree.is_namedtuple_instance(pair(1, 2))
        assert not tree.is_namedtuple_instance(pair)


@pytest.mark.parametrize("masks", [(None, None), ("pad", None), (None, 2), (None, 3), ("pad", 2), ("pad", 3)])
def test_merged_masks(masks: tuple) -> None:
    padding, rank = masks
    found = []
    for lib in LIBS:
        layer = lib.nn.MultiheadAttention(4, 2)
        of_places = lib.arange(9.0).view(3, 3) if rank == 2 else lib.arange(36.0).view(4, 3, 3)
        pads = lib.arange(6.0).view(2, 3) if padding else None
        merged, kind = layer.merge_masks(of_places if rank else None, pads, lib.ones(2, 3, 4))
        found.append((kind, None if merged is None else merged.tolist()))
    assert found[0] == found[1]


def test_grad_modes_around_generators_and_classes() -> None:
    for lib in LIBS:

        @lib.no_grad()
        def steps(lib: Any = lib) -> Iterator[bool]:
            given = yield lib.is_grad_enabled()
            yield lib.is_grad_enabled() or given

        running = steps()
        assert next(running) is False and lib.is_grad_enabled()
        with lib.no_grad():
            assert running.send(False) is False
        assert lib.is_grad_enabled()

        class Made:
            def __init__(self, lib: Any = lib) -> None:
                self.recorded = lib.is_grad_enabled()

        for switch in (lib.no_grad(), lib.set_grad_enabled(False), lib.inference_mode()):
            with pytest.warns(FutureWarning):
                decorated = switch(Made)
            lib.set_grad_enabled(True)
            assert decorated().recorded is False and lib.is_grad_enabled()
            assert type(switch.clone()) is type(switch)
            lib.set_grad_enabled(True)


def test_datasets_say_what_is_wrong() -> None:
    for lib in LIBS:

        class Odd(lib.utils.data.Subset):
            def __getitem__(self, idx: int) -> int:
                return idx

        with pytest.raises(NotImplementedError, match="Odd overrides __getitem__ but not __getitems__"):
            Odd([1, 2], [0])
        with pytest.warns(UserWarning, match="Length of split at index 1 is 0"):
            lib.utils.data.random_split([1, 2], [0.9, 0.1])
        with pytest.warns(UserWarning, match="This DataLoader will create 5000 worker processes in total"):
            lib.utils.data.DataLoader([1], num_workers=5000)
        assert lib.utils.data.ConcatDataset.cumsum([[1], [2, 3]]) == [1, 3]


# ---- wrong arguments of operators ------------------------------------------------------------------------------------
T = object()  # a tensor
OPERATORS = [
    ("relu", (), {"foo": 1}), ("relu", (T, 1), {}), ("relu", (T,), {"foo": 1}), ("relu", (T,), {"input": 1}),
    ("special.expit", (1,), {}), ("special.expit", (), {}), ("special.expit", (), {"foo": 1}),
    ("special.log1p", (1, 2, 3), {}), ("special.polygamma", (1,), {}), ("special.logsumexp", (1,), {}),
    ("special.gammainc", (), {}), ("special.gammainc", (T, T, T), {}), ("special.gammainc", (T,), {"foo": 1}),
    ("nn.functional.linear", (T,), {}), ("nn.functional.linear", (), {}), ("lstm_cell", (T,), {}),
    ("rsqrt", (T, T), {"foo": 2}), ("outer", (T,), {"foo": 1}), ("outer", (T, T), {"foo": 1, "bar": 2}),
    ("softmax", (T,), {}), ("zeros", (), {}), ("cat", (), {}), ("stack", (), {"x": 1}), ("conv2d", (T,), {}),
]  # fmt: skip


@pytest.mark.parametrize("case", OPERATORS, ids=lambda case: f"{case[0]}-{len(case[1])}-{'-'.join(case[2])}")
def test_wrong_arguments_of_operators(case: tuple) -> None:
    """What is missing, one too many, a keyword that is not there: type, text, and which is told first."""
    name, args, kwargs = case

    def call(lib: Any) -> Any:
        function = lib
        for part in name.split("."):
            function = getattr(function, part)
        return function(*(lib.ones(2) if arg is T else arg for arg in args), **kwargs)

    mine, wanted = both(call)
    assert type(mine) is type(wanted) is TypeError and str(mine).split("\n")[0] == str(wanted).split("\n")[0]
