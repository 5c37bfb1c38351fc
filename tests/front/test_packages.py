"""Names that packages reach for before anything runs: values, markers, questions."""

import warnings
from importlib import import_module

import narthex as nt
import pytest
import torch

BOTH = [torch, nt]


@pytest.mark.parametrize("name", ["cuda", "cuda:1", "mps"])
def test_devices_that_are_not_there_are_values(name):
    mine, theirs = nt.device(name), torch.device(name)
    assert (str(mine), repr(mine), mine.type, mine.index) == (str(theirs), repr(theirs), theirs.type, theirs.index)
    assert mine == nt.device(name) != nt.device("cpu") and hash(mine) == hash(nt.device(name))
    for call in (lambda: nt.ones(1, device=name), lambda: nt.ones(1).to(mine), lambda: nt.empty(2, device=mine)):
        with pytest.raises((AssertionError, RuntimeError, NotImplementedError), match=name.partition(":")[0].upper()
                           if "cuda" in name else name):  # fmt: skip
            call()
    with pytest.raises(RuntimeError, match="at start of device string"):
        nt.device("nowhere")


def test_marks_of_scripts_hand_back_what_they_got():
    def f(x):
        return x

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert nt.jit.script(f).__wrapped__ is f and nt.jit.script(Tensor := nt.Tensor) is Tensor
    assert nt.jit.ignore(f) is f and nt.jit.unused(f) is f and nt.jit.export(f) is f
    assert nt.jit.ignore(drop=True)(f) is f
    with pytest.raises(NotImplementedError, match="top level of a module"):
        nt.fx.wrap("f")
    assert nt.compiler.allow_in_graph(f) is f and nt._dynamo.assume_constant_result(f) is f


@pytest.mark.parametrize("t", BOTH)
def test_sizes_and_checks(t):
    assert (t.sym_max(2, 3), t.sym_min(2, 3), t.sym_int(2.7), t.sym_float(2), t.sym_not(False)) == (3, 2, 2, 2.0, True)
    t._check(True)
    t._check_is_size(3)
    with pytest.raises(RuntimeError, match="so it is"):
        t._check(False, lambda: "so it is")
    with pytest.raises(ValueError, match="so it is"):
        t._check_value(False, lambda: "so it is")
    with pytest.raises(AssertionError, match="so it is"):
        t._assert(False, "so it is")
    with pytest.raises(TypeError):
        t._check(3)


def test_cuda_classes_are_names():
    for name in ("Stream", "Event", "CUDAGraph", "graph", "StreamContext"):
        assert not isinstance(3, getattr(nt.cuda, name))
        with pytest.raises(AssertionError, match="not compiled with CUDA"):
            getattr(nt.cuda, name)()
    assert nt.cuda.is_current_stream_capturing() is False and nt.cuda.memory_stats() == {}


def test_models_of_a_folder(tmp_path):
    (tmp_path / "hubconf.py").write_text("def two(n=2):\n    'Twice.'\n    return 2 * n\n")
    for t in BOTH:
        assert t.hub.load(str(tmp_path), "two", source="local", n=4) == 8
    assert nt.hub.list(str(tmp_path), source="local") == ["two"]
    assert nt.hub.help(str(tmp_path), "two", source="local") == "Twice."
    torch.save({"w": torch.ones(2)}, tmp_path / "w.pt")
    url = (tmp_path / "w.pt").as_uri()
    state = nt.hub.load_state_dict_from_url(url, model_dir=str(tmp_path / "kept"))
    assert state["w"].tolist() == [1, 1] and (tmp_path / "kept/w.pt").exists()
    with pytest.raises(RuntimeError, match="invalid hash value"):
        nt.hub.download_url_to_file(url, str(tmp_path / "x"), hash_prefix="00")
    with pytest.raises(NotImplementedError, match="fetches nothing"):
        nt.hub.load("user/repo", "model")
    with pytest.raises(NotImplementedError, match="fetches nothing"):
        nt.hub.download_url_to_file("https://example.org/w.pt", str(tmp_path / "y"))


CONSTRAINTS = {
    "boolean": lambda c: c.boolean, "one_hot": lambda c: c.one_hot, "positive": lambda c: c.positive,
    "interval": lambda c: c.interval(-1.0, 1.0), "half": lambda c: c.half_open_interval(0.0, 1.0),
    "integer": lambda c: c.integer_interval(0, 2), "simplex": lambda c: c.simplex, "real": lambda c: c.real_vector,
    "lower": lambda c: c.lower_triangular, "cholesky": lambda c: c.lower_cholesky, "symmetric": lambda c: c.symmetric,
    "multinomial": lambda c: c.multinomial(2), "less": lambda c: c.less_than(0.5),
    "cat": lambda c: c.cat([c.positive, c.real], -1, [1, 2]),
    "stack": lambda c: c.stack([c.real, c.positive, c.real], -1),
}  # fmt: skip
VALUES = [
    [[0.0, 1.0, 0.0], [0.5, 0.5, 0.0], [-1.0, 2.0, float("nan")]],
    [[[1.0, 0.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 3.0]], [[1.0, 2.0, 0.0], [2.0, -1.0, 0.0], [0.0, 0.0, 1.0]]],
]


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_constraints(name):
    mine, theirs = (CONSTRAINTS[name](t.distributions.constraints) for t in (nt, torch))
    assert (mine.event_dim, mine.is_discrete) == (theirs.event_dim, theirs.is_discrete)
    if name not in ("cat", "stack"):
        assert repr(mine) == repr(theirs)
    for value in VALUES[theirs.event_dim == 2 :]:
        assert mine.check(nt.tensor(value)).tolist() == theirs.check(torch.tensor(value)).tolist()


def causal(b, h, q, k):
    return q >= k


@pytest.mark.parametrize("masked", [False, True])
def test_attention_with_scores_of_ones_own(masked):
    results = []
    for t in BOTH:
        flex = import_module(f"{t.__name__}.nn.attention.flex_attention")
        t.manual_seed(0)
        q, k, v = t.randn(2, 4, 70, 8), t.randn(2, 2, 70, 8), t.randn(2, 2, 70, 8)
        mask = flex.create_block_mask(causal, None, None, 70, 70, device="cpu", BLOCK_SIZE=32) if masked else None
        score = lambda s, b, h, i, j: s + (i - j) * 0.01 * (h + 1)  # noqa: E731
        options = {"score_mod": score, "block_mask": mask, "enable_gqa": True}
        results.append(flex.flex_attention(q, k, v, **options).numpy())
        if masked:
            results[-1] = (results[-1], mask.to_dense().tolist(), mask.kv_num_blocks.tolist(), tuple(mask.shape))
    if masked:
        assert results[0][1:] == results[1][1:]
        results = [r[0] for r in results]
    assert abs(results[0] - results[1]).max() < 1e-5


def test_backends_of_attention():
    x = nt.randn(1, 2, 4, 8)
    from narthex.nn.attention import SDPBackend, sdpa_kernel

    with sdpa_kernel(SDPBackend.MATH):
        assert nt.nn.functional.scaled_dot_product_attention(x, x, x).shape == x.shape
    with pytest.raises(RuntimeError, match="No available kernel"), sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        pass
    assert [b.value for b in SDPBackend] == [b.value for b in torch.nn.attention.SDPBackend.__members__.values()]


def test_prefixes():
    from narthex._higher_order_ops.associative_scan import associative_scan

    for n in (1, 2, 3, 7, 8):
        x = nt.arange(1.0, n + 1).repeat(2, 1)
        for reverse in (False, True):
            mine = associative_scan(lambda a, b: a + b, x, dim=1, reverse=reverse)
            whole = x.flip(1).cumsum(1).flip(1) if reverse else x.cumsum(1)
            assert mine.tolist() == whole.tolist()


@pytest.mark.parametrize(
    ("name", "arguments", "shape"),
    [("eye_", (), (3, 4)), ("dirac_", (), (4, 4, 3, 3)), ("dirac_", (2,), (4, 2, 3)), ("sparse_", (0.3,), (7, 5))],
)
def test_starting_values(name, arguments, shape):
    made = []
    for t in BOTH:
        t.manual_seed(3)
        made.append(getattr(t.nn.init, name)(t.empty(shape), *arguments).tolist())
        with pytest.raises(ValueError, match="dimensions"):
            getattr(t.nn.init, name)(t.empty(2), *arguments)
        with pytest.warns(FutureWarning, match="deprecated in favor"):
            t.nn.init.uniform(t.empty(2))
    assert made[0] == made[1]


def test_members_by_dotted_names():
    import narthex.nn.utils._named_member_accessor  # noqa: F401
    import torch.nn.utils._named_member_accessor  # noqa: F401

    def told(m):
        names = m.nn.utils._named_member_accessor
        net = m.nn.Sequential(m.nn.Linear(2, 2), m.nn.BatchNorm1d(2))
        access, seen = names.NamedMemberAccessor(net), []
        other = m.zeros(2, 2)
        before = access.swap_tensor("0.weight", other)
        seen.append((net[0].weight is other, tuple(before.shape), access.check_keys(["0.weight", "3.x"])))
        old, missing = access.swap_tensors_dict({"0.weight": before, "0.more": other}, allow_missing=True)
        seen.append((old["0.weight"] is other, missing, hasattr(net[0], "more")))
        access.swap_tensors_dict(old, allow_missing=True)
        seen.append((net[0].weight is other, hasattr(net[0], "more")))
        for call in (
            lambda: names.swap_tensor(net, "x", other),
            lambda: names.swap_tensor(net[0], "weight", 3),
            lambda: names.swap_tensor(net, "a.b", other),
            lambda: names.swap_tensor(net[0], "in_features", other),
            lambda: names.set_tensor(3, "x", other),
            lambda: access.get_tensor("0.y"),
            lambda: access.get_tensor("7.y"),
            lambda: access.swap_tensors_dict({"0.bias": other, "0.y": other}),
        ):
            try:
                call()
            except Exception as error:
                seen.append((type(error).__name__, str(error)))
        return [*seen, tuple(net[0].bias.shape)]

    assert told(nt) == told(torch)


def test_what_packages_take_from_utils(monkeypatch):
    import narthex._utils  # noqa: F401
    import torch._utils  # noqa: F401

    monkeypatch.setattr(nt.accelerator, "current_accelerator", lambda: None)  # as where no plugin was loaded

    def told(m):
        u, x, y, seen = m._utils, m.arange(6.0).reshape(2, 3), m.ones(2), []
        flat = u._flatten_dense_tensors([x, y])
        parts = u._unflatten_dense_tensors(flat, [x, y])
        seen += [flat.tolist(), [tuple(part.shape) for part in parts]]
        mixed = [x, m.ones(2, dtype=m.int64), y]
        groups = list(u._take_tensors(mixed, 16))
        seen.append([[tuple(each.shape) for each in group] for group in groups])
        grouped = [each for group in groups for each in group]
        seen.append([tuple(each.shape) for each in u._reorder_tensors_as(grouped, mixed)])
        storage = m.arange(4.0).storage()
        made = u._rebuild_tensor_v2(storage, 1, (3,), (1,), True, {})
        seen += [made.tolist(), made.requires_grad, u._get_available_device_type(), u._get_all_device_indices()]
        for device in (None, 2, "cpu", m.device("cuda:1")):
            for options in ({}, {"optional": True}, {"allow_cpu": True}):
                try:
                    seen.append(u._get_device_index(device, **options))
                except ValueError as error:
                    seen.append(str(error))
        for kind in (KeyError, ValueError):
            try:
                try:
                    raise kind("one\ntwo")
                except kind:
                    kept = u.ExceptionWrapper(where="in a test")
                kept.reraise()
            except kind as error:
                seen.append((type(error).__name__, str(error).split("Traceback")[0], "two" in str(error)))
        return seen

    assert told(nt) == told(torch)


def test_classes_of_named_results():
    for m in (nt, torch):
        x = m.arange(6.0).reshape(2, 3)
        assert type(x.max(0)) is m.return_types.max and type(m.sort(x, stable=True)) is type(m.sort(x))
        assert m.return_types.topk.__module__ == "torch.return_types"
        assert {"max", "sort", "topk"} <= set(dir(m.return_types))
        assert m.return_types.max((1, 2)).indices == 2
        with pytest.raises(AttributeError):
            m.return_types.nothing  # noqa: B018
