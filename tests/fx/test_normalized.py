"""Arguments by signatures, and the edits of experimental.optimization and normalize, beside PyTorch's."""

from __future__ import annotations

import operator
from importlib import import_module
from typing import Any

import narthex as nt
import pytest
import torch as pt


def of(m: Any, path: str) -> Any:
    return import_module(f"{m.__name__}.{path}")


def calls(m: Any) -> Any:
    F = m.nn.functional  # noqa: N806

    def function(x: Any, y: Any) -> list:
        a = F.max_pool2d(F.relu(m.add(x, y, alpha=2), True), 2)
        b = m.sum(operator.add(m.cat([m.conv2d(a, y), F.conv2d(a, y)]), 1), 1)
        c = F.cross_entropy(F.dropout(F.layer_norm(F.softmax(F.linear(x, y), -1), (2,)), 0.5), y)
        d = m.transpose(m.reshape(m.mean(m.stack([c, m.matmul(x, y)], dim=1), (0, 1)), (1, -1)), 0, 1)
        e = [F.interpolate(x, scale_factor=2), F.gelu(x), m.bmm(x, y), m.where(x, y, x), m.clamp(b, 0)]
        return [d, *e, F.batch_norm(x, y, y), F.embedding(x, y), F.pad(x, (1, 1)), m.flatten(x, 1)]

    return function


def network(m: Any) -> Any:
    nn = m.nn
    layers = nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Dropout(0.1), nn.Flatten(), nn.Linear(72, 2)
    return nn.Sequential(*layers).eval()


def normalized(m: Any) -> list:
    seen = []
    for model in (calls(m), network(m)):
        traced = m.fx.symbolic_trace(model)
        for node in traced.graph.nodes:
            for only in (False, True):
                for types in (None, (m.Tensor, m.Tensor)):
                    try:
                        seen.append((node.name, str(node.normalized_arguments(traced, types, None, only))))
                    except RuntimeError as error:
                        seen.append((node.name, "ambiguous" in str(error)))
    return seen


def test_arguments_of_nodes() -> None:
    ours, theirs = normalized(nt), normalized(pt)
    assert ours == theirs and any(text is True for _, text in ours)


def test_arguments_of_functions() -> None:
    for m in (nt, pt):
        schemas = of(m, "fx.operator_schemas")
        args = schemas.normalize_function(m.ops.aten.add.Tensor, (1, 2), normalize_to_only_use_kwargs=True)
        assert args == ((), {"input": 1, "other": 2, "alpha": 1})
        assert schemas.normalize_function(len, ([1],)) is None
        assert schemas.normalize_function(lambda a, *b: 1, (1, 2)) is None
        assert schemas.normalize_function(lambda a, b=2: 1, (1,)) == ((1,), {"b": 2})
        assert schemas.create_type_hint([int, int]) == list[int]
        with pytest.raises(RuntimeError, match="did not have that target"):
            schemas.normalize_module(m.nn.Linear(1, 1), "nothing", ())


def edited(m: Any) -> list:
    optimization, normalize = of(m, "fx.experimental.optimization"), of(m, "fx.experimental.normalize")
    model, x = network(m), m.arange(64.0).view(1, 1, 8, 8)
    traced = m.fx.symbolic_trace(model)
    nodes = list(traced.graph.nodes)
    made = [
        optimization.fuse(model),
        optimization.remove_dropout(model),
        normalize.NormalizeArgs(traced).transform(),
    ]
    for each in made:
        assert m.allclose(each(x), model(x), atol=1e-4)
    made.append(optimization.extract_subgraph(traced, nodes[3:5], [nodes[2]], [nodes[4]]))
    pooled = m.fx.symbolic_trace(lambda x: m.nn.functional.max_pool2d(m.cat([x, x], 1), 2))
    made += [normalize.NormalizeArgs(pooled, only).transform() for only in (True, False)]
    return [each.code for each in made]


def test_edits() -> None:
    assert edited(nt) == edited(pt)


def test_a_trace_leaves_the_calls_of_modules_as_they_were() -> None:
    names: list = []

    def backend(gm: Any, inputs: list) -> Any:
        names.append([node.name for node in gm.graph.nodes])
        return gm

    model = nt.nn.Linear(2, 2)
    for _ in range(2):
        nt.compile(model, backend=backend)(nt.ones(1, 2))
        nt.fx.symbolic_trace(model)
    assert names[0] == names[1]
