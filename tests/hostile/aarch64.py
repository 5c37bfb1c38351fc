"""examples/c/line.c for 64-bit ARM, under qemu-user: it prints what the program of this machine prints, from a model
file of either machine. Argument: the folder of the cross build."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import narthex

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGE = Path(narthex.__file__).parent


def build(compiler: str, library: Path, out: Path) -> None:
    flags = [f"-I{PACKAGE}/include", f"-L{library}", f"-Wl,-rpath,{library}", "-Wl,--allow-shlib-undefined"]
    command = [compiler, "-std=gnu11", str(ROOT / "examples/c/line.c"), *flags, "-lnarthex", "-lm", "-o", str(out)]
    subprocess.run(command, check=True)


def main(cross: Path) -> int:
    with tempfile.TemporaryDirectory() as folder:
        here, there = Path(folder) / "here", Path(folder) / "there"
        build("gcc", PACKAGE / "lib", here)
        build("aarch64-linux-gnu-gcc", cross, there)
        programs = {"this machine": [str(here)], "aarch64": ["qemu-aarch64", str(there)]}
        printed = {}
        for name, program in programs.items():
            model = f"{folder}/{program[0][-5:]}.nxm"
            subprocess.run([*program, "save", model], check=True, capture_output=True)
            printed[name, "alone"] = subprocess.run(program, check=True, capture_output=True, text=True).stdout
            for other, reader in programs.items():
                done = subprocess.run([*reader, "run", model], check=True, capture_output=True, text=True)
                printed[other, f"from a model of {name}"] = done.stdout
    for how in sorted({how for _, how in printed}):
        same = printed["this machine", how] == printed["aarch64", how] != ""
        print(f"line, {how}: {'the same text' if same else 'DIFFERS'}\n{printed['aarch64', how]}")
        if not same:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
