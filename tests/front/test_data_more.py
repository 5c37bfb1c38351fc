"""utils.data beyond the usual: errors and their texts, what samples may be, streams among workers, beside PyTorch."""

import pickle
from collections import OrderedDict, UserDict, defaultdict, namedtuple

import narthex as nt
import numpy as np
import pytest
import torch

Point = namedtuple("Point", "x y")


class Pair(list):
    """A list that cannot be made from one argument."""

    def __init__(self, first, second):
        super().__init__([first, second])


def plain(value):
    """A value without tensors: what both sides must agree on."""
    if isinstance(value, (nt.Tensor, torch.Tensor)):
        return "tensor", str(value.dtype), value.tolist()
    if isinstance(value, (dict, UserDict)):
        return type(value).__name__, [(key, plain(each)) for key, each in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [plain(each) for each in value]
    return repr(value)


def outcome(function, module):
    """What it gives, or which error with which text."""
    try:
        return plain(function(module))
    except Exception as error:
        return type(error).__name__, str(error)


SAMPLES = (
    lambda m: [1, 2],
    lambda m: [1.0, 2.0],
    lambda m: [True, False],
    lambda m: ["a", "b"],
    lambda m: [b"a", b"b"],
    lambda m: [np.float32(1), np.float32(2)],
    lambda m: [np.bool_(True), np.bool_(False)],
    lambda m: [np.float16(1)] * 2,
    lambda m: [np.complex64(1j)] * 2,
    lambda m: [np.zeros(2), np.ones(2)],
    lambda m: [np.array(3), np.array(4)],
    lambda m: [np.array("a")] * 2,
    lambda m: [np.array([None])] * 2,
    lambda m: [np.str_("a")] * 2,
    lambda m: [np.datetime64("2020-01-01")] * 2,
    lambda m: [OrderedDict(a=1, b=2.0)] * 2,
    lambda m: [defaultdict(list, a=1)] * 2,
    lambda m: [UserDict(a=1)] * 2,
    lambda m: [Point(1, "a")] * 2,
    lambda m: [(1, 2), (3, 4)],
    lambda m: [[1], [3, 4]],
    lambda m: [Pair(1, 2)] * 2,
    lambda m: [range(2), range(2, 4)],
    lambda m: [[], []],
    lambda m: [None, None],
    lambda m: [{1, 2}] * 2,
    lambda m: [{"a": 1}, {"b": 1}],
    lambda m: [{"a": m.zeros(1), "b": [1, 2]}, {"a": m.ones(1), "b": [3, 4]}],
    lambda m: [m.zeros(2), m.ones(3)],
    lambda m: [bytearray(b"ab")] * 2,
)


@pytest.mark.parametrize("number", range(len(SAMPLES)))
def test_collate_and_convert(number):
    for name in ("default_collate", "default_convert"):
        pair = [outcome(lambda m, name=name: getattr(m.utils.data, name)(SAMPLES[number](m)), m) for m in (nt, torch)]
        assert pair[0] == pair[1], name


def test_collate_by_a_table_of_ones_own():
    results = []
    for module in (nt, torch):
        collate = module.utils.data._utils.collate
        table = {int: lambda batch, *, collate_fn_map=None: sum(batch), **collate.default_collate_fn_map}
        table[int] = lambda batch, *, collate_fn_map=None: sum(batch)
        batch = [{"n": 1, "x": 2.0}, {"n": 5, "x": 3.0}]
        results.append(plain(collate.collate(batch, collate_fn_map=table)))
        results[-1] += (outcome(lambda m: m.utils.data._utils.collate.collate([1, 2]), module),)
        results[-1] += (plain(collate.collate_numpy_scalar_fn([np.int16(3), np.int16(4)])),)
        results[-1] += (plain(collate.collate_str_fn(["a"])), plain(collate.collate_float_fn([1, 2])))
    assert results[0] == results[1]


def stream(m, n, sized=False):
    class Stream(m.utils.data.IterableDataset):
        def __iter__(self):
            return iter(range(n))

    if sized:
        Stream.__len__ = lambda self: n
    return Stream()


def set_attribute(loader, name, value):
    setattr(loader, name, value)


def dealt(m, n, lengths):
    return [list(part) for part in m.utils.data.random_split(range(n), lengths, m.Generator().manual_seed(3))]


USES = (
    lambda m: m.utils.data.StackDataset(),
    lambda m: m.utils.data.StackDataset([1], a=[1]),
    lambda m: m.utils.data.StackDataset([1], [1, 2]),
    lambda m: m.utils.data.StackDataset(a=[1], b=[1, 2]),
    lambda m: m.utils.data.StackDataset([1, 2], [3, 4]).__getitems__([0, 1]),
    lambda m: m.utils.data.StackDataset(a=[1, 2], b=[3, 4]).__getitems__([0, 1]),
    lambda m: m.utils.data.StackDataset(m.utils.data.Subset([5, 6], [1, 0]), [3, 4]).__getitems__([0, 1]),
    lambda m: dealt(m, 10, [0.3, 0.3, 0.4]),
    lambda m: dealt(m, 11, [0.33, 0.33, 0.34]),
    lambda m: m.utils.data.random_split(range(3), [1.1, -0.1]),
    lambda m: m.utils.data.random_split(range(3), [0.5, 0.2]),
    lambda m: [len(part) for part in m.utils.data.random_split(range(2), [0.1, 0.9])],
    lambda m: list(stream(m, 3) + stream(m, 2)),
    lambda m: len(stream(m, 3, True) + stream(m, 2, True)),
    lambda m: list(m.utils.data.ChainDataset([stream(m, 2), [1]])),
    lambda m: len(m.utils.data.DataLoader(stream(m, 5, True), batch_size=2)),
    lambda m: list(m.utils.data.DataLoader(stream(m, 5), batch_size=2, drop_last=True)),
    lambda m: m.utils.data.DataLoader(stream(m, 5), shuffle=True),
    lambda m: len(m.utils.data.DataLoader(stream(m, 4, True), shuffle=False)),
    lambda m: m.utils.data.DataLoader(stream(m, 5), sampler=[]),
    lambda m: m.utils.data.DataLoader(stream(m, 5), batch_sampler=[[1]]),
    lambda m: m.utils.data.DataLoader(range(5), batch_size=0),
    lambda m: m.utils.data.DataLoader(range(5), batch_size=None, drop_last=True),
    lambda m: m.utils.data.DataLoader(range(5), batch_sampler=[[1]], batch_size=2),
    lambda m: m.utils.data.DataLoader(range(5), sampler=[1], shuffle=True),
    lambda m: m.utils.data.DataLoader(range(0), shuffle=True),
    lambda m: list(m.utils.data.DataLoader(range(0))),
    lambda m: m.utils.data.DataLoader(range(3), persistent_workers=True),
    lambda m: m.utils.data.DataLoader(range(3), num_workers=-1),
    lambda m: m.utils.data.DataLoader(range(3), timeout=-1),
    lambda m: m.utils.data.DataLoader(range(3), prefetch_factor=1),
    lambda m: m.utils.data.DataLoader(range(3), multiprocessing_context="fork"),
    lambda m: m.utils.data.DataLoader(range(3), num_workers=1, multiprocessing_context="x"),
    lambda m: set_attribute(m.utils.data.DataLoader(range(5)), "batch_size", 3),
    lambda m: set_attribute(m.utils.data.DataLoader(range(5)), "dataset", []),
    lambda m: set_attribute(m.utils.data.DataLoader(range(5)), "num_workers", 1),
    lambda m: list(m.utils.data.DataLoader(range(5), sampler=[1, 3])),
    lambda m: list(m.utils.data.DataLoader(range(5), batch_size=None, collate_fn=lambda x: x * 2)),
    lambda m: m.utils.data.RandomSampler([1], num_samples=0),
    lambda m: m.utils.data.RandomSampler([1], replacement=1),
    lambda m: m.utils.data.WeightedRandomSampler([[0.1]], 1),
    lambda m: m.utils.data.WeightedRandomSampler([0.1], 0),
    lambda m: m.utils.data.WeightedRandomSampler([0.1], 1, 1),
    lambda m: m.utils.data.DistributedSampler(range(3)),
    lambda m: m.utils.data.DistributedSampler(range(3), 2, 3),
    lambda m: m.utils.data.BatchSampler(range(3), True, False),
    lambda m: m.utils.data.BatchSampler(range(3), 2, 1),
    lambda m: iter(m.utils.data.Sampler()),
    lambda m: m.utils.data.IterableDataset(),
    lambda m: m.utils.data.ConcatDataset([]),
    lambda m: m.utils.data.ConcatDataset([stream(m, 1)]),
    lambda m: m.utils.data.ConcatDataset([[1]])[-2],
    lambda m: m.utils.data.Dataset()[0],
    lambda m: m.utils.data.DataChunk([1, "a"]).as_str(" "),
    lambda m: list(m.utils.data.DataChunk(range(2)).raw_iterator()),
    lambda m: m.random.thread_safe_generator(),
)  # fmt: skip


@pytest.mark.parametrize("number", range(len(USES)))
def test_uses_and_errors(number):
    assert outcome(USES[number], nt) == outcome(USES[number], torch)


def test_the_older_name_of_sizes_warns():
    for module in (nt, torch):
        with pytest.warns(FutureWarning, match="`cummulative_sizes` attribute is renamed to `cumulative_sizes`"):
            assert module.utils.data.ConcatDataset([[1], [2]]).cummulative_sizes == [1, 2]


def shares(m, calls):
    """A stream that each worker reads its own part of; `calls`: where worker_init_fn puts the workers' seeds."""

    class Shared(m.utils.data.IterableDataset):
        def __iter__(self):
            info = m.utils.data.get_worker_info()
            extra = getattr(info.dataset, "extra", None)
            return iter([(i, info.num_workers, extra) for i in range(info.id, 9, info.num_workers)])

    def mark(id):
        m.utils.data.get_worker_info().dataset.extra = 10 * id

    return m.utils.data.DataLoader(
        Shared(), batch_size=2, num_workers=2, worker_init_fn=mark, persistent_workers=calls > 1,
        multiprocessing_context="fork",
    )  # fmt: skip


@pytest.mark.parametrize("passes", [1, 2])
def test_a_stream_is_shared_among_workers(passes):
    seen = []
    for module in (nt, torch):
        loader = shares(module, passes)
        seen.append([plain(batch) for _ in range(passes) for batch in loader])
    assert seen[0] == seen[1] and len(seen[0]) == 5 * passes


def test_data_pipes_are_refused():
    data = nt.utils.data
    assert not isinstance([], data.IterDataPipe) and not isinstance(stream(nt, 1), data.MapDataPipe)
    for make in (data.IterDataPipe, data.DFIterDataPipe, data.MapDataPipe, lambda: data.functional_datapipe("map")):
        with pytest.raises(NotImplementedError, match=r"[Ii]terableDataset"):
            make()
    with pytest.raises(NotImplementedError, match="IterDataPipe"):
        type("Pipe", (data.IterDataPipe,), {})


@pytest.mark.parametrize("dimension, scramble, seed", [(1, False, None), (5, False, None), (1, True, 3), (40, True, 7)])
def test_sobol_points(dimension, scramble, seed):
    drawn, texts = [], []
    for module in (nt, torch):
        engine = module.quasirandom.SobolEngine(dimension, scramble, seed)
        parts = [engine.draw(1), engine.draw(7), engine.fast_forward(3).draw(4, dtype=module.float64)]
        parts += [engine.quasi, engine.shift, engine.sobolstate, engine.reset().draw_base2(3)]
        parts += [engine.reset().fast_forward(5).draw(2), engine.draw(out=module.empty(0))]
        drawn.append([(str(part.dtype), part.tolist()) for part in parts])
        texts.append(repr(engine))
        texts.append([outcome(lambda m, engine=engine: engine.draw_base2(4), module), engine.num_generated])
        for wrong in (0, 21202):
            texts.append(outcome(lambda m, wrong=wrong: m.quasirandom.SobolEngine(wrong), module))
    assert drawn[0] == drawn[1]
    assert texts[:4] == texts[4:]


def test_sobol_draws_from_the_default_generator():
    drawn = []
    for module in (nt, torch):
        module.manual_seed(4)
        drawn.append(module.quasirandom.SobolEngine(3, scramble=True).draw(5).tolist() + module.rand(3).tolist())
    assert drawn[0] == drawn[1]


def test_dlpack():
    for module in (nt, torch):
        from_dlpack, x = module.utils.dlpack.from_dlpack, module.arange(3.0)
        assert from_dlpack(x).data_ptr() == x.data_ptr() == from_dlpack(x, copy=False, device="cpu").data_ptr()
        assert from_dlpack(x, copy=True).data_ptr() != x.data_ptr()
        with pytest.raises(AssertionError, match="device and copy kwargs not supported"):
            from_dlpack(x.__dlpack__(), copy=True)
        assert module.from_dlpack(np.arange(3)).tolist() == [0, 1, 2]
        with pytest.raises(BufferError, match="Can't export tensors that require gradient"):
            from_dlpack(x.requires_grad_())
    mine, theirs = nt.utils.dlpack.DLDeviceType, torch.utils.dlpack.DLDeviceType
    assert {name: int(value) for name, value in theirs.__members__.items()} == dict(mine.__members__)


def test_handles_of_hooks():
    for module in (nt, torch):
        hooks, extra = OrderedDict(), OrderedDict()
        handle = module.utils.hooks.RemovableHandle(hooks, extra_dict=extra)
        hooks[handle.id] = extra[handle.id] = 1
        again = pickle.loads(pickle.dumps(handle))
        assert again.id == handle.id and again.hooks_dict_ref is not None
        handle.remove()
        assert not hooks and not extra
        handle.remove()
        del hooks
        handle.remove()


def test_backward_hook_and_warning_of_hooks():
    seen = []
    for module in (nt, torch):
        linear, mine = module.nn.Linear(2, 1), []
        module.nn.init.constant_(linear.weight, 0.5)
        hook = module.utils.hooks.BackwardHook(
            linear,
            [lambda m, given, got, mine=mine: mine.append((given[0].tolist(), got[0].tolist()))],
            [lambda m, got, mine=mine: mine.append(got[0].tolist())],
        )
        x = module.ones(3, 2, requires_grad=True)
        arguments = hook.setup_input_hook((x,))
        hook.setup_output_hook(linear(*arguments)).sum().backward()
        seen.append((mine, x.grad.tolist()))
        x.register_hook(print)
        with pytest.warns(UserWarning, match="backward hook <built-in function print> on tensor will not be"):
            module.utils.hooks.warn_if_has_hooks(x)
        marked = module.utils.hooks.unserializable_hook(lambda grad: grad)
        assert marked.__torch_unserializable__ is True
    assert seen[0] == seen[1]


def test_small_names():
    for module in (nt, torch):
        pytree, checkpoint = module.utils._pytree, module.utils.checkpoint
        assert pytree.PyTreeSpec is pytree.TreeSpec and pytree.is_namedtuple_instance(Point(1, 2))
        assert not pytree.is_namedtuple_instance((1, 2)) and not pytree.is_structseq_class(Point)
        assert pytree.is_structseq_instance(module.ones(2).max(0)) and not pytree.is_structseq_instance((1,))
        assert checkpoint.get_device_states(module.ones(2)) == ([], [])
        checkpoint.set_device_states([], [])

        class Thing:
            pass

        module.utils.set_module(Thing, "elsewhere")
        assert Thing.__module__ == "elsewhere"
        with pytest.raises(TypeError, match="The mod argument should be a string"):
            module.utils.set_module(Thing, 3)
    assert nt.utils.model_zoo.load_url is nt.hub.load_state_dict_from_url
