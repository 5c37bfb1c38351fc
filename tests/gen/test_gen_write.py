"""What the generator writes: schemas equal PyTorch's, ops.txt is current, two runs give equal bytes, loops and folds
compute what they should at every level. (That one entry is all that a new operator needs: tests/docs.)"""

import ctypes
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import narthex
import pytest

from gen.model import schema
from gen.write_text import describe, ops_txt
from tests.gen.conftest import LEVELS as LEVEL_NAMES

needs_gcc = pytest.mark.skipif(not shutil.which("gcc"), reason="gcc is not here")


def test_schemas_equal_pytorch(world):
    torch = pytest.importorskip("torch")
    from tests.ops.build import THEIRS

    for form in world.all_forms():
        base, _, overload = form.name.partition(".")
        if f"aten::{base}" in THEIRS or f"aten::{form.name}" in THEIRS:
            continue
        theirs = getattr(getattr(torch.ops.aten, base), overload or "default")._schema
        assert f"aten::{schema(form)}" == str(theirs), f"{form.sibling.at.path}:{form.sibling.at.line}"


def test_ops_txt_is_current(world, root):
    assert (root / "ops.txt").read_text(encoding="utf-8") == ops_txt(world), "run: python -m gen.main list > ops.txt"


def test_two_runs_give_equal_bytes(root, world, tmp_path):
    """A run of the command is as the one of this process, whatever the order of sets."""
    command = [sys.executable, "-m", "gen.main", "generate", "--out", str(tmp_path), "--levels", ",".join(LEVEL_NAMES)]
    subprocess.run(command, cwd=root, check=True, env={**os.environ, "PYTHONHASHSEED": "1"})
    assert {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()} == world.files_written


def test_meson_lists_every_file(root):
    """The generator runs again when any of its sources or any entry changes."""
    text = (root / "gen" / "meson.build").read_text(encoding="utf-8")
    for path in (root / "gen").glob("*.py"):
        assert path.name == "__init__.py" or f"{path.name}'" in text, f"gen/meson.build does not list {path.name}"
    for path in (root / "ops").rglob("*.op"):
        shared = path.parent.name == "ops"
        pattern = f"/ops/{path.name}'" if shared else rf"'{path.parent.name}': \[[^\]]*'{path.stem}'"
        assert re.search(pattern, text), f"gen/meson.build does not list {path.parent.name}/{path.name}"


def test_describe(world):
    text = describe(world, "mul.Tensor")
    assert "aten::mul_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)   in-place" in text
    assert "python    torch.mul, Tensor.mul, Tensor.mul_" in text
    assert "gradient  self: g*conj(other)   saves other" in text
    assert describe(world, "nothing") is None


def test_saved_values(world):
    """A formula saves what it reads, not what it only asks for its shape."""

    def saved(name):
        return {k: v for k, v in world.facts[name]["derivative"].items()}

    assert saved("mm") == {0: (0b10, 0), 1: (0b01, 0)}
    assert saved("mul.Tensor") == {0: (0b10, 0), 1: (0b01, 0)}
    assert saved("add.Tensor") == {0: (0, 0), 1: (0, 0)}
    assert saved("sum") == {0: (0, 0)}
    assert saved("exp") == {0: (0, 1)}


def test_words_that_make_operators(world):
    """`alias:NAME` and `copy`: what the entry has, by another name; what it views, copied."""
    assert {"multiply.Tensor", "multiply_.Scalar", "multiply.out", "special_erf.out"} <= set(world.forms)
    assert not {"multiply.Scalar_out", "special_erf_"} & set(world.forms), "PyTorch has them not"
    table = re.search(r"overloads_multiply_method\[\] = {([^}]*)}", world.files_written["functions.c"])[1]
    assert table == '"aten::mul.Tensor"', "Python calls the operator itself"
    assert schema(world.forms["split_copy.Tensor"]).endswith("-> Tensor[]")


@pytest.mark.parametrize(
    ("name", "formula"),
    [
        ("cos", "-g*conj(sin(self))"),  # a sign stands before it all
        ("log", "g/conj(self)"),  # a quotient divides g
        ("sqrt", "0.5*g/conj(result)"),  # what the operator computed is read
        ("reciprocal", "-g*conj(result*result)"),
        ("mul.Tensor", "g*conj(other)"),
        ("frac", "g"),
        ("floor", "zero"),
        ("special_ndtr", "g*conj(0.3989422804014327*exp(-self*-0.7071067811865476*(self*-0.7071067811865476)))"),
    ],
)
def test_derived_formulas(world, name, formula):
    """`grad auto`: by the rules of sums, products, quotients and chains, from ops/prim.op."""
    row = next(entry for entry in world.entries if entry.name == name).one("grad")
    assert row.value["auto"] and row.value["rules"][0]["text"] == formula


# ---- loops
LEVELS = {
    "base": ["-DNX_FUSED=0", '-DNX_HALVES="base/half_bits.h"'],
    "v3": ["-DNX_FUSED=1", '-DNX_HALVES="base/half_f16c.h"', "-march=x86-64-v3"],
    "v4": ["-DNX_FUSED=1", '-DNX_HALVES="base/half_avx512.h"', "-march=x86-64-v4", "-mprefer-vector-width=512"],
}


def has(level):
    flag = {"base": "", "v3": "avx2", "v4": "avx512vl"}[level]
    return flag in Path("/proc/cpuinfo").read_text()


POINTS = [f"add_Tensor_{short}" for short in ("b8", "u8", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64")]
POINTS += ["exp_f32"]
FOLDS = [f"sum_dim_IntList_{short}" for short in ("b8", "u8", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64")]


def compile_loops(root, world, folder, level):
    """A library of POINTS and FOLDS: the generated files as they are, but the others are static, and not compiled. What
    float16 is widened by is Narthex's own."""
    kept = {f"nx__loop_{name}" for name in POINTS} | {f"nx__fold_{name}" for name in FOLDS}
    sources = []
    for name in [f"loops_{f}_{c}.c" for f in ("point", "reduce") for c in ("int", "float")]:
        loop = re.compile(r"^(void|const nx_reduce_loop) NX_AT_LEVEL\((\w+)\)", re.MULTILINE)
        text = loop.sub(lambda m: m[0] if m[2] in kept else "static " + m[0], world.files_written[name])
        (folder / name).write_text(text, encoding="utf-8")
        sources.append(folder / name)
    library = folder / "loops.so"
    flags = ["-std=gnu11", "-O2", "-ftree-vectorize", "-ffp-contract=off", "-shared", "-fPIC", "-Wno-unused"]
    flags += [f"-I{root}/src", f"-I{root}/include", f"-I{root}/ops", f"-DNX_LEVEL_NAME={level}", *LEVELS[level]]
    lib = Path(narthex.__file__).parent / "lib"
    flags += [f"-L{lib}", f"-Wl,-rpath,{lib}", "-lnarthex"]
    subprocess.run(["gcc", *sources, f"{root}/src/kernel/bounds.c", "-o", library, *flags, "-lm"], check=True)
    return ctypes.CDLL(str(library)), level


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(level, marks=pytest.mark.skipif(not has(level), reason=f"this processor has no {level}"))
        for level in LEVELS
    ],
)
def loops(request, root, world, tmp_path_factory):
    """The loops of one level as a library: (ctypes library, level)."""
    if not shutil.which("gcc"):
        pytest.skip("gcc is not here")
    return compile_loops(root, world, tmp_path_factory.mktemp("loops"), request.param)


def run_loop(loops, name, operands, steps, n, constants):
    library, level = loops
    pointers = (ctypes.c_void_p * len(operands))(*operands)
    given = (ctypes.c_double * max(len(constants), 1))()
    for k, c in enumerate(constants):
        if isinstance(c, float):
            given[k] = c
        else:
            ctypes.c_int64.from_buffer(given, 8 * k).value = c
    getattr(library, f"nx__loop_{name}_{level}")(
        pointers, (ctypes.c_int64 * len(steps))(*steps), ctypes.c_int64(n), given
    )


@needs_gcc
@pytest.mark.parametrize("short", ["b8", "u8", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("layout", ["dense", "strided", "single", "in place"])
def test_add_loop(loops, short, layout):
    torch = pytest.importorskip("torch")
    dtype = {
        "b8": "bool",
        "u8": "uint8",
        "i8": "int8",
        "i16": "int16",
        "i32": "int32",
        "i64": "int64",
        "f16": "float16",
        "bf16": "bfloat16",
        "f32": "float32",
        "f64": "float64",
    }[short]
    dtype = getattr(torch, dtype)
    torch.manual_seed(0)
    a, b = ((torch.randn(2 * 77) * 200).to(dtype) for _ in range(2))
    out = torch.zeros(2 * 77, dtype=dtype)
    size = a.element_size()
    alpha = True if short == "b8" else 3.0 if dtype.is_floating_point else 3
    step = [size] * 3
    view_a, view_b, view_out = a[:77], b[:77], out[:77]
    if layout == "strided":
        step = [2 * size] * 3
        view_a, view_b, view_out = a[::2], b[::2], out[::2]
    elif layout == "single":
        step, view_b = [size, size, 0], b[:1]
    elif layout == "in place":
        out = a.clone()
        view_out = out[:77]
        view_a = a[:77].clone()
        a = out
    if dtype in (torch.float16, torch.bfloat16):  # computed in float32, rounded once
        expected = (view_a.float() + 3.0 * view_b.float()).to(dtype)
    elif short == "b8":
        expected = view_a | view_b
    elif dtype.is_floating_point and loops[1] != "base":  # rounds once, by a fused multiply-add
        exact = view_a.double(), view_b.double().expand(77)
        expected = torch.add(*exact, alpha=alpha).to(dtype)
    else:
        expected = view_a + alpha * view_b
    constants = [int(alpha)] if isinstance(alpha, bool) else [alpha]
    run_loop(loops, f"add_Tensor_{short}", [out.data_ptr(), a.data_ptr(), b.data_ptr()], step, 77, constants)
    assert torch.equal(view_out, expected.expand(77))


class Fold(ctypes.Structure):
    _fields_ = [
        ("init", ctypes.c_void_p),
        ("fold", ctypes.c_void_p),
        ("merge", ctypes.c_void_p),
        ("done", ctypes.c_void_p),
    ]


def fold(loops, short, pieces, out, step):
    library, level = loops
    table = Fold.in_dll(library, f"nx__fold_sum_dim_IntList_{short}_{level}")
    p, i = ctypes.c_void_p, ctypes.c_int64
    init, merge = ctypes.CFUNCTYPE(None, p)(table.init), ctypes.CFUNCTYPE(None, p, p)(table.merge)
    step_fold, done = ctypes.CFUNCTYPE(None, p, p, i, i)(table.fold), ctypes.CFUNCTYPE(None, p, i, p)(table.done)
    total, part = ctypes.create_string_buffer(64), ctypes.create_string_buffer(64)
    init(ctypes.addressof(total))
    count = 0
    for address, n in pieces:
        init(ctypes.addressof(part))
        step_fold(ctypes.addressof(part), address, step, n)
        merge(ctypes.addressof(total), ctypes.addressof(part))
        count += n
    done(ctypes.addressof(total), count, out)


@needs_gcc
@pytest.mark.parametrize("short", ["b8", "u8", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 5000])
def test_sum_fold(loops, short, n):
    torch = pytest.importorskip("torch")
    names = {
        "b8": "bool",
        "u8": "uint8",
        "i8": "int8",
        "i16": "int16",
        "i32": "int32",
        "i64": "int64",
        "f16": "float16",
        "bf16": "bfloat16",
        "f32": "float32",
        "f64": "float64",
    }
    dtype = getattr(torch, names[short])
    torch.manual_seed(n)
    wide = (torch.randn(2 * n + 1) * 3).to(dtype)
    x = wide[: 2 * n : 2].contiguous()
    results = []
    for data, step in ((x, x.element_size()), (wide, 2 * x.element_size())):
        out = torch.zeros((), dtype=dtype)
        pieces = [(data.data_ptr() + k * step, min(4096, n - k)) for k in range(0, n, 4096)]
        fold(loops, short, pieces, out.data_ptr(), step)
        results.append(out)
    assert torch.equal(*results), "a strided sum must have the bits of a dense one"
    expected = torch.sum(
        x.double() if dtype.is_floating_point else x, dtype=None if dtype.is_floating_point else dtype
    ).to(dtype)
    torch.testing.assert_close(results[0], expected)


@needs_gcc
def test_levels_agree_bit_for_bit(root, world, tmp_path):
    torch = pytest.importorskip("torch")
    if not has("v3"):
        pytest.skip("this processor has level base alone")
    outs = {}
    for level in LEVELS:
        if not has(level):
            continue
        (tmp_path / level).mkdir()
        loops = compile_loops(root, world, tmp_path / level, level)
        torch.manual_seed(1)
        x, y, out, total = torch.randn(4096) * 100, torch.randn(4096), torch.zeros(4096), torch.zeros(())
        run_loop(loops, "add_Tensor_f32", [out.data_ptr(), x.data_ptr(), y.data_ptr()], [4, 4, 4], 4096, [0.3])
        fold(loops, "f32", [(x.data_ptr(), 4096)], total.data_ptr(), 4)
        exp = torch.zeros(4096)
        run_loop(loops, "exp_f32", [exp.data_ptr(), y.data_ptr()], [4, 4], 4096, [])
        outs[level] = (out, total, exp)
    assert torch.equal(outs["base"][1], outs["v3"][1]), "sums are not fused"
    if "v4" in outs:
        assert all(torch.equal(a, b) for a, b in zip(outs["v3"], outs["v4"])), "both levels are fused"
