"""Nested containers: what torch.utils._pytree gives of the same trees."""

import dataclasses
from collections import OrderedDict, defaultdict, deque, namedtuple

import narthex.utils._pytree as ours
import pytest
import torch.utils._pytree as theirs

Point = namedtuple("Point", "x y")
TREES = {
    "leaf": 3,
    "none": None,
    "nested": {"b": [1, (2, 3)], "a": {"c": 4}},
    "ordered": OrderedDict(z=1, a=[2]),
    "default": defaultdict(list, {"k": [1, 2]}),
    "deque": deque([1, [2]], maxlen=5),
    "named": Point(1, [2, 3]),
    "empty": [(), {}, []],
}


@pytest.mark.parametrize("name", TREES)
def test_apart_and_together(name):
    tree = TREES[name]
    mine, spec = ours.tree_flatten(tree)
    others, other = theirs.tree_flatten(tree)
    assert mine == others and (spec.num_leaves, spec.num_nodes) == (other.num_leaves, other.num_nodes)
    again = ours.tree_unflatten(mine, spec)
    assert again == tree and type(again) is type(tree)
    doubled = ours.tree_map(lambda x: (x, x), tree)
    assert doubled == theirs.tree_map(lambda x: (x, x), tree)
    assert ours.tree_structure(tree) == spec and hash(ours.tree_structure(tree)) == hash(spec)
    if name != "none":
        assert ours.treespec_loads(ours.treespec_dumps(spec)) == spec
    paths = [(ours.keystr(path), leaf) for path, leaf in ours.tree_leaves_with_path(tree)]
    assert paths == [(theirs.keystr(path), leaf) for path, leaf in theirs.tree_flatten_with_path(tree)[0]]


def test_several_trees():
    for t in (ours, theirs):
        assert t.tree_map(lambda a, b: a + b, [1, (2,)], [10, (20,)]) == [11, (22,)]
        assert t.tree_map_only(int, lambda x: -x, [1, "a", 2.5]) == [-1, "a", 2.5]
        assert t.tree_any(lambda x: x > 2, [1, 3]) and not t.tree_all(lambda x: x > 2, [1, 3])
        assert t.tree_leaves({"a": (1, 2)}, is_leaf=lambda x: isinstance(x, tuple)) == [(1, 2)]
        assert t.arg_tree_leaves(1, [2], k=3) == [1, 2, 3]
        assert t._broadcast_to_and_flatten(5, t.tree_structure([1, [2, 3]])) == [5, 5, 5]
        with pytest.raises(ValueError, match="mismatch"):
            t.tree_map(max, [1, 2], [1])
        with pytest.raises(ValueError, match="mismatch"):
            t.tree_map(max, {"a": 1}, {"b": 1})
        with pytest.raises(ValueError, match="has length 1"):
            t.tree_unflatten([1], t.tree_structure([1, 2]))


@pytest.mark.parametrize("t", [ours, theirs])
def test_classes_of_ones_own(t):
    class Pair:
        def __init__(self, a, b):
            self.a, self.b = a, b

    @dataclasses.dataclass
    class Record:
        x: int
        y: int = None

    t.register_pytree_node(Pair, lambda p: ([p.a, p.b], None), lambda children, _: Pair(*children))
    doubled = t.tree_map(lambda x: 2 * x, [Pair(1, 2)])
    assert (doubled[0].a, doubled[0].b) == (2, 4)
    with pytest.raises(ValueError, match="already registered"):
        t.register_pytree_node(Pair, lambda p: ([], None), lambda children, _: None)
    with pytest.raises(NotImplementedError, match="No registered serialization name"):
        t.treespec_dumps(t.tree_structure(Pair(1, 2)))
    t.register_dataclass(Record)
    assert t.tree_map(lambda x: x + 1, Record(1, 2)) == Record(2, 3)
