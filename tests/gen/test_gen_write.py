"""What the generator writes: schemas equal PyTorch's, ops.txt is current, two runs give equal bytes, loops and folds
compute what they should at every level, and one entry is all that a new operator needs."""

import ctypes
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gen.main import load
from gen.model import schema
from gen.write_all import write_all
from gen.write_text import describe, ops_txt
from tests.gen.levels import write_levels

needs_gcc = pytest.mark.skipif(not shutil.which("gcc"), reason="gcc is not here")


def test_schemas_equal_pytorch(world):
    torch = pytest.importorskip("torch")
    for form in world.all_forms():
        base, _, overload = form.name.partition(".")
        theirs = getattr(getattr(torch.ops.aten, base), overload or "default")._schema
        assert f"aten::{schema(form)}" == str(theirs), f"{form.sibling.at.path}:{form.sibling.at.line}"


def test_ops_txt_is_current(world, root):
    assert (root / "ops.txt").read_text(encoding="utf-8") == ops_txt(world), "run: python -m gen.main list > ops.txt"


def test_two_runs_give_equal_bytes(root, tmp_path):
    for name, seed in (("a", "1"), ("b", "2")):
        levels = ["--levels", "base:all,v3:all,v4:float"]
        command = [sys.executable, "-m", "gen.main", "generate", "--out", str(tmp_path / name), *levels]
        subprocess.run(command, cwd=root, check=True, env={**os.environ, "PYTHONHASHSEED": seed})
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes(), path.name


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
    "base": ["-DNX_FUSED=0"],
    "v3": ["-DNX_FUSED=1", "-march=x86-64-v3"],
    "v4": ["-DNX_FUSED=1", "-march=x86-64-v4", "-mprefer-vector-width=512"],
}


def has(level):
    flag = {"base": "", "v3": "avx2", "v4": "avx512vl"}[level]
    return flag in Path("/proc/cpuinfo").read_text()


def write_loops(world, folder, names):
    """The files of loops; returns their paths."""
    for name in names:
        (folder / name).write_text(world.files_written[name], encoding="utf-8")
    return [str(folder / name) for name in names]


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
    folder = tmp_path_factory.mktemp("loops")
    sources = write_loops(world, folder, [f"loops_{f}_{c}.c" for f in ("point", "reduce") for c in ("int", "float")])
    library = folder / "loops.so"
    command = [
        "gcc",
        "-std=gnu11",
        "-O2",
        "-ftree-vectorize",
        "-ffp-contract=off",
        "-shared",
        "-fPIC",
        f"-I{root}/src",
        f"-I{root}/include",
        f"-DNX_LEVEL_NAME={request.param}",
        *LEVELS[request.param],
        "-o",
        str(library),
        *sources,
        f"{root}/src/kernel/bounds.c",
        "-lm",
    ]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(library)), request.param


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
    else:  # torch.add(alpha=) rounds once, by a fused multiply-add
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
    for level, flags in LEVELS.items():
        if not has(level):
            continue
        sources = write_loops(world, tmp_path, ["loops_point_float.c", "loops_reduce_float.c"])
        library = tmp_path / f"{level}.so"
        subprocess.run(
            [
                "gcc",
                "-std=gnu11",
                "-O3",
                "-ffp-contract=off",
                "-shared",
                "-fPIC",
                f"-I{root}/src",
                f"-I{root}/include",
                f"-DNX_LEVEL_NAME={level}",
                *flags,
                "-o",
                str(library),
                *sources,
                f"{root}/src/kernel/bounds.c",
                "-lm",
            ],
            check=True,
        )
        loops = ctypes.CDLL(str(library)), level
        torch.manual_seed(1)
        x, y, out, total = torch.randn(4096) * 100, torch.randn(4096), torch.zeros(4096), torch.zeros(())
        run_loop(loops, "add_Tensor_f32", [out.data_ptr(), x.data_ptr(), y.data_ptr()], [4, 4, 4], 4096, [0.3])
        fold(loops, "f32", [(x.data_ptr(), 4096)], total.data_ptr(), 4)
        exp = torch.zeros(4096)
        run_loop(loops, "exp_f32", [exp.data_ptr(), y.data_ptr()], [4, 4], 4096, [])
        outs[level] = (out, total, exp)
    assert all(torch.equal(a, b) for a, b in zip(outs["base"][:2], outs["v3"])), "sums and additions are not fused"
    if "v4" in outs:
        assert all(torch.equal(a, b) for a, b in zip(outs["v3"], outs["v4"])), "both levels are fused"


# ---- one place
NEW = """
# x*exp(x), an operator that PyTorch does not have.
op xexp(self: T) -> T
  types  T in float
  point  self*exp(self)
  grad   self: g*(exp_(self) + result)
  forms  function method inplace out
  cases  shapes point
"""


def test_an_operator_is_one_entry(root, tmp_path):
    """docs/add-an-operator.md: one entry, and everything follows; nothing else in the tree names it."""
    shutil.copytree(root / "ops", tmp_path / "ops")
    with (tmp_path / "ops" / "element" / "point.op").open("a", encoding="utf-8") as file:
        file.write(NEW.replace("g*(exp_(self) + result)", "g + g*result"))
    world = load(tmp_path / "ops")
    files = write_all(world, tmp_path / "ops", ["base:all"])
    assert not world.problems, world.show_problems()
    for name, expected in {
        "ops.h": "nx_xexp_out(",
        "tables.c": '"aten::xexp_(Tensor(a!) self) -> Tensor(a!)"',
        "loops_point_float.c": "nx__loop_xexp_bf16",
        "grad.c": "nx__backward_xexp(",
        "functions.c": '"torch.xexp"',
        "_C_ops.pyi": "def xexp_(self)",
        "cases.json": '"op": "aten::xexp"',
    }.items():
        assert expected in files[name], name
    assert world.facts["xexp"]["derivative"] == {0: (0, 1)}, "the formula reads the result, not the input"
    if shutil.which("gcc"):
        gen = tmp_path / "build" / "gen"
        gen.mkdir(parents=True)
        write_levels(tmp_path / "build")
        for name, text in files.items():
            (gen / name).write_text(text, encoding="utf-8")
        for name in ("grad.c", "meta.c", "tables.c", "calls.c", "loops_point_float.c"):
            command = [
                "gcc",
                "-std=gnu11",
                "-Wall",
                "-Wextra",
                "-Werror",
                "-Wno-unused-parameter",
                "-Wno-missing-field-initializers",
                f"-I{root}/src",
                f"-I{root}/include",
                f"-I{root}",
                f"-I{root}/ops",
                "-DNX_LEVEL_NAME=base",
                "-DNX_FUSED=0",
                f"-I{tmp_path}/build",
                "-fsyntax-only",
                str(gen / name),
            ]
            subprocess.run(command, check=True)
