"""Shared by the tests of capture: comparing a compiled function with the function itself."""

import gc
import importlib.util

import narthex as torch
import pytest
from narthex import _C

# What compares names with PyTorch's runs where PyTorch is: with CPython 3.11 it always is.
BESIDE_PYTORCH = [
    "test_contexts.py", "test_control.py", "test_dynamo_names.py", "test_frames.py", "test_modules.py", "test_rules.py",
    "test_spelling.py",
]  # fmt: skip
collect_ignore = [] if importlib.util.find_spec("torch") else BESIDE_PYTORCH


in_every_way = pytest.mark.parametrize(
    "options",
    [{}, {"mode": "reduce-overhead"}, {"mode": "max-autotune"}, {"backend": "eager"}],
    ids=["default", "reduce-overhead", "max-autotune", "eager"],
)


def ones(*shape):
    return torch.empty(*shape).fill_(1.0)


def ramp(*shape):
    """A tensor of 0, 1, 2 ... of this shape."""
    count = 1
    for size in shape:
        count *= size
    return torch.tensor([float(k) for k in range(count)]).view(*shape)


def same(got, expected):
    """Equal in type, structure and numbers."""
    if type(got) is not type(expected):
        return False
    if isinstance(expected, torch.Tensor):
        return got.tolist() == expected.tolist() and got.requires_grad == expected.requires_grad
    if isinstance(expected, (tuple, list)):
        return len(got) == len(expected) and all(map(same, got, expected))
    if isinstance(expected, dict):
        return list(got) == list(expected) and all(same(got[key], expected[key]) for key in expected)
    return got == expected


def run_graph(graph, inputs):
    """A backend that interprets the captured graph: what was captured, and nothing else, is computed."""
    return graph


def compiled(function, through="function", **options):
    """The compiled function; through "module": a compiled module whose forward it is."""
    if through == "function":
        return torch.compile(function, **options)

    class Holder(torch.nn.Module):
        forward = staticmethod(function)

    return CompiledModule(torch.compile(Holder(), **options))


def make(function, **options):
    """The function compiled, its graphs run operator by operator."""
    return compiled(function, backend=run_graph, **options)


class CompiledModule:
    """What compiles a module, with what its captured call tells."""

    def __init__(self, module):
        self.module = module

    def __call__(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    def __getattr__(self, name):
        return getattr(self.module.forward, name)


THROUGH = pytest.mark.parametrize("through", ["function", "module"])


@pytest.fixture
def check():
    """check(f, make): f(*make()) compiled three times equals f itself, each time with fresh arguments."""

    def run(function, make, graphs=None, **options):
        capture = compiled(function, **options)
        for _ in range(3):
            assert same(capture(*make()), function(*make()))
        if graphs is not None:
            assert len(capture.graphs) == graphs
        return capture

    return run


@pytest.fixture
def stop_at():
    """Every trace stops before its n-th instruction; off again after the test."""
    yield _C.set_capture_stop
    _C.set_capture_stop(0)


@pytest.fixture
def live():
    """The library's live blocks after a collection."""
    _C.alloc_watch(True)

    def count():
        gc.collect()
        return _C.alloc_live()

    yield count
    _C.alloc_watch(False)
