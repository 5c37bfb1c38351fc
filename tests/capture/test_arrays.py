"""Arrays of numpy: one that existed before is in a graph the tensor over its memory, an input; one over a tensor of the
graph is that tensor, and outside of it an array over the same memory."""

import narthex as torch
import numpy as np
import pytest
from narthex import _C, _dynamo

HELD = np.arange(6, dtype=np.float32).reshape(2, 3)


class Owner:
    def __init__(self, array):
        self.array = array


def if_array(x, a):
    if isinstance(a, np.ndarray) and type(a) is np.ndarray:
        a = torch.from_numpy(a)
    return x * a


def by_shape(x, a):
    rows, columns = a.shape
    return x.new_full((rows, columns), a.ndim) + a.size + a.itemsize + (1 if a.dtype == np.float32 else 2)


def written(x, a):
    t = torch.from_numpy(a)
    t.add_(1)
    return x + t


def both(x, a):
    return x + torch.from_numpy(a) + torch.as_tensor(a) + a


def of_owner(x, a):
    return x + torch.from_numpy(Owner(a).array)


WHOLE = {
    "from_numpy": lambda x, a: x + torch.from_numpy(a),
    "as_tensor": lambda x, a: x + torch.as_tensor(a),
    "as_tensor, dtype": lambda x, a: x + torch.as_tensor(a, dtype=torch.float64),
    "tensor": lambda x, a: x + torch.tensor(a),
    "tensor, dtype": lambda x, a: x + torch.tensor(a, dtype=torch.float64),
    "operators": lambda x, a: (x + a) * a - x / (x + a + 1),
    "what it is": lambda x, a: torch.from_numpy(a),
    "index": lambda x, a: x.flatten()[torch.from_numpy(a).long().flatten() % 6],
    "if_array": if_array,
    "by_shape": by_shape,
    "written": written,
    "both": both,
    "of_owner": of_owner,
}
PARTS = {
    "element": lambda x, a: x * float(a[0, 1]),
    "row": lambda x, a: x * torch.from_numpy(a[0]),
    "function": lambda x, a: x + torch.from_numpy(np.sin(a)),
    "method": lambda x, a: x * float(a.sum()),
    "operators of its own": lambda x, a: x + torch.from_numpy(a + a),
    "comparison": lambda x, a: x * float((a == a).sum()) + (a > 2).sum(),
    "for": lambda x, a: x + sum(float(row[0]) for row in a),
    "len": lambda x, a: x * len(a),
    "text": lambda x, a: x * len(str(a)),
    "transpose": lambda x, a: x + torch.from_numpy(np.ascontiguousarray(a.T)).t(),
    "in": lambda x, a: x * (2 if 3 in a else 1),
    "list": lambda x, a: x + torch.tensor([a, a]).sum(0) if False else x + torch.tensor(a.tolist()),
    "stack": lambda x, a: torch.stack([x, torch.from_numpy(a)]),
    "flags": lambda x, a: x * int(a.flags.writeable),
}


def write_element(x, a):
    a[0, 0] = 7
    return x + torch.from_numpy(a)


def add_to_array(x, a):
    a += 1
    return x + torch.from_numpy(a)


PARTS |= {"write_element": write_element, "add_to_array": add_to_array}


def same(f, compiled, x, a):
    expected_in, found_in = a.copy(), a.copy()
    expected, found = f(x, expected_in), compiled(x, found_in)
    assert type(found) is type(expected) and found.dtype == expected.dtype
    assert torch.equal(found, expected)
    assert np.array_equal(expected_in, found_in)


@pytest.mark.parametrize("name", [*WHOLE, *PARTS])
def test_results_follow_the_array(name):
    """Another array with other elements, of another shape, of another dtype: never what the first held."""
    f = (WHOLE | PARTS)[name]
    compiled = torch.compile(f, fullgraph=name in WHOLE)
    x = torch.arange(6.0).view(2, 3)
    for a in (HELD, HELD + 1, HELD * 3, HELD.astype(np.float64), np.ascontiguousarray(HELD.T).T):
        same(f, compiled, x, a)
    if name != "element":
        same(f, compiled, torch.ones(4, 3), np.ones((4, 3), np.float32))


def test_one_graph_serves_all_arrays_of_a_kind():
    counter = _dynamo.testing.CompileCounter()
    compiled = torch.compile(lambda x, a: x * torch.from_numpy(a), backend=counter, fullgraph=True)
    for k in range(4):
        assert torch.equal(compiled(torch.ones(2, 3), HELD + k), torch.from_numpy(HELD + k))
    assert counter.frame_count == 1


def test_an_array_that_a_closure_or_a_global_holds():
    held = HELD.copy()
    compiled = torch.compile(lambda x: x + torch.from_numpy(held) + torch.from_numpy(HELD), fullgraph=True)
    assert torch.equal(compiled(torch.ones(2, 3)), torch.from_numpy(2 * HELD) + 1)
    held[0, 0] = 100
    assert compiled(torch.ones(2, 3))[0, 0] == 101


def test_two_arrays_that_share_memory():
    def f(x, a, b):
        torch.from_numpy(a).add_(1)
        return x + torch.from_numpy(b)

    compiled = torch.compile(f)
    apart = HELD.copy()
    assert torch.equal(compiled(torch.zeros(2, 3), apart, HELD.copy()), torch.from_numpy(HELD))
    shared = HELD.copy()
    assert torch.equal(compiled(torch.zeros(2, 3), shared, shared), torch.from_numpy(HELD + 1))


def test_the_array_may_go():
    """The guards hold the tensor over the last array until the next call."""
    import gc
    import weakref

    compiled = torch.compile(lambda x, a: x + torch.from_numpy(a), fullgraph=True)
    first = HELD.copy()
    gone = weakref.ref(first)
    compiled(torch.ones(2, 3), first)
    del first
    compiled(torch.ones(2, 3), HELD.copy())
    gc.collect()
    assert gone() is None


def test_an_array_without_a_tensor_ends_the_graph():
    frozen = HELD.copy()
    frozen.flags.writeable = False
    for array in (frozen, HELD[::-1], HELD.astype(">f4")):
        with pytest.raises(_C.Unsupported, match="no tensor over its memory"):
            torch.compile(lambda x, a: x + a.shape[0], fullgraph=True)(torch.ones(2, 3), array)
    compiled = torch.compile(lambda x, a: x + torch.from_numpy(a))
    assert torch.equal(compiled(torch.ones(2, 3), frozen), torch.from_numpy(HELD) + 1)


def test_where_an_input_begins():
    def f(x):
        return x + x.storage_offset() + x[1:].storage_offset() + x.clone()[1:].storage_offset()

    compiled = torch.compile(f, fullgraph=True)
    whole = torch.arange(10.0)
    for begin in (0, 2, 5, 2):
        assert torch.equal(compiled(whole[begin : begin + 4]), whole[begin : begin + 4] + 2 * begin + 2)


# ---- over a tensor of the graph -------------------------------------------------------------------------------------
def shown_and_its_tensor(x):
    y = x * 2
    a = y.numpy()
    y.add_(1)
    return a, y, a


def shown_input(x):
    return x.numpy(), x + 1


def shown_parts(x):
    a = (x * 2).numpy()
    return a[0], a[:, 1:], x + a, x - a[0], x * torch.as_tensor(a), x + torch.tensor(a, dtype=torch.float64)


def shown_facts(x):
    a = (x * 2).numpy()
    kinds = type(a) is np.ndarray, isinstance(a, np.ndarray), a.dtype == np.float32
    return x + a.ndim, a.shape, a.size + a.itemsize + a.nbytes, kinds


def shown_written(x):
    y = x * 2
    a = y.numpy()
    a[0, 1] = 5
    a[1] = 7.0
    torch.from_numpy(a).mul_(2)
    return y


def shown_input_written(x):
    x.numpy()[0] = 3
    return x + 1


def shown_kept(x):
    KEPT["last"] = (x * 2).numpy()
    return x + KEPT["last"].shape[0]


def shown_refused(x):
    try:
        (x * torch.ones(3, requires_grad=True)).numpy()
    except RuntimeError as error:
        return x, str(error)


def shown_of_no_dtype(x):
    try:
        x.bfloat16().numpy()
    except TypeError as error:
        return x, str(error)


KEPT = {}
SHOWN = [value for name, value in list(globals().items()) if name.startswith("shown_")]
SHOWN_PARTS = [
    lambda x: torch.from_numpy(np.exp(x.numpy())),
    lambda x: torch.from_numpy(x.numpy() * 2 + 1),
    lambda x: (x * 2).numpy().copy(),
    lambda x: np.asarray(x) + 1,
    lambda x: np.sum((x * 2).numpy()),
    lambda x: float(x.numpy()[0, 1]) * x,
    lambda x: [row * 2 for row in x.numpy()],
    lambda x: (x * 2).numpy().tolist(),
    lambda x: list((x * 2).numpy()),
    lambda x: (x.numpy() == x.numpy()).all(),
    lambda x: len((x * 2).numpy()) * x,
    lambda x: max((x * 2).numpy().ravel()),
    lambda x: (x * 2).numpy().T,
    lambda x: torch.add(x, torch.from_numpy(np.stack([x.numpy(), x.numpy()]))),
    lambda x: x if (x * 2).numpy().any() else -x,
    lambda x: np.float32(2) * (x * 2).numpy(),
]


def parts_of(result):
    if isinstance(result, tuple | list):
        return [part for item in result for part in parts_of(item)]
    if isinstance(result, torch.Tensor):
        return [result.detach().clone()]
    return [result.copy() if isinstance(result, np.ndarray) else result]


@pytest.mark.parametrize("mode", ["default", "reduce-overhead", "max-autotune"])
@pytest.mark.parametrize("f", SHOWN + SHOWN_PARTS)
@pytest.mark.filterwarnings("ignore")
def test_arrays_over_tensors(f, mode):
    compiled = torch.compile(f, fullgraph=f in SHOWN, mode=mode)
    for k in range(3):
        inputs = [torch.arange(6.0).view(2, 3) + k for _ in range(2)]
        results = [f(inputs[0]), compiled(inputs[1])]
        expected, found = parts_of(results[0]), parts_of(results[1])
        assert torch.equal(*inputs)
        for a, b in zip(expected, found, strict=True):
            assert type(a) is type(b)
            assert np.array_equal(a, b) and a.dtype == b.dtype if hasattr(a, "dtype") else a == b


def test_memory_is_shared():
    compiled = torch.compile(shown_and_its_tensor, fullgraph=True)
    for _ in range(2):
        a, y, again = compiled(torch.ones(2, 3))
        assert a is again and type(a) is np.ndarray and a.flags.writeable
        a[0, 0] = 9
        assert y[0, 0] == 9
        y[1, 1] = -1
        assert a[1, 1] == -1
    compiled = torch.compile(shown_input, fullgraph=True)
    x = torch.ones(2, 3)
    compiled(x)[0][0, 0] = 4
    assert x[0, 0] == 4


@pytest.mark.parametrize("f", SHOWN_PARTS)
def test_what_numpy_computes_of_them_ends_the_graph(f):
    with pytest.raises(_C.Unsupported):
        torch.compile(f, fullgraph=True)(torch.ones(2, 3))
