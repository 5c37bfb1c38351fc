"""What the examples draw: a PNG file beside each result, and the same in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

SHADES = " .:-=+*#%@"


def pyplot():
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def curves(path: Path, title: str, xlabel: str, lines: dict[str, tuple[Sequence[float], Sequence[float]]]) -> None:
    """Lines by name, each its places and its heights."""
    import plotext

    figure, axes = pyplot().subplots(figsize=(8, 4.5))
    plotext.clear_figure()
    plotext.plot_size(90, 18)
    plotext.theme("clear")
    for name, (x, y) in lines.items():
        axes.plot(x, y, label=name)
        plotext.plot(list(x), list(y), label=name)
    axes.set(xlabel=xlabel, title=title)
    axes.legend()
    save(figure, path)
    plotext.xlabel(xlabel)
    plotext.title(title)
    plotext.show()


def images(path: Path, title: str, rows: Sequence[Sequence[Sequence[Sequence[float]]]]) -> None:
    """Rows of pictures with numbers from 0 (dark) to 1."""
    figure, axes = pyplot().subplots(len(rows), len(rows[0]), figsize=(len(rows[0]), len(rows) + 0.4), squeeze=False)
    for places, pictures in zip(axes, rows):
        for place, picture in zip(places, pictures):
            place.imshow(picture, cmap="gray", vmin=0, vmax=1)
            place.axis("off")
    figure.suptitle(title)
    save(figure, path)
    for pictures in rows:
        for lines in zip(*pictures):
            print("  ".join("".join(2 * shade(x) for x in line) for line in lines))
        print()


def shade(x: float) -> str:
    return SHADES[min(len(SHADES) - 1, max(0, int(x * len(SHADES))))]


def table(path: Path, title: str, counts: Sequence[Sequence[int]]) -> None:
    """A confusion matrix: a row for each class that is, a column for each that was taken for it."""
    figure, axes = pyplot().subplots(figsize=(5, 5))
    axes.imshow(counts, cmap="Blues")
    axes.set(xlabel="taken for", ylabel="is", title=title, xticks=range(len(counts)), yticks=range(len(counts)))
    for i, row in enumerate(counts):
        for k, count in enumerate(row):
            axes.text(k, i, count, ha="center", va="center", color="white" if 2 * count > max(row) else "black")
    save(figure, path)
    print(title + " (rows: what is; columns: what it was taken for)")
    print("     " + "".join(f"{k:4}" for k in range(len(counts))))
    for i, row in enumerate(counts):
        print(f"{i:4} " + "".join(f"{count:4}" if count else "   ." for count in row))


def save(figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot().close(figure)
    print(f"drawn: {path}")
