"""torch.func.functionalize beside PyTorch: results, what is written, and the graphs that make_fx makes."""

from __future__ import annotations

from typing import Any

import narthex as nt
import pytest
import torch
from both import close, over


def writes(x: Any, y: Any) -> Any:
    a = x.view(-1)
    a.add_(1)
    b = x * y
    b.t().mul_(2)
    y.fill_(3)
    return a, b


def into_parts(x: Any, y: Any) -> Any:
    z = x.clone()
    z[0] = y[0]
    z[:, 1].sin_()
    return z.sum(0) + x


def only_views(x: Any, y: Any) -> Any:
    return (x.t() @ y).unsqueeze(0)


def make_fx(lib: Any) -> Any:
    if lib is nt:
        from narthex.fx.experimental.proxy_tensor import make_fx
    else:
        from torch.fx.experimental.proxy_tensor import make_fx
    return make_fx


@pytest.mark.parametrize("function", [writes, into_parts, only_views])
def test_functionalize(function: Any) -> None:
    torch.manual_seed(0)
    x, y = torch.randn(2, 2), torch.randn(2, 2)
    found = []
    for lib in (nt, torch):
        for traced in (False, True):
            a, b = (over(t) if lib is nt else t.clone() for t in (x, y))
            call = lib.func.functionalize(function)
            if traced:
                call = make_fx(lib)(call)(*(t.clone() for t in (a, b)))
                names = [str(node.target) for node in call.graph.nodes if node.op == "call_function"]
                writing = [name for name in names if "_." in name and not name.startswith("aten.copy_.")]
                assert not writing, writing
                copies = names.count("aten.copy_.default")
                assert copies == (2 if function is writes else 0) and all(
                    "copy_" in name for name in names[-copies:] if copies
                )
            result = call(a, b)
            found.append([*(result if isinstance(result, tuple) else (result,)), a, b])
    for other in found[:3]:
        for mine, theirs in zip(other, found[3], strict=True):
            close(mine, theirs) if isinstance(mine, nt.Tensor) else torch.testing.assert_close(mine, theirs)


def test_what_it_refuses() -> None:
    for lib in (nt, torch):
        with pytest.raises(RuntimeError, match="received invalid argument for remove=x"):
            lib.func.functionalize(writes, remove="x")(lib.ones(2, 2), lib.ones(2, 2))
    with pytest.raises(NotImplementedError, match="views stay as they are"):
        nt.func.functionalize(writes, remove="mutations_and_views")(nt.ones(2, 2), nt.ones(2, 2))


def test_gradients_pass() -> None:
    x = nt.ones(3, requires_grad=True)
    nt.func.functionalize(lambda t: t.clone().mul_(3))(x).sum().backward()
    assert x.grad.tolist() == [3, 3, 3]
