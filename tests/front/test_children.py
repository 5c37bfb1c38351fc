"""Processes that a program under `narthex run` starts find Narthex in torch's place, whatever starts them; and what
is asked about torch's installation is answered."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAD = """
import multiprocessing, os, subprocess, sys
def who(_=None):
    import torch
    return os.path.basename(os.path.dirname(torch.__file__))
"""
WHO = "import os, torch; print(os.path.basename(os.path.dirname(torch.__file__)))"
WAYS = {
    "-c": f"print(subprocess.check_output([sys.executable, '-c', {WHO!r}], text=True), end='')",
    "script": "print(subprocess.check_output([sys.executable, 'asks.py'], text=True), end='')",
    "-m": "print(subprocess.check_output([sys.executable, '-m', 'asks'], text=True), end='')",
    "shell": "os.system(f'{sys.executable} asks.py')",
    "exec": "sys.stdout.flush(); os.execv(sys.executable, [sys.executable, 'asks.py'])",
    "grandchild": "print(subprocess.check_output([sys.executable, 'starts.py'], text=True), end='')",
    "narthex run": "subprocess.run([sys.executable, '-m', 'narthex', 'run', 'asks.py'], check=True)",
    "launcher": "import launch; launch.main(['asks.py'])",
    "torch.multiprocessing.spawn": "import torch.multiprocessing as mp, asks; mp.spawn(asks.told)",
}
WAYS |= {
    f"{kind} {method}": f"""
context = multiprocessing.get_context({method!r})
if {kind!r} == 'process':
    import asks
    process = context.Process(target=asks.told)
    process.start()
    process.join()
elif {kind!r} == 'pool':
    with context.Pool(1) as pool:
        print(*pool.map(who, [0]))
else:
    from concurrent.futures import ProcessPoolExecutor
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        print(*pool.map(who, [0]))
"""
    for method in ("fork", "spawn", "forkserver")
    for kind in ("process", "pool", "futures")
}


def run(program: Path, **environment: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "narthex", "run", program.name]
    env = {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, text=True, cwd=program.parent, env=env, timeout=300)


@pytest.mark.parametrize("way", WAYS)
def test_every_child_finds_narthex(way: str, tmp_path: Path) -> None:
    body = "\n".join("    " + line for line in WAYS[way].splitlines())
    (tmp_path / "program.py").write_text(f"{HEAD}\nif __name__ == '__main__':\n{body}\n")
    asks = f"def told(_=None):\n    {WHO}\n    sys.stdout.flush()\n".replace("import os", "import os, sys")
    (tmp_path / "asks.py").write_text(asks + "if __name__ == '__main__':\n    told()\n")
    starts = "import subprocess, sys\nsubprocess.run([sys.executable, '-m', 'asks'], check=True)\n"
    (tmp_path / "starts.py").write_text(starts)
    launch = "import subprocess, sys\ndef main(arguments):\n    subprocess.run([sys.executable, '-u', *arguments])\n"
    (tmp_path / "launch.py").write_text(launch)
    done = run(tmp_path / "program.py")
    assert (done.stdout, done.returncode) == ("narthex\n", 0), done.stderr


def test_a_child_tells_at_exit_what_was_not_there(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "import subprocess, sys\n"
        "subprocess.run([sys.executable, '-c', 'import torch; hasattr(torch, \"of_tomorrow\")'])\n"
    )
    assert run(tmp_path / "program.py").stderr == "narthex run: asked for and not there: torch.of_tomorrow\n"


def test_a_child_without_torch_does_not_import_narthex(tmp_path: Path) -> None:
    code = "import sys; print([m for m in sys.modules if 'narthex' in m], [p for p in sys.path if '_child' in p])"
    (tmp_path / "program.py").write_text(f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {code!r}])\n")
    assert run(tmp_path / "program.py").stdout == "[] []\n"


def test_the_environments_own_sitecustomize_runs(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own/sitecustomize.py").write_text("import builtins\nbuiltins.seen = 'seen'\n")
    code = "import sitecustomize; print(seen, sitecustomize.__file__); " + WHO
    (tmp_path / "program.py").write_text(f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {code!r}])\n")
    done = run(tmp_path / "program.py", PYTHONPATH=str(tmp_path / "own"))
    assert done.stdout.splitlines() == [f"seen {tmp_path}/own/sitecustomize.py", "narthex"], done.stderr


def test_a_child_of_another_environment_is_left_alone(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "other"], check=True)
    code = "import importlib.metadata, importlib.util; print(importlib.util.find_spec('torch'))"
    (tmp_path / "program.py").write_text(f"import subprocess\nsubprocess.run(['other/bin/python', '-c', {code!r}])\n")
    done = run(tmp_path / "program.py")
    assert (done.stdout, done.stderr) == ("None\n", "")


ASKED = """
import importlib.metadata as m, importlib.util, json, sys
told = {
    "version": m.version("torch"), "name": m.metadata("torch")["Name"], "files": m.files("torch"),
    "requires": m.requires("torch"), "points": [p.name for p in m.distribution("torch").entry_points],
    "packages": sorted(name for name, of in m.packages_distributions().items() if "torch" in of),
    "once": [d.metadata["Name"] for d in m.distributions() if d.version == "2.13.0" and d.metadata["Name"] == "torch"],
    "spec": importlib.util.find_spec("torch") is not None, "below": importlib.util.find_spec("torch.nn").name,
    "triton": importlib.util.find_spec("torch.utils._triton") is not None,
}
import torch
told["own"] = torch.__spec__ is not None and torch.__version__
print(json.dumps(told))
"""


@pytest.mark.parametrize("child", [False, True])
def test_what_is_installed(child: bool, tmp_path: Path) -> None:
    (tmp_path / "asks.py").write_text(ASKED)
    (tmp_path / "program.py").write_text("import subprocess, sys\nsubprocess.run([sys.executable, 'asks.py'])\n")
    done = run(tmp_path / ("program.py" if child else "asks.py"))
    told = json.loads(done.stdout)
    assert {"torch", "functorch"} <= set(told.pop("packages"))
    assert told == {
        "version": "2.13.0", "name": "torch", "files": None, "requires": None, "points": [], "once": ["torch"],
        "spec": True, "below": "torch.nn", "triton": True, "own": "2.13.0",
    }, done.stderr  # fmt: skip
