"""Names that few programs use: FileCheck, rearrange, schemas, settings, what torch.serialization has beside save and
load."""

from __future__ import annotations

import io
import os
import types
import zipfile
from typing import Any

import narthex as nt
import narthex.serialization
import pytest
import torch
import torch.serialization
from both import LIBS, both, close, same


# ---- FileCheck -----------------------------------------------------------------------------------------------------
def file_check(lib: Any) -> Any:
    if lib is nt:
        from narthex.testing import FileCheck
    else:
        from torch.testing import FileCheck
    return FileCheck()


CHECKS = [
    (lambda f: f.check("a").check("b"), "a b"), (lambda f: f.check("a").check("b"), "b a"),
    (lambda f: f.check_count("a", 2, exactly=True), "a a"), (lambda f: f.check_count("a", 2, exactly=True), "a a a"),
    (lambda f: f.check_count("a", 2), "a a a"), (lambda f: f.check_count("a", 4), "a a a"),
    (lambda f: f.check_not("a"), "xay"), (lambda f: f.check_not("a"), "xy"), (lambda f: f.check_not("a").check("b"),
    "ba"),
    (lambda f: f.check_not("a").check("b"), "ab"), (lambda f: f.check("x").check_not("a").check("b"), "axb"),
    (lambda f: f.check("a").check_same("b"), "a\nb"), (lambda f: f.check("a").check_same("b"), "a  b"),
    (lambda f: f.check("a").check_next("b"), "a\nb"), (lambda f: f.check("a").check_next("b"), "a\nx\nb"),
    (lambda f: f.check("a").check_next("b"), "a b"), (lambda f: f.check_regex("a[0-9]+b"), "xa12b"),
    (lambda f: f.check_regex("a[0-9]+b"), "a12c"), (lambda f: f.check_dag("a").check_dag("b").check_not("c"), "b a"),
    (lambda f: f.check_dag("a").check_dag("q"), "b a"), (lambda f: f.check_dag("a").check_dag("b").check("c"), "c b a"),
    (lambda f: f.check_dag("a").check_dag("b").check("c"), "b a c"), (lambda f: f, "x"),
    (lambda f: f.check_dag("a").check_dag("b").check_not("c").check("d"), "b c a d"),
    (lambda f: f.check_dag("a").check_dag("b").check_not("c").check("d"), "b a c d"),
    (lambda f: f.check_source_highlighted("foo"), "x foo y\n  ~~~\n"),
    (lambda f: f.check_source_highlighted("foo"), "x foo y\n  ~~\n"),
]  # fmt: skip


@pytest.mark.parametrize("k", range(len(CHECKS)))
def test_file_check(k: int) -> None:
    build, text = CHECKS[k]
    mine, theirs = both(lambda lib: build(file_check(lib)).run(text))
    assert type(mine) is type(theirs), (mine, theirs)
    if "Expected" in str(theirs):
        assert str(mine).split("\n")[0] == str(theirs).split("\n")[0]


def test_file_check_of_a_text() -> None:
    source = "# CHECK: one\n  # CHECK-NEXT: two\n# CHECK-NOT: bad\n# CHECK-DAG: x\n# CHECK-DAG: y\n# CHECK-COUNT-2: z\n"
    good, bad = "one\ntwo\ny x\nz z", "one\ntwo\nbad\ny x\nz z"
    for lib in LIBS:
        file_check(lib).run(source, good)
        with pytest.raises(RuntimeError, match="Expected to not find"):
            file_check(lib).run(source, bad)
        with pytest.raises(RuntimeError, match='Expected to not find "z"'):
            file_check(lib).run("# CHECK-COUNT-EXACTLY-1: z\n", good)


# ---- func ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("size, pattern, sizes", [
    ((2, 3), "a b -> b a", {}), ((2, 3), "a b -> (b a)", {}), ((6, 4), "(a b) c -> b (a c)", {"a": 2}),
    ((2, 3, 4, 5), "b ... c -> c ... b", {}), ((2, 3, 4, 5), "b h w c -> b c h w", {}), ((2, 1, 3), "a 1 b -> b a", {}),
    ((4, 6, 3), "(h a) (w b) c -> (h w) (a b c)", {"a": 2, "b": 3}), ((3,), "a -> a", {}), ((2, 3, 4),
    "... a -> a ...", {}),
    ((2, 3), "a b -> a c", {}), ((2, 3), "a b c -> a b c", {}), ((6,), "(a b) -> a b", {"a": 4}), ((2, 3), "a a -> a",
    {}),
    ((2, 3), "(a b -> a b", {}), ((6, 2), "(a b) c -> a b c", {}), ((2, 3), "a b", {}),
])  # fmt: skip
def test_rearrange(size: tuple, pattern: str, sizes: dict) -> None:
    n = 1
    for one in size:
        n *= one
    mine, theirs = both(lambda lib: lib.func.rearrange(lib.arange(n).view(size), pattern, **sizes))
    if isinstance(theirs, Exception):
        assert isinstance(mine, (ValueError, RuntimeError)), (mine, theirs)
    else:
        same(mine, theirs)


def test_rearrange_stacks_and_differentiates() -> None:
    x = nt.randn(2, 6, requires_grad=True)
    nt.func.rearrange(x, "a (b c) -> c (a b)", b=3).sin().sum().backward()
    close(x.grad, torch.from_dlpack(x.detach()).cos())
    mine, theirs = both(lambda lib: lib.func.rearrange([lib.ones(3), lib.zeros(3)], "a b -> b a"))
    same(mine, theirs)
    assert nt.func.debug_unwrap(x) is x


# ---- schemas -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["add_.Tensor", "add.out", "split.Tensor", "index_put_.default", "addmm.default",
                                  "max.dim", "arange.start_step", "transpose.int", "cat.default",
                                  "convolution.default"])  # fmt: skip
def test_schemas(name: str) -> None:
    packet, _, overload = name.partition(".")
    found = []
    for lib in LIBS:
        schema = getattr(getattr(lib.ops.aten, packet), overload)._schema
        marks = [(a.name, a.kwarg_only, a.is_out, a.has_default_value(),
                  a.alias_info and (a.alias_info.is_write,
                  a.alias_info.before_set)) for a in schema.arguments]  # fmt: skip
        found.append((schema.name, schema.overload_name, schema.is_mutable, marks, len(schema.returns), str(schema)))
    assert found[0] == found[1]
    assert (
        isinstance(nt.parse_schema(found[1][-1]), nt.FunctionSchema)
        and nt.parse_schema(found[1][-1]).name == found[1][0]
    )
    with pytest.raises(RuntimeError):
        nt.parse_schema("no schema")


# ---- settings ------------------------------------------------------------------------------------------------------
def test_settings() -> None:
    for lib in LIBS:
        assert lib.get_autocast_cpu_dtype() is lib.bfloat16 and not lib.is_autocast_cpu_enabled()
        lib.set_autocast_cpu_dtype(lib.float16)
        lib.set_autocast_cpu_enabled(True)
        assert lib.get_autocast_cpu_dtype() is lib.float16 and lib.is_autocast_cpu_enabled()
        assert (lib.ones(2, 2) @ lib.ones(2, 2)).dtype is lib.float16
        lib.set_autocast_cpu_dtype(lib.bfloat16)
        lib.set_autocast_cpu_enabled(False)
        lib.set_default_tensor_type(lib.DoubleTensor)
        assert lib.ones(1).dtype is lib.float64
        lib.set_default_tensor_type("torch.FloatTensor")
        assert lib.ones(1).dtype is lib.float32
        with pytest.raises(TypeError, match="only floating-point types are supported as the default type"):
            lib.set_default_tensor_type(lib.LongTensor)
        lib.set_anomaly_enabled(True, False)
        assert lib.is_anomaly_enabled() and not lib.is_anomaly_check_nan_enabled()
        lib.set_anomaly_enabled(False)
        assert not lib.is_anomaly_enabled()
        assert not lib.is_warn_always_enabled()
        lib.set_warn_always(True)
        assert lib.is_warn_always_enabled()
        lib.set_warn_always(False)
        assert lib.is_distributed(lib.ones(1)) is False and lib.has_spectral is True
        assert lib.GradScaler is lib.amp.GradScaler
    assert nt.has_lapack in (True, False) and nt.set_flush_denormal(True) is False


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["ipu", "xla"])
def test_autocast_of_absent_devices(name: str) -> None:
    found = []
    for lib in LIBS:
        ask = [getattr(lib, form.format(name)) for form in (
            "get_autocast_{}_dtype", "is_autocast_{}_enabled", "set_autocast_{}_dtype", "set_autocast_{}_enabled")]
        got = [str(ask[0]()), ask[1]()]
        for wrong, value in ((ask[2], 3), (ask[3], 1)):
            with pytest.raises(TypeError) as caught:
                wrong(value)
            got.append(str(caught.value))
        ask[2](lib.float16), ask[3](True)
        got += [str(ask[0]()), ask[1](), str(lib.get_autocast_dtype(name)), lib.is_autocast_enabled(name)]
        ask[2](getattr(lib, got[0].removeprefix("torch."))), ask[3](False)
        with pytest.warns(DeprecationWarning, match=f"is_autocast_enabled.'{name}'."):
            ask[1]()
        found.append(got)
    assert found[0] == found[1]


RANGES: dict[str, Any] = {
    "fits": lambda m: m.sym_constrain_range(3, min=1, max=5),
    "too small": lambda m: m.sym_constrain_range(3, min=4),
    "too large": lambda m: m.sym_constrain_range(3, max=2),
    "turned round": lambda m: m.sym_constrain_range(3, min=6, max=5),
    "no number": lambda m: m.sym_constrain_range("a"),
    "a size": lambda m: m.sym_constrain_range_for_size(3, max=9),
    "no size": lambda m: m.sym_constrain_range_for_size(-3),
    "a narrow range": lambda m: m.sym_constrain_range_for_size(3, min=1, max=1),
    "native_norm": lambda m: m.native_norm(m.eye(3).to_sparse(), 2).item(),
    "native_norm of rows": lambda m: m.native_norm(m.eye(3).to_sparse(), 2, [0], False, None),
    "native_norm of a dense one": lambda m: m.native_norm(m.eye(3)),
    "saddmm": lambda m: m.saddmm(m.eye(2).to_sparse(), m.eye(2).to_sparse(), m.ones(2, 2), beta=2).to_dense().tolist(),
    "values_copy": lambda m: m.values_copy(m.eye(3).to_sparse_csr()).tolist(),
    "values_copy into": lambda m: m.values_copy(m.eye(3).to_sparse_csc(), out=m.ones(0)).tolist(),
    "crow_indices_copy": lambda m: m.crow_indices_copy(m.eye(3).to_sparse_csr()).tolist(),
    "row_indices_copy": lambda m: m.row_indices_copy(m.eye(3).to_sparse_csc()).tolist(),
    "row_indices_copy of rows": lambda m: m.row_indices_copy(m.eye(3).to_sparse_csr()),
    "indices_copy": lambda m: m.indices_copy(m.eye(3).to_sparse()),
    "indices_copy of a dense one": lambda m: m.indices_copy(m.eye(3)),
    "batch_norm_update_stats": lambda m: [x.tolist() for x in m.batch_norm_update_stats(
        m.arange(24.0).view(2, 3, 4), None, None, 0.1)],
    "the running ones": lambda m: (lambda a, b: (m.batch_norm_update_stats(
        m.arange(24.0).view(2, 3, 4), a, b, 0.25), a.tolist(), b.tolist())[1:])(m.zeros(3), m.ones(3)),
    "Tag": lambda m: [(name, int(tag), repr(tag), str(tag)) for name, tag in m.Tag.__members__.items()],
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", RANGES)
def test_rare_functions(name: str) -> None:
    found: list = []
    for lib in LIBS:
        try:
            found.append(RANGES[name](lib))
        except (RuntimeError, TypeError) as error:
            found.append((type(error), str(error).split(" This could be")[0]))
    assert found[0] == pytest.approx(found[1], rel=1e-6) if isinstance(found[0], float) else found[0] == found[1]


def test_names_of_functional() -> None:
    for lib in LIBS:
        functional = lib.nn.functional
        assert functional.BroadcastingList2[int] is None
        functional.assert_int_or_pair(3, "x", "{} is wrong")
        functional.assert_int_or_pair((3, 4), "x", "{} is wrong")
        with pytest.raises(AssertionError, match="x is wrong"):
            functional.assert_int_or_pair((3,), "x", "{} is wrong")
        choose = functional.boolean_dispatch("flag", 1, False, lambda x, flag=False: ("yes", x), lambda x,
        flag=False: ("no", x),
                                             "m", "f")  # fmt: skip
        assert choose(1) == ("no", 1) and choose(1, True) == ("yes", 1) and choose(1, flag=True) == ("yes", 1)
        assert choose.__name__ == "f" and not functional.has_torch_function((lib.ones(1),))
        assert not functional.has_torch_function_unary(lib.ones(1))


def test_throughput() -> None:
    heard: list = []

    def module(x: Any, by: float = 1) -> Any:
        heard.append(by)
        return x * by

    benchmark = nt.utils.ThroughputBenchmark(module)
    with pytest.raises(RuntimeError, match="Please provide benchmark inputs"):
        benchmark.benchmark()
    benchmark.add_input(nt.ones(2), by=2)
    benchmark.add_input(nt.ones(2), by=3)
    assert benchmark.run_once(nt.ones(2), 5).tolist() == [5, 5]
    stats = benchmark.benchmark(num_calling_threads=3, num_warmup_iters=2, num_iters=20)
    assert len(heard) == 1 + 3 * 2 + 20 and set(heard) == {2, 3, 5} and stats.num_iters == 20
    assert stats.latency_avg_ms > 0 and stats.total_time_seconds == pytest.approx(20 / stats.iters_per_second)
    assert str(stats).startswith("Average latency per example: ") and "Total number of iterations: 20" in str(stats)
    with pytest.raises(ZeroDivisionError):
        broken = nt.ThroughputBenchmark(lambda x: x / 0)
        broken.add_input(1)
        broken.benchmark(num_calling_threads=2, num_warmup_iters=1, num_iters=2)


# ---- serialization -------------------------------------------------------------------------------------------------
def test_byte_orders(tmp_path: Any) -> None:
    for lib in LIBS:
        ser = lib.serialization
        file, plain = str(tmp_path / f"{lib.__name__}.pt"), str(tmp_path / f"{lib.__name__}-plain.pt")
        lib.save(lib.arange(4, dtype=lib.int32), file)
        with zipfile.ZipFile(file) as archive, zipfile.ZipFile(plain, "w") as out:
            for entry in archive.infolist():
                if not entry.filename.endswith("byteorder"):
                    out.writestr(entry.filename, archive.read(entry))
        assert ser.get_default_load_endianness() is None
        assert lib.load(plain).tolist() == [0, 1, 2, 3]
        ser.set_default_load_endianness(ser.LoadEndianness.BIG)
        assert ser.get_default_load_endianness() is ser.LoadEndianness.BIG
        assert lib.load(plain).tolist() == [0, 1 << 24, 2 << 24, 3 << 24]
        assert lib.load(file).tolist() == [0, 1, 2, 3]
        ser.set_default_load_endianness(ser.LoadEndianness.NATIVE)
        assert lib.load(plain).tolist() == [0, 1, 2, 3]
        ser.set_default_load_endianness(None)
        with pytest.raises(TypeError, match="Invalid argument type in function set_default_load_endianness"):
            ser.set_default_load_endianness("big")
        ser.set_crc32_options(False)
        assert ser.get_crc32_options() is False
        lib.save(lib.ones(2), file)
        ser.set_crc32_options(True)
        assert lib.load(file).tolist() == [1, 1]


def test_files_without_data() -> None:
    for lib in LIBS:
        file = io.BytesIO()
        with lib.serialization.skip_data():
            lib.save({"x": lib.ones(3), "n": 2}, file)
        file.seek(0)
        loaded = lib.load(file)
        assert loaded["n"] == 2 and tuple(loaded["x"].shape) == (3,)
        file = io.BytesIO()
        lib.save(lib.ones(3), file)
        file.seek(0)
        assert lib.load(file).tolist() == [1, 1, 1]
    with pytest.raises(NotImplementedError, match="fake tensors cannot be saved"):
        nt.serialization.skip_data(True)


def test_packages_for_other_places() -> None:
    """In a registry that is put back: it belongs to the process."""
    for lib in LIBS:
        ser = lib.serialization
        assert ser.location_tag(lib.ones(2).untyped_storage()) == "cpu"
        storage = lib.ones(2).untyped_storage()
        assert ser.default_restore_location(storage, "cpu") is storage
        with pytest.raises(RuntimeError, match="don't know how to restore data location"):
            ser.default_restore_location(storage, "moon")
        with pytest.raises(RuntimeError, match="CUDA device"):
            ser.validate_cuda_device("cuda:0")
        with pytest.raises(RuntimeError):
            ser.validate_hpu_device("hpu:0")
        registry = narthex._serialization_rest._registry if lib is nt else ser._package_registry
        before, asked = list(registry), []
        try:
            ser.register_package(5, lambda s: "moon" if s.nbytes() == 12 else None,
                                 lambda s, place,
                                 asked=asked: asked.append(place) or (s if place == "moon" else None))  # fmt: skip
            file = io.BytesIO()
            lib.save([lib.ones(3), lib.zeros(2)], file)
            file.seek(0)
            assert [t.tolist() for t in lib.load(file)] == [[1, 1, 1], [0, 0]] and asked == ["moon", "cpu"]
        finally:
            registry[:] = before
        file.seek(0)
        with pytest.raises(RuntimeError, match="moon"):
            lib.load(file)
        file.seek(0)
        assert lib.load(file, map_location="cpu")[0].tolist() == [1, 1, 1]
    narthex._read_files.restore = None


def test_small_things_of_serialization() -> None:
    for lib in LIBS:
        ser = lib.serialization
        with ser.mkdtemp() as folder:
            assert os.path.isdir(folder)
        assert not os.path.exists(folder)
        module = types.SimpleNamespace(__version__="1.12.3", __name__="m")
        assert ser.check_module_version_greater_or_equal(module, (1, 9, 3))
        assert not ser.check_module_version_greater_or_equal(module, (1, 13))
        module.__version__ = "x.y"
        with pytest.raises(RuntimeError, match="module version string is malformed"):
            ser.check_module_version_greater_or_equal(module, (1, 9))
        with pytest.warns(UserWarning, match="continuing assuming"):
            assert ser.check_module_version_greater_or_equal(module, (1, 9), error_if_malformed=False)
        assert ser.normalize_storage_type(lib.FloatStorage) is lib.FloatStorage
        assert str(ser.StorageType("HalfStorage")) == "StorageType(dtype=torch.float16)"
        assert ser.StorageType("LongStorage").dtype is lib.int64
        with pytest.raises(KeyError):
            ser.StorageType("NoStorage")
        assert issubclass(ser.SourceChangeWarning, Warning)
    assert nt.serialization.storage_to_tensor_type(nt.FloatStorage(2)) is nt.FloatTensor
