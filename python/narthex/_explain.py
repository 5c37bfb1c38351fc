"""`narthex explain`: runs a program and tells what torch.compile made of it.

A `Recorder` listens to the capture engine as the logs do, and times the stages of the default backend; a `Report` sorts
what it has and shows it as text or as a page. A program that sets its own logs is heard as well.
"""

import re
import sys
from collections import Counter
from html import escape
from time import perf_counter

_TIME = re.compile(r": ([0-9.]+) us")
STAGES = ("capture", "aot", "lower", "backend", "first run")


class Compilation:
    """One try of the capture engine at a frame, or at what stands behind a break in it."""

    def __init__(self, name: str, file: str, line: int, reason) -> None:
        self.name, self.file, self.line, self.recompiled_for = name, file, line, reason
        self.graph = self.stopped = None
        self.done, self.guards, self.guards_ns, self.times, self.compiled = False, 0, 0, Counter(), []

    def measured(self) -> list:
        """What mode="max-autotune" measured: the steps that take longest."""
        return [line for compiled in self.compiled for line in _longest(compiled.measured().splitlines())]


def _longest(lines: list, shown: int = 12) -> list:
    """The lines of a program's measured steps, the longest first, those of a backward behind those of its forward."""
    found, steps = [], []
    for line in [*lines, ""]:
        if line.startswith("  "):
            steps.append(line)
            continue
        steps.sort(key=lambda step: -float(_TIME.search(step)[1]))
        found += steps[:shown] + ([f"  and {len(steps) - shown} others"] if len(steps) > shown else [])
        found += [line] if line else []
        steps = []
    return found


class Graph:
    """What is worth telling of a captured graph."""

    def __init__(self, graph, name: str) -> None:
        self.name, self.python = name, graph.python(shapes=True, lines=True)
        calls = [node for node in graph.nodes if node.op.startswith("call")]
        self.inputs = sum(node.op == "placeholder" for node in graph.nodes)
        self.calls = Counter(str(node.target) for node in calls)
        self.lines = [(node.file, node.line) for node in calls if node.file]

    def where(self) -> str:
        """`train.py:12-30`, for each file that it comes from."""
        spans: dict = {}
        for file, line in self.lines:
            first, last = spans.get(file, (line, line))
            spans[file] = min(first, line), max(last, line)
        named = ((_short(file), first, last) for file, (first, last) in spans.items())
        return ", ".join(f"{f}:{a}" if a == b else f"{f}:{a}-{b}" for f, a, b in named) or "no user's line"


class Recorder:
    """Listens from `install` on; `compilations` in order, `fallbacks` at the end."""

    def __init__(self) -> None:
        self.compilations: list = []
        self.reason = self.program_listens = None
        self.began: dict = {}

    def install(self) -> None:
        """Takes the capture engine's events and the times of the default backend's stages."""
        from . import _C
        from ._functorch import aot_autograd

        set_log = _C.set_capture_log
        make_aot = aot_autograd.aot_graphs
        _C.set_capture_log = lambda listener: setattr(self, "program_listens", listener)
        aot_autograd.aot_graphs = lambda *args, **keywords: _TimedAot(self, make_aot, args, keywords)
        set_log(self.event)

    def event(self, name: str, /, **info) -> None:
        """One event of the capture engine."""
        handler = getattr(self, "on_" + name, None)
        if handler is not None:
            handler(**info)
        if self.program_listens is not None:
            self.program_listens(name, **info)

    def add_time(self, stage: str, seconds: float) -> None:
        """Counts time to the latest compilation."""
        if self.compilations:
            self.compilations[-1].times[stage] += seconds

    def _begin(self, what: str) -> None:
        self.began[what] = perf_counter()

    def _end(self, what: str) -> float:
        return perf_counter() - self.began.pop(what, perf_counter())

    def on_recompile(self, reason) -> None:
        """A guard of the newest compilation failed."""
        self.reason = str(reason)

    def on_start(self, code, filename, line, name, stack) -> None:
        """A trace begins. One that began before and was never done was a try that is now repeated."""
        if self.compilations and not self.compilations[-1].done and self.compilations[-1].name == name:
            self.reason = self.reason or self.compilations.pop().recompiled_for
        self.compilations.append(Compilation(name, filename, line, self.reason))
        self.reason = None
        self._begin("capture")

    def on_break(self, code, reason, detail, filename, line, mend) -> None:
        """The graph ends before the end of the function."""
        why = f"{reason}: {detail}" if detail else reason
        self.compilations[-1].stopped = {"file": filename, "line": line, "why": why, "mend": mend}

    def on_done(self, name, reason) -> None:
        """The trace is whole."""
        self.compilations[-1].done = True
        self.add_time("capture", self._end("capture"))

    def on_graph(self, graph, name) -> None:
        """The captured graph, before the backend gets it."""
        self.compilations[-1].graph = Graph(graph, name)

    def on_call_backend(self, backend, name) -> None:
        """The backend begins."""
        self._begin("backend")

    def on_backend_done(self, backend, name) -> None:
        """The backend has returned; what of its time was not AOT or lowering is its own."""
        times = self.compilations[-1].times
        times["backend"] += max(0.0, self._end("backend") - times["aot"] - times["lower"])

    def on_guards(self, guards) -> None:
        """What the piece depends on."""
        self.compilations[-1].guards = len(guards)

    def on_run(self, name, guards_ns) -> None:
        """A piece runs for the first time; its guards took that long."""
        if self.compilations:
            self.compilations[-1].guards_ns = guards_ns
        self.began["first run"] = (perf_counter(), self.compilations[-1] if self.compilations else None)

    def on_ran(self, name) -> None:
        """It has run; pieces that were compiled meanwhile have their own times."""
        began, compilation = self.began.pop("first run", (None, None))
        if compilation is not None:
            compilation.times["first run"] += perf_counter() - began


class _TimedAot:
    """An Aot whose making and lowering are timed."""

    def __init__(self, recorder: Recorder, make, args, keywords) -> None:
        before = perf_counter()
        self._aot, self._recorder = make(*args, **keywords), recorder
        recorder.add_time("aot", perf_counter() - before)

    def compile(self, *args, **keywords):
        """`Aot.compile`."""
        before = perf_counter()
        compiled = self._aot.compile(*args, **keywords)
        self._recorder.add_time("lower", perf_counter() - before)
        if self._recorder.compilations:
            self._recorder.compilations[-1].compiled.append(compiled)
        return compiled

    def __getattr__(self, name: str):
        return getattr(self._aot, name)


def _short(file) -> str:
    """The name of a file as it is read best: from the folder we are in, or from the package's."""
    from os import getcwd

    package = __file__.rpartition("/")[0].rpartition("/")[0] + "/"
    for folder in (getcwd().rstrip("/") + "/", package):
        if str(file).startswith(folder) and "/site-packages/" not in str(file)[len(folder) :]:
            return str(file)[len(folder) :]
    return str(file)


def _source(file, line) -> str:
    from linecache import getline

    return getline(str(file), line).strip()


def _spent(times: Counter) -> str:
    shown = [f"{stage} {times[stage] * 1e3:.2f}" for stage in STAGES if times[stage] >= 5e-6]
    return ", ".join(shown) + " ms" if shown else "nothing worth telling"


def _count(n: int, what: str) -> str:
    return f"{n} {what}" + ("" if n == 1 else "s")


class Report:
    """What a Recorder has, sorted."""

    def __init__(self, recorder: Recorder, fallbacks: dict) -> None:
        self.compilations, self.fallbacks = recorder.compilations, fallbacks
        done = [each for each in self.compilations if each.done]
        self.graphs = [each for each in done if each.graph]
        self.breaks = [each for each in done if each.stopped]
        self.recompiled = [each for each in self.compilations if each.recompiled_for]
        self.left_alone = [each for each in self.compilations if not each.done]
        self.total = sum((each.times for each in self.compilations), Counter())

    def summary(self) -> str:
        """One line."""
        parts = (
            _count(len(self.graphs), "graph"),
            _count(sum(each.graph.calls.total() for each in self.graphs), "node"),
            _count(len(self.breaks), "graph break"),
            _count(len(self.recompiled), "recompilation"),
            _count(len(self.fallbacks), "operator") + " fell back",
        )
        return ", ".join(parts)

    def text(self) -> str:
        """Everything as text."""
        if not self.compilations:
            return "narthex explain: nothing was compiled: the program called no function that torch.compile returned\n"
        lines = ["narthex explain: " + self.summary(), "", "Graphs"]
        for each in self.graphs:
            lines += self._graph_lines(each)
        lines += ["", "Graph breaks"] if self.breaks else []
        for (where, source, why, mend), times in self._break_rows().items():
            often = f" ({times} times)" if times > 1 else ""
            lines += [f"  {where}: {source}", f"    {why}{often}", f"    to mend it: {mend}"]
        lines += ["", "Recompilations"] if self.recompiled else []
        for each in self.recompiled:
            lines.append(f"  {each.name} at {_short(each.file)}:{each.line}: {each.recompiled_for}")
        lines += ["", "Left uncompiled"] if self.left_alone else []
        lines += [f"  {each.name} at {_short(each.file)}:{each.line}" for each in self.left_alone]
        lines += ["", "Operators that the device lacks, computed on the CPU"] if self.fallbacks else []
        lines += [f"  {name}: {_count(calls, 'call')}" for name, calls in self.fallbacks.items()]
        return "\n".join([*lines, "", "Time: " + _spent(self.total), ""])

    def _break_rows(self) -> Counter:
        stops = [each.stopped for each in self.breaks]
        return Counter(
            (f"{_short(s['file'])}:{s['line']}", _source(s["file"], s["line"]), s["why"], s["mend"]) for s in stops
        )

    @staticmethod
    def _graph_lines(each) -> list:
        graph = each.graph
        common = ", ".join(f"{name} {n}" if n > 1 else name for name, n in graph.calls.most_common(6))
        more = len(graph.calls) - 6
        return [
            f"  {graph.name} of {each.name} at {_short(each.file)}:{each.line}",
            f"    {_count(graph.calls.total(), 'node')} from {graph.where()}: {common}"
            + (f", and {more} other kinds" if more > 0 else ""),
            f"    {_count(graph.inputs, 'input')}, {_count(each.guards, 'guard')} "
            f"({each.guards_ns / 1e3:.2f} us a call); {_spent(each.times)}",
            *(f"    {line}" for line in each.measured()),
        ]

    def page(self, title: str) -> str:
        """Everything as a page that needs nothing but itself."""
        parts = [f"<h1>{escape(title)}</h1><p>{escape(self.summary())}</p>", self._times_table(), "<h2>Graphs</h2>"]
        for each in self.graphs:
            head, *rest = map(escape, self._graph_lines(each))
            code = f"<details><summary>code</summary><pre>{escape(each.graph.python)}</pre></details>"
            parts.append(f"<h3>{head}</h3><p>{'<br>'.join(rest)}</p>{code}")
        rows = [(*row, times) for row, times in self._break_rows().items()]
        parts.append(_table("Graph breaks", ("where", "line", "why", "to mend it", "times"), rows))
        rows = [(each.name, f"{_short(each.file)}:{each.line}", each.recompiled_for) for each in self.recompiled]
        parts.append(_table("Recompilations", ("function", "where", "guard that failed"), rows))
        rows = [(each.name, f"{_short(each.file)}:{each.line}") for each in self.left_alone]
        parts.append(_table("Left uncompiled", ("function", "where"), rows))
        parts.append(_table("Operators computed on the CPU", ("operator", "calls"), list(self.fallbacks.items())))
        return _PAGE.format(title=escape(title), body="\n".join(parts))

    def _times_table(self) -> str:
        whole = max((sum(each.times.values()) for each in self.compilations), default=0.0) or 1.0
        rows = []
        for each in self.compilations:
            bars = "".join(
                f'<i class="s{at}" style="width:{each.times[stage] / whole * 100:.2f}%" '
                f'title="{stage} {each.times[stage] * 1e3:.2f} ms"></i>'
                for at, stage in enumerate(STAGES)
            )
            rows.append(f"<tr><td>{escape(each.name)}</td><td class=bar>{bars}</td><td>{_spent(each.times)}</td></tr>")
        key = "".join(f'<i class="s{at} key"></i>{stage} ' for at, stage in enumerate(STAGES))
        return f"<h2>Time</h2><p>{key}</p><table>{''.join(rows)}</table>"


def _table(title: str, heads: tuple, rows: list) -> str:
    if not rows:
        return ""
    cells = ["".join(f"<td>{escape(str(cell))}</td>" for cell in row) for row in rows]
    top = "".join(f"<th>{head}</th>" for head in heads)
    return f"<h2>{title}</h2><table><tr>{top}</tr>" + "".join(f"<tr>{row}</tr>" for row in cells) + "</table>"


_PAGE = """\
<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{title}</title>
<style>
body {{ font: 15px/1.5 sans-serif; margin: 2em auto; max-width: 70em; padding: 0 1em }}
table {{ border-collapse: collapse; width: 100% }}
td, th {{ border-bottom: 1px solid #ccc; padding: .3em .6em; text-align: left; vertical-align: top }}
pre {{ background: #f4f4f4; overflow-x: auto; padding: .6em }}
.bar {{ width: 50% }} i {{ display: inline-block; height: .9em }} .key {{ width: .9em; margin: 0 .3em 0 1em }}
.s0 {{ background: #4477aa }} .s1 {{ background: #66ccee }} .s2 {{ background: #228833 }}
.s3 {{ background: #bbbbbb }} .s4 {{ background: #ee6677 }}
</style>
{body}
</html>
"""


def explain(run, title: str, html=None) -> None:
    """Calls `run`, then tells what was compiled: on standard output, and in the file `html` if it is given.

    What `run` raises, SystemExit too, goes on afterwards.
    """
    recorder = Recorder()
    recorder.install()
    try:
        run()
    finally:
        from . import _C

        report = Report(recorder, _C.fallbacks())
        sys.stdout.flush()
        if html is not None:
            with open(html, "w", encoding="utf-8") as file:
                file.write(report.page(title))
            print(f"narthex explain: {report.summary()}; {html} shows them")
        else:
            print(report.text(), end="")
