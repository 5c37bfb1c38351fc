"""f in every way that one process can run it, each as a function that returns its numbers.

A scenario compiles anew on every call, so that a failing allocation meets capture, passes, engine and replay as well as
the run. What it returns is compared between runs, so it draws nothing at random.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import narthex as torch
from narthex._run import install
from narthex.compat import torch_npu  # noqa: F401  (adds npu:0)
from narthex.utils.checkpoint import checkpoint

PROGRAMS = Path(__file__).resolve().parent.parent / "line" / "programs"
scale = 2.0


def inputs(device: str, rows: int = 3, grad: bool = True) -> list[Any]:
    def ramp(n: int, *shape: int) -> Any:
        tensor = torch.tensor([(i % 7 - 3) / 4 for i in range(n)]).view(*shape).to(device)
        return tensor.requires_grad_(grad)

    return [ramp(rows * 4, rows, 4), ramp(20, 5, 4), ramp(5, 5)]


def f(x: Any, w: Any, b: Any) -> Any:
    return (x @ w.t() * b + b).sum()


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        y = x * x
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, y = ctx.saved_tensors
        return g * 2 * x + g * (y - y.detach())


def function() -> list[Any]:
    """A node in Python: what it saves, its gradient and the gradient of that."""
    (x, _, _) = inputs("cpu")
    loss = Square.apply(x * 2).sum()
    (g,) = torch.autograd.grad(loss, x, create_graph=True)
    g.sum().backward()
    return numbers(loss, g, x.grad)


def numbers(*tensors: Any) -> list[Any]:
    return [tensor.tolist() for tensor in tensors]


def forward_backward(function: Callable[..., Any], device: str) -> list[Any]:
    x, w, b = inputs(device)
    loss = function(x, w, b)
    loss.backward()
    return numbers(loss, x.grad, w.grad, b.grad)


def fresh(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function again with a code object of its own, which nothing has compiled yet."""
    return type(function)(function.__code__.replace(), function.__globals__, function.__name__)


def compiled(device: str, mode: str) -> list[Any]:
    return forward_backward(torch.compile(fresh(f), mode=mode), device)


def with_functions(x: Any, w: Any, b: Any) -> Any:
    """A function with a backward of its own in a checkpoint, and a gradient of a leaf that is made for it."""
    y = checkpoint(lambda h: Square.apply(h @ w.t()).tanh(), x, use_reentrant=False)
    leaf = b.detach().requires_grad_()
    (slope,) = torch.autograd.grad((leaf * leaf).sum(), leaf)
    return (y * b).sum() + (slope * b).sum()


def functions_in_a_graph() -> list[Any]:
    return forward_backward(torch.compile(fresh(with_functions)), "cpu")


def step(device: str, mode: str | None) -> list[Any]:
    """A training step: forward, backward, update."""
    function = torch.compile(fresh(f), mode=mode) if mode else f
    parameters = inputs(device)
    for _ in range(2):
        function(*parameters).backward()
        with torch.no_grad():
            for p in parameters:
                p.add_(p.grad, alpha=-0.1)
                p.grad = None
    return numbers(*parameters)


def whole_steps() -> list[Any]:
    """Training steps that are one graph; one rate is halved after each, which is exact."""
    parameters = inputs("cpu")
    optimizers = [torch.optim.SGD(parameters, lr=0.125, momentum=0.9), torch.optim.AdamW(parameters, lr=0.01)]

    def whole() -> Any:
        for optimizer in optimizers:
            optimizer.zero_grad()
            loss = f(*parameters)
            loss.backward()
            optimizer.step()
        return loss, [p.grad for p in parameters]

    compiled = torch.compile(whole, fullgraph=True)
    seen = []
    for _ in range(4):
        loss, grads = compiled()
        seen += [loss.detach(), *grads]
        optimizers[0].param_groups[0]["lr"] *= 0.5
    return numbers(*seen, *parameters)


def new_shape() -> list[Any]:
    function = torch.compile(fresh(f))
    return numbers(function(*inputs("cpu", 3, False)), function(*inputs("cpu", 6, False)))


def sized(x: Any, k: int) -> Any:
    rows = x.size(0)
    return x[: rows - 1].reshape(-1) * rows, x.shape, k + rows


def sizes_as_values() -> list[Any]:
    """Sizes and an integer that are left open; a shape that is fitted twice and one that is refused."""
    function = torch.compile(fresh(sized))
    results = [function(inputs("cpu", rows, False)[0], rows) for rows in (3, 6, 2, 6)]
    return [[result[0].tolist(), list(result[1]), result[2]] for result in results]


class Whole(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def exported() -> list[Any]:
    with tempfile.TemporaryDirectory() as folder:
        program = torch.export.export(Whole(fresh(f)), tuple(inputs("cpu", 3, False)))
        torch.model_file.save(program, f"{folder}/f.nxm")
        torch.export.save(program, f"{folder}/f.pt2")
        again = torch.export.load(f"{folder}/f.pt2")
        return numbers(*again.graph_module(*inputs("cpu", 3, False)))


def scaled(x: Any, y: Any) -> Any:
    return torch.add(x, y) * scale


def changed_global() -> list[Any]:
    global scale
    function = torch.compile(fresh(scaled))
    x, y = inputs("cpu", 5, False)[0], inputs("cpu", 5, False)[1]
    scale = 2.0
    first = function(x, y)
    scale = 3.0
    second = function(x, y)
    return numbers(first, second)


def printing(x: Any, y: Any) -> Any:
    z = x + y
    print("between")
    return z * y


def mapped(x: Any, w: Any) -> Any:
    """Gradients for each row, and one of two branches."""
    rows = torch.vmap(torch.func.grad(lambda row: (row @ w).tanh().sum()))(x)
    return torch.cond(rows.sum() > 0, lambda a: a @ w, lambda a: (a * 2).sin(), (rows,)).sum()


def maps_and_conditions() -> list[Any]:
    """Both branches taken, forward and backward."""
    run, values = torch.compile(mapped, fullgraph=True), []
    for sign in (1, -1):
        x = (torch.arange(6.0).view(2, 3) * sign / 6).requires_grad_()
        w = torch.ones(3, 3).requires_grad_()
        loss = run(x, w * sign)
        loss.backward()
        values += [loss.tolist(), x.grad.tolist(), w.grad.tolist()]
    return values


def graph_break() -> list[Any]:
    function = torch.compile(fresh(printing))
    x, y = inputs("cpu", 5, False)[0], inputs("cpu", 5, False)[1]
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        result = function(x, y)
    return [*numbers(result), out.getvalue()]


def graph_text() -> list[Any]:
    """Capture, text, parser and interpreter."""

    def backend(graph: Any, example: list[Any]) -> Any:
        again = torch._C.Graph.parse(graph.graph._c.text())
        assert again.text() == graph.graph._c.text()
        return again

    function = torch.compile(fresh(f), backend=backend)
    return numbers(function(*inputs("cpu", 3, False)))


def random_step() -> list[Any]:
    torch.manual_seed(0)
    return numbers(torch.randn(3, 4), torch.randn(20))


def attention_step() -> list[Any]:
    """Tiles that are copied and tiles that are not, both ways; dropout; a cross entropy."""
    torch.manual_seed(0)
    x = torch.randn(1, 2, 5, 4, requires_grad=True)
    attend = torch.nn.functional.scaled_dot_product_attention
    y = attend(x, x, x, is_causal=True) + attend(x, x, x, dropout_p=0.5)
    half = x.detach().bfloat16()
    classes = torch.tensor([0, 1, 2, 3] * 2 + [1, 3])
    loss = torch.nn.functional.cross_entropy(y.view(10, 4), classes, label_smoothing=0.1)
    loss.backward()
    return numbers(loss, x.grad, attend(half, half, half, torch.ones(5, 5).tril().bfloat16()).float())


def program(name: str) -> list[Any]:
    """One of the two end-to-end programs, seeded, in this process; its log goes nowhere."""
    install()
    source = "import torch; torch.manual_seed(0)\n" + (PROGRAMS / name).read_text()
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        exec(compile(source, name, "exec"), {"__name__": "__main__"})
    return [out.getvalue()]


SCENARIOS: dict[str, Callable[[], list[Any]]] = {
    "eager, autograd.Function": function,
    "eager, cpu": lambda: forward_backward(f, "cpu"),
    "eager, npu": lambda: forward_backward(f, "npu:0"),
    "random numbers": random_step,
    "attention and dropout": attention_step,
    "compiled, max-autotune, cpu": lambda: compiled("cpu", "max-autotune"),
    "compiled, reduce-overhead, cpu": lambda: compiled("cpu", "reduce-overhead"),
    "compiled, max-autotune, npu": lambda: compiled("npu:0", "max-autotune"),
    "compiled, reduce-overhead, npu": lambda: compiled("npu:0", "reduce-overhead"),
    "functions, checkpoints and gradients in a graph": functions_in_a_graph,
    "maps and conditions in a graph": maps_and_conditions,
    "whole training steps in a graph": whole_steps,
    "a new shape": new_shape,
    "sizes as values": sizes_as_values,
    "a model file": exported,
    "a changed global": changed_global,
    "a graph break": graph_break,
    "graph text": graph_text,
    "training step, eager, npu": lambda: step("npu:0", None),
    "training step, max-autotune, npu": lambda: step("npu:0", "max-autotune"),
    "training step, reduce-overhead, npu": lambda: step("npu:0", "reduce-overhead"),
    "e2e_reduce_overhead.py": lambda: program("e2e_reduce_overhead.py"),
    "e2e_max_autotune.py": lambda: program("e2e_max_autotune.py"),
}
