"""Turns the list `official:` of a native_functions.yaml into a sorted C table of operator names."""
import re
import sys

import yaml


def names_of(path: str) -> list[str]:
    with open(path, encoding="utf-8") as file:
        official = yaml.safe_load(file).get("official") or []
    # An entry is a name, or a mapping whose `func` is a name or a whole schema.
    names = [(row["func"] if isinstance(row, dict) else row).split("(")[0].strip() for row in official]
    for name in names:
        if not re.fullmatch(r"[A-Za-z_]\w*(\.\w+)?", name):
            sys.exit(f"{path}: '{name}' is not an operator name: expected name or name.overload")
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        sys.exit(f"{path}: listed twice: {', '.join(doubled)}")
    return sorted(names)


def main(path: str, out: str) -> None:
    names = names_of(path)
    rows = "".join(f'    "{name}",\n' for name in names)
    with open(out, "w", encoding="utf-8") as file:
        file.write(f'#include "npu.h"\n\nconst char *const npu_official[] = {{\n{rows}}};\n')
        file.write(f"const int npu_n_official = {len(names)};\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
