"""The command `narthex`."""

import sys

_HELP = """\
Narthex: a deep-learning framework and graph compiler with PyTorch's names.

  narthex run SCRIPT [ARGUMENTS]      run a PyTorch program: torch, torch_npu and torchair are Narthex
  narthex run -m MODULE [ARGUMENTS]   the same for a module; a line at exit names what it asked for in vain
  narthex explain SCRIPT [ARGUMENTS]  run it (or -m MODULE) and tell what torch.compile made of it: graphs, breaks and
                                      how to mend them, recompilations and why, time in each stage, operators that
                                      fell back; explain --html FILE SCRIPT writes a page to look at instead
  narthex scan PATH [PATH]            read sources (files or folders) without running them and tell which names of torch
                                      are not there, file and line; status 1 when there are such
  narthex op [NAME]                   list the operators, or those of a name with their schemas (add), or tell about one
                                      (add.Tensor)
  narthex info                        what runs here (level, BLAS, threads, memory, plugins), why, and what changes it
  narthex flags                       the environment variables that Narthex reads
  narthex paths                       folders for C programs: include=... and lib=...
  narthex --version
  narthex --help                      this text

In a program of your own: `import narthex as torch`; its parts are narthex.nn, narthex.optim and so on. Where the rest
of the program says `import torch`, call narthex.cli.use_as_torch() first.
To compile inside PyTorch: torch.compile(model, backend="narthex").
"""


def use_as_torch() -> None:
    """What `narthex run` does to imports, in this process: torch, torch_npu and torchair are Narthex from here on."""
    from ._run import install

    install()


def _program(command: str, arguments: list):
    """(a function that runs the program that the arguments name, its name); an exit status when they name none."""
    from . import _run as runner

    if arguments[:1] == ["-m"] and len(arguments) > 1:
        return lambda: runner.run_module(arguments[1], arguments[2:]), arguments[1]
    if not arguments or arguments[0].startswith("-"):
        return _complain(f"{command}: name a script, or -m and a module: narthex {command} train.py --epochs 3")
    try:
        open(arguments[0], "rb").close()
    except OSError as error:
        return _complain(f"{command}: {arguments[0]}: {error.strerror}")
    return lambda: runner.run_script(arguments[0], arguments[1:]), arguments[0]


def _run(arguments: list) -> int:
    program = _program("run", arguments)
    if isinstance(program, int):
        return program
    program[0]()
    return 0


def _explain(arguments: list) -> int:
    html = None
    if arguments[:1] == ["--html"] and len(arguments) > 1:
        html, arguments = arguments[1], arguments[2:]
    program = _program("explain", arguments)
    if isinstance(program, int):
        return program
    from ._explain import explain

    explain(*program, html)
    return 0


def _scan(arguments: list) -> int:
    from pathlib import Path

    paths = [Path(argument) for argument in arguments]
    missing = [str(path) for path in paths if not path.exists()]
    if missing or not paths:
        return _complain(f"scan: {missing[0]}: no such file or folder" if missing else "scan: name a file or folder")
    _end_with_the_reader()
    use_as_torch()
    from ._scan import report

    return report(paths)


def _end_with_the_reader() -> None:
    """`narthex op | head` ends quietly when head does."""
    from signal import SIG_DFL, SIGPIPE, signal

    signal(SIGPIPE, SIG_DFL)


def _op(arguments: list) -> int:
    from . import _C

    _end_with_the_reader()
    names = _C.op_names()
    if not arguments:
        print("\n".join(names))
        return 0
    for name in arguments:
        full = name if "::" in name else "aten::" + name
        if full not in names:
            overloads = [other for other in names if other.partition(".")[0] == full]
            if not overloads:
                return _complain(f"op: there is no {full}{_near(full, names)}")
            print("\n".join(_C.op_info(other)["schema"] for other in overloads))
            continue
        for key, value in _C.op_info(full).items():
            if isinstance(value, (list, tuple)):
                value = ", ".join(map(str, value))
            print(f"{key:14} {value}".rstrip())
        others = [other for other in names if other.partition(".")[0] == full.partition(".")[0] and other != full]
        if others:
            print(f"{'overloads':14} {', '.join(others)}")
    return 0


def _near(name: str, names: list) -> str:
    """What a wrong name may have meant: its operator's overloads, or operators that are called much the same."""
    from difflib import get_close_matches

    base = name.partition(".")[0]
    bases = {other.partition(".")[0] for other in names}
    near = [other for other in names if other.partition(".")[0] == base] or get_close_matches(base, bases, 3)
    return f"; there are {', '.join(near)}" if near else "; `narthex op` lists all"


def _flags(arguments: list) -> int:
    from . import _C

    _end_with_the_reader()
    for _, variable, value, meaning in _C.flags():
        print(f"{variable} = {value!r}\n    {meaning}")
    return 0


def _info(arguments: list) -> int:
    from ._info import rows

    _end_with_the_reader()
    for name, value, change in rows():
        print(f"{name} = {value}\n    {change}")
    return 0


def _paths(arguments: list) -> int:
    from ._paths import include_dir, lib_dir

    print(f"include={include_dir()}\nlib={lib_dir()}")
    return 0


def _complain(text: str) -> int:
    print(f"narthex {text}", file=sys.stderr)
    return 2


_COMMANDS = {"run": _run, "explain": _explain, "scan": _scan, "op": _op, "info": _info, "flags": _flags}
_COMMANDS["paths"] = _paths


def main(arguments=None) -> int:
    """Runs one command; returns the exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(_HELP, end="")
        return 0
    if arguments[0] == "--version":
        from . import narthex_version

        print(f"narthex {narthex_version}")
        return 0
    if arguments[0] not in _COMMANDS:
        return _complain(f"{arguments[0]}: no such command; there are {', '.join(_COMMANDS)} (narthex --help)")
    if arguments[1:2] in (["-h"], ["--help"]):
        print(_HELP, end="")
        return 0
    return _COMMANDS[arguments[0]](arguments[1:])
