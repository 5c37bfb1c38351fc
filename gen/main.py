"""The generator's command line: `generate` writes all files into a folder, `op NAME` prints what follows from an
entry, `list` prints ops.txt, `check` only reads and checks. Run from the project's root as `python -m gen.main`."""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from gen.check import check_world  # noqa: E402
from gen.model import World  # noqa: E402
from gen.read import read  # noqa: E402
from gen.write_all import write_all  # noqa: E402
from gen.write_text import describe, ops_txt  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent


def read_folder(folder):
    root = Path(folder).resolve().parent
    paths = sorted(Path(folder).resolve().rglob("*.op"))
    return [read(str(path.relative_to(root)), path.read_text(encoding="utf-8")) for path in paths]


def load(folder):
    world = World(read_folder(folder))
    if not world.problems:
        check_world(world)
    return world


def main(argv=None):
    parser = argparse.ArgumentParser(prog="narthex-gen", description=__doc__)
    parser.add_argument("--ops", default=ROOT / "ops", help="folder of the .op files")
    commands = parser.add_subparsers(dest="command", required=True)
    generate = commands.add_parser("generate", help="write all generated files")
    generate.add_argument("--out", required=True)
    generate.add_argument("--levels", default="base:all", help="name:all or name:float (its loops), by commas")
    commands.add_parser("check", help="read and check only")
    commands.add_parser("list", help="print ops.txt")
    show = commands.add_parser("op", help="print what follows from an entry")
    show.add_argument("name")
    args = parser.parse_args(argv)
    world = load(args.ops)
    files = None
    if not world.problems:
        files = write_all(world, getattr(args, "levels", "base:all").split(","))
    if world.problems:
        print(world.show_problems(), file=sys.stderr)
        return 1
    if args.command == "generate":
        out = Path(args.out)
        out.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            path = out / name
            # What stays as it was is not compiled again.
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                path.write_text(text, encoding="utf-8")
    elif args.command == "list":
        print(ops_txt(world), end="")
    elif args.command == "op":
        text = describe(world, args.name)
        if text is None:
            print(f"no operator is called '{args.name}'", file=sys.stderr)
            return 1
        print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
