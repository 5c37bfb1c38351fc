"""Writes the folds of reductions (loops_reduce_*.c) and their tables."""

from gen.model import CLASSES, COMPUTE, DTYPES, SHORT, TYPES, admitted
from gen.syntax import Expr, Problem
from gen.write_loops import Element, load, loop_rows, names_in, store

PARTS = {"complex64": "float32", "complex128": "float64"}


def folded(entry):
    """The dtypes that have folds: those of the result."""
    dtype = entry.results[0].dtype
    names = {e.value for e in dtype.walk() if e.op == "name"} if dtype else {"T"}
    fixed = names & {name for _, name, _, _ in DTYPES}
    return fixed if fixed and not names & {"T", "dtype"} else set(admitted(entry)) & set(COMPUTE)


def write_reduce(world, sibling, add, header):
    """Folds of `reduce (a = init) step a op x done E`: the state in strands, which the compiler makes vectors."""
    row = sibling.entry.one("reduce")
    value = row.value
    state, step = value["state"], value["step"]
    known = (step.op == "binary" and step.value in "+*") or (step.op == "call" and step.value in ("max", "min"))
    if not known or getattr(step.args[0], "value", None) != state or state in names_in(step.args[1]):
        known = f"{state} + x, {state}*x, max({state}, x), min({state}, x), x being any expression of it"
        raise Problem(row.at, f"not yet generated: a step other than {known}")
    names = {}
    for _, dtype, c_type, category in DTYPES:
        if dtype not in folded(sibling.entry):
            continue
        # Integers add up in 64 bits: the lower bits are those of the narrow sum. bool keeps its own `or` and `and`.
        inner = "int64" if category == "i" else dtype
        name = f"nx__fold_{sibling.entry.name.replace('.', '_')}_{SHORT[dtype]}"
        add(sibling, dtype, Fold(world, name, dtype, c_type, inner, value).text())
        header.append((dtype, f"extern const nx_reduce_loop {name}_$;"))
        names[dtype] = name
    return names


# Bytes behind what is folded now, which are asked for: what the processor asks for alone comes too late; of two streams
# (reduce.c), which it follows better than one, it comes in time.
AHEAD = 2048


class Fold:
    """The fold of one dtype as C: its state stands in strands, of which the compiler makes vectors. A sum of complex
    numbers is that of their parts: a number then takes two lanes of a state, and everything else one."""

    def __init__(self, world, name, dtype, c_type, inner, value):
        self.world, self.name, self.dtype, self.c_type = world, name, dtype, c_type
        self.state, self.step, self.short = value["state"], value["step"], name.removeprefix("nx__")
        self.inner, self.compute = inner, COMPUTE[inner]
        self.width = 512 // next(t.bits for t in TYPES.values() if t.c == self.compute)
        self.start = Element(world, inner, {}).text(value["initial"])
        self.final = Element(world, inner, {self.state: "s[0]", "n": f"({self.compute})count"}).text(value["done"])
        self.adds = self.step.op == "binary"
        plain = self.adds and self.step.value == "+" and self.step.args[1].value == "x" and self.compute == c_type
        self.lane = PARTS.get(inner, inner) if plain else inner
        self.number, self.in_parts = COMPUTE[self.lane], self.lane != inner
        self.lanes, self.twice = (2 * self.width, "2 * ") if self.in_parts else (self.width, "")
        self.read = self.number if self.in_parts else c_type  # what elements are read as
        self.x = "(uint8_t)({} != 0)" if dtype == "bool" else load(self.lane if self.in_parts else dtype, "{}")
        if inner == "int64":
            self.x = "(uint64_t)(int64_t){}"
        self.widens = dtype == "float16"  # side by side, many at once
        # Choices become vectors in a loop alone, sums also where it has been unrolled, and then faster.
        self.together = "" if self.adds else "#pragma GCC unroll 1\n"
        # Four elements of a strand are joined apart from the state, for which the next four wait; of floats the state
        # then also takes the rounding of a fourth of the steps. The largest of four, and a sum of integers, have none.
        self.rounds = self.adds and inner in CLASSES["float"] + CLASSES["complex"]

    def apply(self, a, x):
        return Element(self.world, self.lane, {self.state: a, "x": x}).text(self.step)

    def brought(self, at, start, count, room):
        """C that brings `count` elements from at[start] on, and what element k of them is then."""
        if not self.widens:
            return "", lambda k: self.x.format(f"{at}[{start}{k}]")
        first = start.removesuffix(" + ")
        widen = f"nx_widen_f16(wide_{at}, {at}{' + ' if first else ''}{first}, {count});"
        return f"float wide_{at}[{room}];\n{widen}\n", lambda k: f"wide_{at}[{k}]"

    def join(self, a, x, dtype=None):
        both = Expr(
            self.step.op, self.step.at, [self.step.args[0], Expr("name", self.step.at, [], "x")], self.step.value
        )
        return Element(self.world, dtype or self.lane, {self.state: a, "x": x}).text(both)

    def four(self, texts):
        parts = [Element(self.world, self.lane, {"x": x}).text(self.step.args[1]) for x in texts]
        return self.join("s[k]", self.join(self.join(*parts[:2]), self.join(*parts[2:])))

    def text(self):
        short, strided = self.short, self.strided() if self.rounds else ""
        return f"""{self.beginning()}{strided}{self.along()}{self.end()}{self.columns()}\
const nx_reduce_loop NX_AT_LEVEL({self.name}) = {{{short}_init, {short}_fold, {short}_merge, {short}_done,
                                            {short}_columns, {short}_done_columns, {self.width}}};
"""

    def beginning(self):
        return f"""static void {self.short}_init(void *state) {{
    {self.compute} *s = state;
    for (int k = 0; k < {self.width}; k++) s[k] = {self.start};
}}
"""

    def strided(self):
        """The part of a fold by fours for elements that do not lie side by side; how many it took."""
        joined = self.four(
            self.x.format(f"((const {self.read} *)(at + {k * self.width} * step))[{'k % 2' if self.in_parts else 0}]")
            for k in range(4)
        )
        return f"""static __attribute__((noinline))
int64_t {self.short}_strided({self.number} *s, const char *x, int64_t step, int64_t n) {{
    int64_t i = 0;
    for (; i + {4 * self.width} <= n; i += {4 * self.width}) {{
        for (int k = 0; k < {self.lanes}; k++) {{
            const char *at = x + (i + k{" / 2" if self.in_parts else ""}) * step;
            s[k] = {joined};
        }}
    }}
    return i;
}}
"""

    def copied(self):
        """Vectors, where memcpy may move less at a time than is read."""
        return f"{self.together}    for (int k = 0; k < {self.lanes}; k++)"

    def along(self):
        """Elements along a row."""
        width, by_fours = self.width, ""
        if self.rounds or not self.adds:
            bring, element = self.brought("at", f"{self.twice}i + ", 4 * width, 4 * width)
            joined = self.four(element(f"{k * self.lanes} + k") for k in range(4))
            by_fours = f"""
        const int64_t ahead = n > NX_REDUCE_PIECE ? {AHEAD} : 0;
        for (; i + {4 * width} <= n; i += {4 * width}) {{
            for (int k = 0; k < 4; k++) __builtin_prefetch((const char *)(at + i) + 64 * k + ahead);
{bring}{self.together}            for (int k = 0; k < {self.lanes}; k++) s[k] = {joined};
        }}"""
        places = [f"s[{self.twice}(i % {width}){part}]" for part in ["", " + 1"][: 1 + self.in_parts]]
        tail = "\n".join(f"        {at} = {self.apply(at, self.x.format(f'at[{k}]'))};" for k, at in enumerate(places))
        bring, element = self.brought("at", f"{self.twice}i + ", width, width)
        return f"""static void {self.short}_fold(void *state, const char *x, int64_t step, int64_t n) {{
    {self.number} s[{self.lanes}];
{self.copied()} s[k] = (({self.number} *)state)[k];
    int64_t i = 0;
    if (step == (int64_t)sizeof({self.c_type})) {{
        const {self.read} *at = (const {self.read} *)x;{by_fours}
        for (; i + {width} <= n; i += {width}) {{
{bring}{self.together}            for (int k = 0; k < {self.lanes}; k++) s[k] = {self.apply("s[k]", element("k"))};
        }}
    }}
{f"    else i = {self.short}_strided(s, x, step, n);" if self.rounds else ""}
    for (; i < n; i++) {{ /* the same strands for every step: a strided sum has the bits of a dense one */
        const {self.read} *at = (const {self.read} *)(x + i * step);
{tail}
    }}
{self.copied()} (({self.number} *)state)[k] = s[k];
}}
"""

    def end(self):
        """Two states as one, and a state as the result."""
        halves = "\n".join(
            f"{self.together}    for (int k = 0; k < {half}; k++) s[k] = {self.join('s[k]', f's[k + {half}]')};"
            for half in (self.lanes >> k for k in range(1, self.width.bit_length()))
        )
        final = self.final.replace("s[0]", f"*({self.compute} *)s") if self.in_parts else self.final
        return f"""static void {self.short}_merge(void *state, const void *other) {{
    {self.number} *s = state;
    const {self.number} *more = other;
    for (int k = 0; k < {self.lanes}; k++) s[k] = {self.join("s[k]", "more[k]")};
}}
static void {self.short}_done(const void *state, int64_t count, char *out) {{
    {self.number} s[{self.lanes}];
{self.copied()} s[k] = ((const {self.number} *)state)[k];
    (void)count;
{halves}
    *({self.c_type} *)out = {store(self.dtype, self.c_type, final)};
}}
"""

    def columns(self):
        """Rows side by side into states that stand strand by strand, and their results."""
        short, width = self.short, self.width
        each = store(self.dtype, self.c_type, self.final.replace("s[0]", "s[k]"))
        met = self.join("s[k]", "s[k + half * NX_REDUCE_COLUMNS]", self.inner)
        bring, element = self.brought("at", "", "columns", "NX_REDUCE_COLUMNS")
        return f"""static void {short}_columns(void *states, const char *x, int64_t step, int64_t n, int columns,
    bool fresh) {{
    int64_t i = 0;
    for (; fresh && i < n && i < {width}; i++, x += step) {{
        const {self.read} *at = (const {self.read} *)x;
        {self.number} *s = ({self.number} *)(({self.compute} *)states + i * NX_REDUCE_COLUMNS);
{bring}#pragma GCC ivdep
        for (int k = 0; k < {self.twice}columns; k++) s[k] = {self.apply(f"({self.number}){self.start}", element("k"))};
    }}
{self.columns_by_fours() if self.rounds else ""}    for (; i < n; i++, x += step) {{
        const {self.read} *at = (const {self.read} *)x;
        {self.number} *s = ({self.number} *)(({self.compute} *)states + i % {width} * NX_REDUCE_COLUMNS);
{bring}#pragma GCC ivdep
        for (int k = 0; k < {self.twice}columns; k++) s[k] = {self.apply("s[k]", element("k"))};
    }}
}}
static void {short}_done_columns(void *states, int64_t count, int columns, char *out, int64_t step) {{
    {self.compute} *s = states;
    for (int half = {width // 2}; half > 0; half /= 2) {{
        const int used = count - half < half ? (int)count - half : half; /* strands from `half` on that have elements */
#pragma GCC ivdep
        for (int k = 0; k < used * NX_REDUCE_COLUMNS; k++) s[k] = {met};
    }}
    if (step == (int64_t)sizeof({self.c_type})) {{
#pragma GCC ivdep
        for (int k = 0; k < columns; k++) (({self.c_type} *)out)[k] = {each};
        return;
    }}
    for (int k = 0; k < columns; k++) *({self.c_type} *)(out + k * step) = {each};
}}
"""

    def columns_by_fours(self):
        width, rows, elements = self.width, "", []
        for k in range(4):
            bring, element = self.brought(f"at{k}", "", "columns", "NX_REDUCE_COLUMNS")
            rows += f"            const {self.read} *at{k} = (const {self.read} *)(x + (j + {k * width}) * step);\n"
            rows += bring
            elements.append(element("k"))
        joined = self.four(elements)
        return f"""    for (; i + {4 * width} <= n; i += {4 * width}, x += {4 * width} * step) {{
        for (int j = 0; j < {width}; j++) {{
            {self.number} *s = ({self.number} *)(({self.compute} *)states + j * NX_REDUCE_COLUMNS);
{rows}#pragma GCC ivdep
            for (int k = 0; k < {self.twice}columns; k++) s[k] = {joined};
        }}
    }}
"""


def write_reduce_table(sibling, names, levels, source):
    place = sibling.entry.results[0]
    params = [sibling.argument(getattr(arg, "value", None)) for arg in place.args[1:]]
    dim, keepdim = (p.index if p else -1 for p in params)
    source.add(f"""static const nx_reduce reduce_{sibling.c_name} = {{
    .dim_param = {dim}, .keepdim_param = {keepdim},
    .loop = {{
{loop_rows({dtype: "&" + c for dtype, c in names.items()}, levels, "        ")}
    }},
}};
""")
