"""`narthex explain`: what it tells of a program with a break and a new shape, and of the GPT."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAM = """\
import sys
import torch

@torch.compile
def f(x):
    y = x * 2 + 1
    print("between")
    return y.sin().sum()

for n in (3, 3, 5):
    print(f"{f(torch.ones(n)).item():.4f}")
sys.exit(int(sys.argv[1]))
"""


def explain(*arguments, **options):
    command = [sys.executable, "-m", "narthex", "explain", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, **options)


def test_break_and_recompilation(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    run = explain(program, 3)
    assert run.returncode == 3 and not run.stderr, run.stderr
    out = run.stdout
    assert out.startswith("between\n0.4234\nbetween\n0.4234\nbetween\n0.7056\nnarthex explain: "), out
    assert "4 graphs, 8 nodes, 2 graph breaks, 2 recompilations, 0 operators fell back" in out
    assert f'{program}:7: print("between")' in out and "to mend it: move the call out" in out
    assert "L['x'] size mismatch at dim 0: expected 3, got 5" in out
    assert len(re.findall(r"1 input, \d+ guards \(\d+\.\d\d us a call\); capture", out)) == 4
    assert all(stage in out.splitlines()[-1] for stage in ("capture", "aot", "lower", "backend"))


def test_page(tmp_path):
    program, page = tmp_path / "program.py", tmp_path / "page.html"
    program.write_text(PROGRAM)
    run = explain("--html", page, program, 0)
    assert run.returncode == 0 and f"{page} shows them" in run.stdout
    opened = []

    class Checker(HTMLParser):
        def handle_starttag(self, tag, attributes):
            names = dict(attributes)
            assert "src" not in names and "href" not in names, (tag, names)
            if tag not in ("meta", "br"):
                opened.append(tag)

        def handle_endtag(self, tag):
            while opened.pop() != tag:
                pass

    text = page.read_text()
    Checker().feed(text)
    assert not opened and "expected 3, got 5" in text and "move the call out" in text and "operator.mul" in text


def test_nothing_compiled_and_the_programs_own_error(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("import torch\nprint(torch.ones(2))\nraise KeyError('mine')\n")
    run = explain(program)
    assert run.returncode == 1 and "nothing was compiled" in run.stdout and "KeyError: 'mine'" in run.stderr
    assert "_explain.py" not in run.stderr


def test_own_logs_go_on(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("import torch\ntorch._logging.set_logs(graph_breaks=True)\n" + PROGRAM)
    run = explain(program, 0)
    assert "Graph break in user code" in run.stderr and "2 graph breaks" in run.stdout


def test_usage():
    for arguments, text in (([], "name a script"), (["/no/such.py"], "No such file"), (["--html"], "name a script")):
        run = explain(*arguments)
        assert run.returncode == 2 and text in run.stderr
    assert "explain SCRIPT" in explain("--help").stdout


def test_gpt(tmp_path):
    small = "--layers 2 --width 16 --heads 2 --block-size 8 --batch-size 2 --eval-batches 1 --data-limit 2000"
    out = ("--compile", "--steps", 2, "--sample", 0, "--out", tmp_path)
    run = explain(ROOT / "examples/gpt.py", *small.split(), *out)
    assert run.returncode == 0, run.stderr[-2000:]
    assert "graph" in run.stdout and "examples/gpt.py:" in run.stdout
