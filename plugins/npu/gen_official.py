"""Turns the lists `official:` and `kinds:` of a native_functions.yaml into a sorted C table of operator names."""
import re
import sys

import yaml


def names_of_kinds(surface: str, kinds: list[str]) -> list[str]:
    """Those whose line in ops.txt says one of the kinds: `aten::abs(Tensor self) -> Tensor  point grad`."""
    pattern = re.compile(r"aten::([\w.]+)\(.*  (\w+) \w+")
    with open(surface, encoding="utf-8") as file:
        rows = [pattern.fullmatch(line.strip()) for line in file]
    return [row[1] for row in rows if row and row[2] in kinds]


def names_of(path: str, surface: str) -> list[str]:
    with open(path, encoding="utf-8") as file:
        listed = yaml.safe_load(file)
    unknown = sorted(set(listed) - {"backend", "cpp_namespace", "official", "kinds"})
    if unknown:
        sys.exit(f"{path}: sections that nothing is made of: {', '.join(unknown)}; there are official and kinds")
    official = listed.get("official") or []
    # An entry is a name, or a mapping whose `func` is a name or a whole schema.
    names = [(row["func"] if isinstance(row, dict) else row).split("(")[0].strip() for row in official]
    for name in names:
        if not re.fullmatch(r"[A-Za-z_]\w*(\.\w+)?", name):
            sys.exit(f"{path}: '{name}' is not an operator name: expected name or name.overload")
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        sys.exit(f"{path}: listed twice: {', '.join(doubled)}")
    return sorted({*names, *names_of_kinds(surface, listed.get("kinds") or [])})


def main(path: str, surface: str, out: str) -> None:
    names = names_of(path, surface)
    rows = "".join(f'    "{name}",\n' for name in names)
    with open(out, "w", encoding="utf-8") as file:
        file.write(f'#include "npu.h"\n\nconst char *const npu_official[] = {{\n{rows}}};\n')
        file.write(f"const int npu_n_official = {len(names)};\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
