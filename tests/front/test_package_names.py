"""Names that packages take from PyTorch's corners, and what they do with them."""

import gc
from collections import UserDict, namedtuple
from importlib import import_module
from types import MappingProxyType

import narthex as nt
import numpy as np
import pytest
import torch

BOTH = (nt, torch)


def test_types_without_constructor():
    for m in BOTH:
        for name in ("Value", "Node", "Block", "AliasDb"):
            assert getattr(m, name) is getattr(m._C, name) and not isinstance(3, getattr(m._C, name))
            with pytest.raises(TypeError, match=f"torch._C.{name}: No constructor defined!"):
                getattr(m._C, name)()
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = nt._C.nothing


def test_how_it_was_built():
    for m in BOTH:
        assert "LAPACK is enabled" in m.__config__.show() and "CPU capability usage" in m.__config__.show()
        assert "get_num_threads() : " in m.__config__.parallel_info()
        assert m.__future__.get_swap_module_params_on_conversion() is False
    with pytest.raises(NotImplementedError, match="parameters stay the same objects"):
        nt.__future__.set_swap_module_params_on_conversion(True)


def test_places_of_layers():
    for m in BOTH:
        places = m.nn.modules
        assert places.instancenorm.InstanceNorm2d is m.nn.InstanceNorm2d
        assert issubclass(m.nn.InstanceNorm2d, places.instancenorm._InstanceNorm)
        assert places.distance.CosineSimilarity is m.nn.CosineSimilarity and places.fold.Unfold is m.nn.Unfold
        assert places.padding.ZeroPad2d is m.nn.ZeroPad2d and places.flatten.Flatten is m.nn.Flatten
        assert m.functional.tensordot is m.tensordot and m.functional.einsum is m.einsum


def test_hidden_dimensions():
    import narthex._C._functorch as ours

    assert ours is nt._C._functorch and ours.maybe_get_bdim(nt.ones(2)) == -1
    assert nt.vmap(lambda x: nt.tensor(ours.is_batchedtensor(x)))(nt.ones(3)).tolist() == [True] * 3
    with pytest.raises(RuntimeError, match="level 1 is not open"):
        ours._add_batch_dim(nt.ones(2), 0, 1)


def test_seeds_of_workers():
    from narthex.utils.data._utils.worker import _generate_state as ours
    from torch.utils.data._utils.worker import _generate_state as theirs

    assert ours(123456789012345, 3) == theirs(123456789012345, 3)


@pytest.mark.parametrize("kind", ["Key", "Id"])
def test_weak_dictionaries(kind):
    for m in BOTH:
        weak = m.utils.weak
        made = weak.WeakIdKeyDictionary() if kind == "Id" else weak.WeakTensorKeyDictionary()
        a, b = m.ones(2), m.ones(2)
        made[a], made[b] = 1, 2
        assert made[a] == 1 and made[b] == 2 and len(made) == 2 and m.ones(2) not in made
        assert {id(key) for key in made} == {id(a), id(b)} and dict(made.copy().items()).__len__() == 2
        assert (made | {a: 5})[a] == 5 and made.pop(b) == 2 and b not in made
        del a
        gc.collect()
        assert len(made) == 0 and not made
        reference = weak.TensorWeakRef(b)
        assert reference() is b and weak.WeakIdRef(b) == weak.WeakIdRef(b)
        del b
        gc.collect()
        assert reference() is None
        with pytest.raises(AssertionError, match="expected torch.Tensor"):
            weak.TensorWeakRef(3)


PUTS = {
    "element": lambda m, a: a.__setitem__(0, 1 + 2j),
    "places": lambda m, a: a.__setitem__(m.tensor([1, 2]), 3j),
    "mask": lambda m, a: a.__setitem__(a.real >= 0, 1 - 1j),
    "slice": lambda m, a: a.__setitem__(slice(1, 3), 2j),
    "numpy": lambda m, a: a.__setitem__(1, np.int64(2)),
}


@pytest.mark.parametrize("name", PUTS)
@pytest.mark.parametrize("dtype", ["complex64", "complex128", "float32"])
def test_numbers_are_put_into_tensors(name, dtype):
    found = []
    for m in BOTH:
        x = m.zeros(4, dtype=getattr(m, dtype))
        try:
            PUTS[name](m, x)
        except RuntimeError as error:
            found.append(str(error).rpartition("value cannot be")[2])
        found.append(x.tolist())
    half = len(found) // 2
    assert found[:half] == found[half:]
    for m in BOTH:
        with pytest.raises(TypeError, match="can't assign a str to a "):
            m.zeros(2)[0] = "x"


def test_einsum_by_lists_of_subscripts():
    for m in BOTH:
        x, y = m.arange(6.0).reshape(2, 3), m.arange(12.0).reshape(3, 4)
        assert m.equal(m.einsum(x, [0, 1], y, [1, 2], [0, 2]), x @ y)
        assert m.equal(m.einsum(x, [0, 27], y, [27, 2]), x @ y)
        assert m.equal(m.einsum(x, [..., 0], [0, ...]), x.t())
        with pytest.raises(ValueError, match="not within the valid range"):
            m.einsum(x, [0, 52], [0])
        with pytest.raises(ValueError, match="must specify the equation string"):
            m.einsum("ij")


def test_operators_under_other_names():
    for m in BOTH:
        with pytest.raises(RuntimeError, match="Cannot access accelerator device when none is available."):
            m.ops.aten._pin_memory(m.ones(2))
        x = m.arange(4.0).reshape(2, 2)
        assert m.equal(m.ops.aten._sparse_addmm(x, x, x, beta=2, alpha=3), 2 * x + 3 * (x @ x))


def test_parameters_made_by_a_class_of_their_own():
    for m in BOTH:

        class Weighed(m.nn.Parameter):
            def __new__(cls, data, weight=None, requires_grad=True):
                made = m.Tensor._make_subclass(cls, data, requires_grad)  # noqa: B023
                made.weight = weight
                return made

        made = Weighed(m.ones(2), weight=3)
        assert made.weight == 3 and made.requires_grad and isinstance(made, m.nn.Parameter)
        with pytest.raises(TypeError):
            m.nn.Parameter(m.ones(2), weight=3)


def test_settings_of_backends():
    for m in BOTH:
        assert m.backends.flags_frozen() in (False, m is torch)  # PyTorch's own tests freeze its flags for the process
        with getattr(m.backends, "__allow_nonbracketed_mutation")():
            before, m.backends.cudnn.benchmark = m.backends.cudnn.benchmark, False
            assert m.backends.cudnn.benchmark is False
            m.backends.cudnn.benchmark = before


def test_attributes_of_classes_beside_tensors():
    for m in BOTH:

        class Noted:
            pass

        class Both(Noted, m.Tensor):
            pass

        x = m.ones(2).as_subclass(Both)
        x.note = 3
        assert hasattr(x, "__dict__") and x.__dict__ == {"note": 3} and m.ones(2).__dict__ == {}
        x.__dict__ = {"note": 4}
        assert x.note == 4


def test_extensions_in_cpp_are_names_until_they_are_built():
    extensions = import_module("narthex.utils.cpp_extension")
    theirs = import_module("torch.utils.cpp_extension")
    assert sorted(extensions.__all__) == sorted(theirs.__all__)
    for name in ("CUDA_HOME", "ROCM_HOME", "IS_HIP_EXTENSION", "IS_WINDOWS", "IS_LINUX"):
        assert getattr(extensions, name) in (getattr(theirs, name), None)
    assert extensions.BuildExtension.with_options(use_ninja=False) is extensions.BuildExtension
    built = (
        extensions.BuildExtension, lambda: extensions.load("x", ["x.cpp"]), lambda: extensions.load_inline("x", ""),
        lambda: extensions.CppExtension("x", ["x.cpp"]), lambda: extensions.CUDAExtension("x", ["x.cu"]),
        lambda: extensions.SyclExtension("x", ["x.sycl"]), extensions.include_paths, extensions.library_paths,
    )  # fmt: skip
    for call in built:
        with pytest.raises(NotImplementedError, match=r"cpp_extension\.\w+ is not there.*torch\.library\.custom_op"):
            call()
    for name in ("check_compiler_is_gcc", "check_compiler_ok_for_platform"):
        for compiler in ("c++", "no-such-compiler"):
            try:
                expected = getattr(theirs, name)(compiler)
            except Exception:
                expected = False
            assert getattr(extensions, name)(compiler) is expected
    assert extensions.get_cxx_compiler() == theirs.get_cxx_compiler()
    mine, other = (m.get_compiler_abi_compatibility_and_version("c++") for m in (extensions, theirs))
    assert (mine[0], str(mine[1])) == (other[0], str(other[1]))
    assert extensions.is_ninja_available() is theirs.is_ninja_available()


def test_marks_for_a_profiler_of_cuda():
    for m in BOTH:
        nvtx = m.cuda.nvtx
        for name, arguments in (("range_push", "a"), ("range_pop", ""), ("mark", "a")):
            with pytest.raises(RuntimeError, match="NVTX functions not installed"):
                getattr(nvtx, name)(*arguments)
        with pytest.raises(RuntimeError, match="NVTX functions not installed"), nvtx.range("a"):
            pass


def test_questions_about_triton():
    mine, theirs = (import_module(f"{m.__name__}.utils._triton") for m in BOTH)
    for name in [name for name in dir(theirs) if name.startswith("has_")]:
        assert getattr(mine, name)() is getattr(theirs, name)(), name


def test_keys_of_dispatch():
    for m in BOTH:
        key, keys = m._C.DispatchKey, m._C.DispatchKeySet
        made = keys(key.AutocastCPU) | keys(key.CPU)
        assert repr(made) == "DispatchKeySet(CPU, AutocastCPU)" and str(key.CPU) == "DispatchKey.CPU"
        assert made.has(key.CPU) and made == keys(key.CPU).add(key.AutocastCPU) and m.DispatchKey is key
        assert not made.remove(key.AutocastCPU).has(key.AutocastCPU) and made & keys(key.AutocastCPU) != made
        x = m.ones(2, 2)
        with m.autocast("cpu", dtype=m.bfloat16):
            assert (x @ x).dtype == m.bfloat16
            with m._C._ExcludeDispatchKeyGuard(keys(key.AutocastCPU)):
                assert (x @ x).dtype == m.float32
            assert (x @ x).dtype == m.bfloat16
    names = [name for name in torch._C.DispatchKey.__members__ if not name.startswith(("EndOf", "StartOf"))]
    assert set(names) == set(nt._C.DispatchKey.__members__)
    with pytest.raises(NotImplementedError, match="autocast's keys alone"):
        nt._C._ExcludeDispatchKeyGuard(nt._C.DispatchKeySet(nt.DispatchKey.CPU))


def test_marks_of_quantised_networks():
    for m in BOTH:
        quantization = import_module(f"{m.__name__}.ao.quantization")
        wrapped, x = quantization.QuantWrapper(m.nn.Linear(2, 2)), m.ones(2)
        assert m.equal(wrapped(x), wrapped.module(x)) and repr(quantization.QuantStub()) == "QuantStub()"
        assert [name for name, _ in wrapped.named_children()] == ["quant", "dequant", "module"]
    with pytest.raises(NotImplementedError, match="models compute in floats"):
        nt.ao.quantization.prepare(nt.nn.Linear(2, 2))


def test_both_norms_by_channels_are_of_one_kind_and_not_of_each_others():
    for m in BOTH:
        kinds = m.nn.modules.batchnorm
        batch, instance = m.nn.BatchNorm2d(3), m.nn.InstanceNorm2d(3)
        assert isinstance(batch, kinds._BatchNorm) and not isinstance(instance, kinds._BatchNorm)
        assert isinstance(batch, kinds._NormBase) and isinstance(instance, kinds._NormBase)
        made = m.nn.SyncBatchNorm.convert_sync_batchnorm(m.nn.Sequential(batch, instance))
        assert [type(layer).__name__ for layer in made] == ["SyncBatchNorm", "InstanceNorm2d"]

        class Any(m.nn.BatchNorm2d):
            def _check_input_dim(self, input):
                pass

        assert Any(3)(m.ones(4, 3)).shape == (4, 3)
        with pytest.raises(ValueError, match=r"expected 4D input \(got 2D input\)"):
            batch(m.ones(4, 3))


def test_wraps_of_a_compiled_function():
    from functools import wraps

    for m in BOTH:

        def f(x):
            "Twice."
            return 2 * x

        def other(x):
            return x

        made = m.compile(f, backend="eager")
        assert made.__wrapped__ is f
        named = wraps(other)(made)
        assert named is made and named.__wrapped__ is other and named.__name__ == "other"
        assert m.equal(named(m.ones(2)), 2 * m.ones(2))


def test_attention_whose_projection_has_another_width():
    for m in BOTH:
        m.manual_seed(0)
        x, weight = m.randn(5, 2, 8), m.randn(6, 8)
        found, _ = m.nn.functional.multi_head_attention_forward(
            x, x, x, 8, 2, None, m.zeros(24), None, None, False, 0.0, weight, m.zeros(6), use_separate_proj_weight=True,
            q_proj_weight=m.eye(8), k_proj_weight=m.eye(8), v_proj_weight=m.eye(8), need_weights=False,
        )  # fmt: skip
        assert found.shape == (5, 2, 6)


def test_names_for_annotations_and_imports():
    for m in BOTH:
        annotations = import_module(f"{m.__name__}.jit.annotations")
        assert annotations.BroadcastingList2[int] is None and isinstance(m.TensorType, type)
        assert m.backends.cpu.get_cpu_capability() in ("DEFAULT", "AVX2", "AVX512")
        assert callable(m.hub.tqdm) and m.hub.tqdm is import_module(f"{m.__name__}.utils.model_zoo").tqdm
        assert import_module(f"{m.__name__}._dynamo.utils").is_compile_supported("cpu") is True
        node = import_module(f"{m.__name__}.fx.node")
        assert node.Target is not None and node.Argument is not None
        graphs = import_module(f"{m.__name__}.fx.graph_module")
        copied, net = m.nn.Module(), m.nn.Sequential(m.nn.Sequential(m.nn.Linear(2, 2)))
        graphs._copy_attr(net, copied, "0.0")
        assert copied.get_submodule("0.0") is net[0][0]
        assert graphs._CodeOnlyModule({"a": 3}).a == 3
    assert nt.onnx.register_custom_op_symbolic("a::b", None, 11) is None
    with pytest.raises(ValueError, match="a::b::c"):
        nt.onnx.register_custom_op_symbolic("a::b::c", None, 11)


def test_types_that_stand_in_two_places():
    for m in BOTH:
        assert m.nn.modules.activation.MultiheadAttention is m.nn.MultiheadAttention
        assert m.cuda.default_generators == ()
        options = import_module(f"{m.__name__}.optim.optimizer").ParamsT
        assert [str(kind).split(".")[2][:8] for kind in options.__args__] == ["Iterable"] * 3


def test_options_of_printing_for_a_while():
    texts = []
    for m in BOTH:
        x, tools = m.tensor([1.23456789, 0.5]), import_module(f"{m.__name__}._tensor_str")
        with pytest.raises(ZeroDivisionError), tools.printoptions(precision=2, sci_mode=True):
            inside = str(x)
            _ = 1 / 0
        texts.append((inside, str(x)))
    assert texts[0] == texts[1]


class _Pinned:
    """Says that it was pinned."""

    def __init__(self, is_pinned: bool = False) -> None:
        self.is_pinned = is_pinned

    def pin_memory(self):
        return _Pinned(True)


class _Sizes(UserDict):
    extra = 3


def test_pinned_batches():
    Pair = namedtuple("Pair", "a b")
    for m in BOTH:
        pin = import_module(f"{m.__name__}.utils.data._utils.pin_memory").pin_memory
        assert pin(_Pinned()).is_pinned and pin("text") == "text" and pin(3) == 3 and pin(range(2)) == [0, 1]
        pair = pin(Pair(_Pinned(), [_Pinned(), 1]))
        assert type(pair) is Pair and pair.a.is_pinned and pair.b[0].is_pinned and pair.b[1] == 1
        given = _Sizes(a=_Pinned())
        found = pin(given)
        assert type(found) is _Sizes and found["a"].is_pinned and not given["a"].is_pinned
        assert type(pin(MappingProxyType({"a": _Pinned()}))) is MappingProxyType and pin((_Pinned(),))[0].is_pinned
        with pytest.raises(RuntimeError, match="Cannot access accelerator device when none is available"):
            pin([m.ones(1)])


def test_reductions_and_maps_of_before():
    for m in BOTH:
        name = m.__name__
        reduction = import_module(f"{name}.nn._reduction")
        assert [reduction.get_enum(each) for each in ("none", "mean", "sum")] == [0, 1, 2]
        with pytest.raises(ValueError, match="x is not a valid value for reduction"):
            reduction.get_enum("x")
        with pytest.warns(UserWarning, match="reduction='elementwise_mean' is deprecated"):
            assert reduction.get_enum("elementwise_mean") == 1
        with pytest.warns(UserWarning, match="please use reduction='sum' instead"):
            assert reduction.legacy_get_enum(False, None) == 2
        with pytest.warns(UserWarning, match="please use reduction='none' instead"):
            m.nn.functional.mse_loss(m.ones(2), m.ones(2), reduce=False)
        assert reduction.legacy_get_string(False, False, emit_warning=False) == "none"
        maps = import_module(f"{name}._vmap_internals")
        both = maps._vmap(lambda x: (x * 2, None), 0, (0, 0), allow_none_pass_through=True)(m.ones(3))
        assert both[0].tolist() == [2] * 3 and both[1] is None
        with pytest.raises(ValueError, match="must only return Tensors"):
            maps._vmap(lambda x: (x, None))(m.ones(3))
        with pytest.warns(FutureWarning, match="use `torch.vmap`"):
            assert maps.vmap(lambda x: x + 1, out_dims=0)(m.zeros(2)).tolist() == [1, 1]
        assert m.cuda._initialized is False
        assert not isinstance(3, import_module(f"{name}.distributed._tensor").DTensor)
        assert import_module(f"{name}.distributed._composable.fsdp").fully_shard
        assert m.utils.data.dataloader._collate_fn_t and m.utils.data.dataloader._worker_init_fn_t
        how = import_module(f"{name}.distributed").ReduceOp
        assert how.SUM != how.MAX and import_module(f"{name}.distributed.nn").ReduceOp is how


def test_pieces_of_jacobians_and_searches():
    found = []
    for m in BOTH:
        f = m.autograd.functional
        x = m.ones(2, requires_grad=True)
        basis = f._construct_standard_basis_for((m.ones(2), m.ones(3, dtype=m.float64)), (2, 3))
        with pytest.raises(AssertionError, match="Expected at least one tensor"):
            f._construct_standard_basis_for((), ())
        assert f._as_tuple(x)[0] is x and f._as_tuple([3]) == f._as_tuple(3) == (3,) and f._as_tuple((x,))[0] is x
        assert f._as_tuple((x,), "inputs", "vjp")[0] is True and f._as_tuple(x, "inputs", "vjp")[1][0] is x
        with pytest.raises(TypeError, match="The inputs given to vjp must be either a Tensor or a tuple of Tensors"):
            f._as_tuple([x], "inputs", "vjp")
        rows = ((x, x * 2), (x * 3,))
        assert f._tuple_postprocess(rows, (False, True)) is rows[0] and f._tuple_postprocess((x,), False) is x
        assert f._tuple_postprocess(rows, (True, False))[1] is rows[1][0]
        assert not f._grad_postprocess(rows, False)[0][1].requires_grad
        assert f._grad_postprocess(rows, True)[0][1] is rows[0][1]
        place = import_module(f"{m.__name__}.optim.lbfgs")
        start, along = m.tensor([1.0, 2.0]), m.tensor([-1.0, -1.0])
        at = lambda x, t, d: (float(((x + t * d) ** 2).sum()), 2 * (x + t * d))  # noqa: E731
        value, grad = at(start, 0, along)
        ends = [place._strong_wolfe(at, start, t, along, value, grad, grad.dot(along)) for t in (0.1, 1.0, 10.0)]
        least = float(place._cubic_interpolate(0.0, 1.0, m.tensor(-2.0), 1.0, 0.5, m.tensor(1.0)))
        scale = import_module(f"{m.__name__}.distributions.multivariate_normal")._precision_to_scale_tril
        tril = scale(m.tensor([[2.0, 0.5], [0.5, 1.0]]))
        found.append([[(b.dtype.itemsize, b.tolist()) for b in basis], least, tril.tolist(),
                      [(e[0], e[1].tolist(), float(e[2]), e[3]) for e in ends]])  # fmt: skip
    assert found[0][0] == found[1][0] and found[0][1] == pytest.approx(found[1][1])
    assert found[0][2] == found[1][2] and found[0][3] == found[1][3]


def test_a_class_of_tensors_that_are_parameters():
    for m in BOTH:

        class Pose(m.Tensor):
            pass

        made = m.ones(2).as_subclass(Pose).requires_grad_()
        assert not isinstance(made, m.nn.Parameter)
        made._is_param = True
        layer = m.nn.Module()
        layer.pose = made
        assert isinstance(made, m.nn.Parameter) and dict(layer.named_parameters())["pose"] is made
    with pytest.raises(AttributeError, match="_is_param cannot be deleted"):
        del nt.ones(1)._is_param


def test_hooks_of_all_modules_are_seen():
    for m in BOTH:
        module = import_module(f"{m.__name__}.nn.modules.module")
        handle = module.register_module_parameter_registration_hook(lambda *args: None)
        assert list(module._global_parameter_registration_hooks) == [handle.id]
        handle.remove()
        kinds = ("buffer_registration", "module_registration", "forward_pre", "forward", "backward_pre", "backward")
        assert not any(getattr(module, f"_global_{kind}_hooks") for kind in kinds)


def test_steps_of_a_map_are_a_packages_own():
    """A package maps over boxes of its own by putting its steps into torch._functorch.vmap."""
    for m in BOTH:
        steps = import_module(f"{m.__name__}._functorch.vmap")
        names = ("_process_batched_inputs", "_create_batched_inputs", "_unwrap_batched")
        before = [getattr(steps, name) for name in names]

        class Box:
            def __init__(self, inside):
                self.inside = inside

        def process(in_dims, args, func):
            return len(args[0].inside), [0], list(args), None

        def create(dims, args, level, spec, steps=steps):
            return tuple(Box(steps._add_batch_dim(box.inside, dim, level)) for dim, box in zip(dims, args))

        def unwrap(outputs, out_dims, level, n, func, steps=steps):
            return Box(steps._remove_batch_dim(outputs.inside, level, n, 0))

        double = m.vmap(lambda box: Box(box.inside * 2 + box.inside.sum()))
        plain = m.vmap(lambda x: x.sum())
        try:
            for name, own in zip(names, (process, create, unwrap)):
                setattr(steps, name, own)
            assert double(Box(m.ones(3, 2))).inside.tolist() == [[4.0, 4.0]] * 3
        finally:
            for name, own in zip(names, before):
                setattr(steps, name, own)
        assert plain(m.ones(3, 2)).tolist() == [2.0] * 3


def test_names_of_cuda():
    for m in BOTH:
        assert not isinstance(m.ones(1), m.cuda.FloatTensor) and m.cuda.LongTensor is m.cuda.LongTensor
        with pytest.raises(TypeError, match="type torch.cuda.FloatTensor not available"):
            m.cuda.FloatTensor(2)
        with pytest.raises(RuntimeError):
            m.ones(1).type("torch.cuda.HalfTensor")
        memory, random, comm = (import_module(f"{m.__name__}.cuda.{name}") for name in ("memory", "random", "comm"))
        assert memory.memory_allocated() == 0 and random.manual_seed(1) is None and random.seed() is None
        assert comm.broadcast is import_module(f"{m.__name__}.nn.parallel.comm").broadcast
        for name in ("replicate", "parallel_apply"):  # functions, and modules of the same names
            module = import_module(f"{m.__name__}.nn.parallel.{name}")
            assert getattr(module, name) is getattr(m.nn.parallel, name)
        with pytest.raises(Exception, match="CUDA"):
            random.initial_seed()

        class Double(m.autograd.Function):
            @staticmethod
            @m.cuda.amp.custom_fwd
            def forward(ctx, x):
                return x * 2

            @staticmethod
            @m.cuda.amp.custom_bwd
            def backward(ctx, g):
                return g * 2

        x = m.ones(2, requires_grad=True)
        Double.apply(x).sum().backward()
        assert x.grad.tolist() == [2.0, 2.0]


def test_functions_below_c():
    for m in BOTH:
        assert m._C._nn.linear(m.ones(1, 2), m.ones(3, 2)).tolist() == [[2.0] * 3]
        assert m._C._linalg.linalg_det(m.eye(2)).item() == 1 and m._C._special.special_erf(m.zeros(1)).item() == 0
        mapped = import_module(f"{m.__name__}._functorch.apis").chunk_vmap(lambda x: x.sum(), chunks=2)
        assert mapped(m.ones(5, 2)).tolist() == [2.0] * 5


def test_everything_imported():
    for m in BOTH:
        names = {}
        exec(f"from {m.__name__} import *", names)
        assert {"tensor", "randn", "float32", "Tensor", "no_grad"} <= set(names) and "nn" not in names


def test_gradients_of_each_sample():
    found = []
    for m in BOTH:
        call = import_module(f"{m.__name__}.nn.utils._per_sample_grad").call_for_per_sample_grads
        m.manual_seed(0)
        layers = [m.nn.Conv2d(2, 3, 3), m.nn.GroupNorm(3, 3), m.nn.ReLU(), m.nn.Flatten(), m.nn.Linear(12, 2)]
        net, x = m.nn.Sequential(*layers), m.randn(5, 2, 4, 4)
        for reduction in ("sum", "mean"):
            getattr(call(net, loss_reduction=reduction)(x).square(), reduction)().backward()
            found.append([p.grad_sample.detach().numpy() for p in net.parameters()])
            assert all(p.grad is None for p in net.parameters())
            with pytest.raises(RuntimeError, match="clear out the grad_sample"):
                call(net)
            for p in net.parameters():
                p.grad_sample = None
        embedding = m.nn.Embedding(7, 3)
        call(embedding)(m.tensor([[1, 2], [1, 1]])).sum().backward()
        assert embedding.weight.grad_sample.sum(2)[:, 1].tolist() == [3.0, 6.0]
        for wrong in ({"batch_size": 0}, {"batch_size": "a"}, {"loss_reduction": "max"}):
            with pytest.raises(RuntimeError):
                call(net, **wrong)
        with pytest.raises(RuntimeError, match="Unable to find a tensor"):
            call(m.nn.Linear(2, 2))(3)
    for ours, theirs in zip(found[:2], found[2:]):
        for mine, other in zip(ours, theirs):
            np.testing.assert_allclose(mine, other, rtol=1e-4, atol=1e-5)


def test_settings_of_scripts_and_of_processes():
    for m in BOTH:
        for name, other, first in (("profiling_executor", False, True), ("num_profiled_runs", 2, 1)):
            set_ = getattr(m._C, f"_jit_set_{name}")
            assert set_(other) == first and set_(first) == other
        m._C._jit_set_inline_everything_mode(True)
        assert m._C._jit_get_inline_everything_mode() and m._C._jit_set_texpr_fuser_enabled(True) is None
        m._C._jit_set_inline_everything_mode(False)
        seen = []
        m.jit.trace(lambda x, m=m, seen=seen: seen.append(m._C._is_tracing()) or x + 1, m.ones(2), check_trace=False)
        assert seen == [True] and not m._C._is_tracing()
        conv = import_module(f"{m.__name__}.nn.modules.conv")
        assert issubclass(conv.ConvTranspose2d, conv._ConvTransposeNd) and conv._ConvTransposeMixin.__mro__[2:]
        assert not isinstance(m.nn.Conv2d(1, 1, 1), (conv._ConvTransposeNd, conv._ConvTransposeMixin))
        assert hasattr(import_module(f"{m.__name__}.distributed.fsdp.api"), "LocalStateDictConfig")
    assert import_module("narthex.distributed.rpc").is_available() is False
    with pytest.raises(AttributeError, match="_jit_set_nothing"):
        nt._C._jit_set_nothing  # noqa: B018
