"""base/levels.h as the build makes it, for tests that compile generated files without a build folder."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def write_levels(folder: Path, names: tuple[str, ...] = ("base",)) -> None:
    """Writes folder/base/levels.h; the compiler then gets -I folder."""
    rows = " ".join(f"ROW(of, {name.upper()}, {name}, true)" for name in names)
    (folder / "base").mkdir(parents=True, exist_ok=True)
    text = (ROOT / "src/base/levels.h.in").read_text(encoding="utf-8")
    (folder / "base" / "levels.h").write_text(text.replace("@ROWS@", rows), encoding="utf-8")
