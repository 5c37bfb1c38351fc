"""What a compiled forward keeps for its backward: as few bytes as there are any, and nothing dear is computed twice."""

import itertools
import random
import re

import narthex as nt
import pytest

CHEAP = {"add", "sub", "mul", "div", "neg", "exp", "tanh", "sigmoid", "where", "gt", "t", "view", "expand", "detach"}
NODE = re.compile(r"%(\w+) = (placeholder|call) (\S+?)(?:\((.*)\))? : \w+\[([\d, ]*)\]", re.M)


class Node:
    def __init__(self, name, kind, target, arguments, sizes):
        self.name, self.is_input = name, kind == "placeholder"
        self.base = target.strip('"').removeprefix("aten::").split(".")[0]
        self.inputs = re.findall(r"%(\w+)", arguments or "")
        self.bytes = 4
        for size in filter(None, sizes.split(", ")):
            self.bytes *= int(size)


def parse(graph):
    """Its nodes by name, and its results."""
    text = graph.text()
    nodes = {m[0]: Node(*m) for m in NODE.findall(text)}
    return nodes, re.findall(r"%(\w+)", re.search(r"^  return \((.*)\)$", text, re.M)[1])


def ancestors(nodes, names):
    found, todo = set(), list(names)
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += nodes[name].inputs
    return found


def fewest_bytes(nodes, results, n_outputs):
    """By trying: sets of values from which the backward is computed with nothing dear of the forward's made again."""
    tangents = {name for name in nodes if name.startswith("tangents")}
    late = {name for name in nodes if ancestors(nodes, [name]) & tangents}
    in_forward = ancestors(nodes, results[:n_outputs])
    needed = ancestors(nodes, results[n_outputs:]) - late
    dear = {name for name in needed if name in in_forward and nodes[name].base not in CHEAP} | {
        name for name in needed if nodes[name].is_input
    }
    reads = {i for name in late for i in nodes[name].inputs} - late | (set(results[n_outputs:]) - late)

    def suffices(kept):
        seen, todo = set(), list(reads - kept)
        while todo:
            name = todo.pop()
            if name in dear:
                return False
            if name not in seen:
                seen.add(name)
                todo += [i for i in nodes[name].inputs if i not in kept]
        return True

    candidates = sorted(needed)
    sets = (set(c) for n in range(len(candidates) + 1) for c in itertools.combinations(candidates, n))
    return min(sum(nodes[name].bytes for name in kept) for kept in sets if suffices(kept))


def function(seed):
    """Up to seven operators over x [4, 8], w [8, 8], b [8]."""
    draw = random.Random(seed)
    steps = [
        draw.choice(("mul", "mm", "exp", "tanh", "add", "sum", "square", "normal")) for _ in range(draw.randint(2, 7))
    ]

    def f(x, w, b):
        values = [x]
        for k, step in enumerate(steps):
            y, z = values[-1], values[k // 2]
            if step == "mm":
                y = y @ w
            elif step == "sum":
                y = y + y.sum(-1, keepdim=True)
            elif step == "normal":
                y = y * nt.randn(4, 8)
            else:
                y = {"mul": y * b, "exp": y.exp(), "tanh": y.tanh(), "add": y + z, "square": y * z}[step]
            values.append(y)
        return (values[-1] * b).sum()

    return f


@pytest.mark.parametrize("seed", range(40))
def test_saved_bytes_are_the_fewest(seed):
    graphs = []

    def backend(gm, example_inputs):
        graphs.append(gm.graph._c.aot(True))
        return gm.forward

    x, w, b = nt.randn(4, 8), nt.randn(8, 8), nt.randn(8)
    nt.compile(function(seed), backend=backend)(*(a.requires_grad_() for a in (x, w, b)))
    (aot,) = graphs
    joint, results = parse(aot.joint)
    backward, _ = parse(aot.backward)
    saved = [node for node in backward.values() if node.is_input and not node.name.startswith("tangents")]
    assert sum(node.bytes for node in saved) == fewest_bytes(joint, results, 1), aot.backward.text()
    forward, _ = parse(aot.forward)
    twice = {node.base for name, node in backward.items() if name in forward and not node.is_input}
    assert twice <= CHEAP and not any(
        node.base == "normal_functional" for node in backward.values() if not node.is_input
    )
