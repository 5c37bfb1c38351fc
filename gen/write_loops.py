"""Writes the element loops of point operators and their tables (loops_*.c, loops.h); folds: write_folds.py.

One text serves every instruction-set level: it is compiled once a level, with NX_LEVEL_NAME as the suffix of its
symbols. Each loop is written for one dtype: integers wrap (they compute unsigned), half types compute in float, bool
has `or` for + and `and` for *. Contiguous operands have a loop of their own, which the compiler turns into vectors."""

from gen.expr import Body, scope_of
from gen.model import CLASSES, COMPUTE, DTYPES, SHORT, TYPES, admitted
from gen.read import COMPARE
from gen.syntax import Expr, Problem
from gen.values import Value, c_string, constant

BITS = {"bit_and": "x&y", "bit_or": "x|y", "bit_xor": "x^y", "bit_not": "~x"}
ABSENT = "None"  # the arm of a text that is absent
DIVISIONS = ("truncdiv", "floordiv", "remainder", "fmod")  # of integers they fail where the divisor is 0
SHIFTS = ("shift_left", "shift_right")

COMPLEX_HEAD = '#include "kernel/complex.h"\n'
HEAD = """/* Element loops and folds of one instruction-set level: compiled once a level with NX_LEVEL_NAME set.
 * Generated from ops/. */
#include "base/half.h"
#include "dispatch/loop.h"
#include "kernel/element.h"
#include "kernel/special.h"

#include <string.h>

/* One text for all dtypes asks uint8 whether it is negative. */
#pragma GCC diagnostic ignored "-Wtype-limits"

/* Elements that are looked at together before a function of near ones is taken; numbers of float16 that are in
 * registers together. */
enum { NX_NEAR_PIECE = 1024, NX_HALF_STRIP = 16 };
"""


class Element:
    """Compiles an element expression for one dtype to one C expression."""

    def __init__(self, world, dtype, scope, arms=None):
        self.world, self.dtype, self.scope = world, dtype, scope
        self.arms = arms or {}  # {parameter: its value} where a text chooses the loop
        self.numbers = ()  # those that are rounded before the loop
        self.n_names, self.near = 0, False
        self.type = COMPUTE[dtype]
        self.is_float, self.is_complex = dtype in CLASSES["float"], dtype in CLASSES["complex"]
        self.suffix = "f" if self.type in ("float", "float _Complex") else ""  # of a C function's name

    def text(self, expr):
        return getattr(self, "text_" + expr.op, self.refuse)(expr)

    def refuse(self, expr):
        raise Problem(expr.at, f"not yet generated: '{expr.op}' in an element expression")

    def number(self, value):
        if self.is_complex:
            return f"(({self.type}){float(value)!r}{self.suffix})"
        if self.is_float:
            return repr(float(value)) + ("" if self.type == "double" else "f")
        return f"({self.type}){int(value)}"

    def limit(self, word):
        """The smallest or largest value of the dtype; infinities where there are some."""
        if self.is_float:
            return "-INFINITY" if word == "lowest" else "INFINITY"
        if self.is_complex:
            return None
        return f"({self.type}){TYPES[self.dtype].limits[word == 'highest']}"

    def text_number(self, expr):
        return self.number(expr.value)

    def signed(self, text):
        """An integer as what its dtype says, in 64 bits."""
        known = TYPES[self.dtype]
        return f"(int64_t)({known.computes_signed if known.category == 'SIGNED' else known.c}){text}"

    def text_const(self, expr):
        if expr.value in self.scope:  # nan_to_num has a parameter `nan`
            return self.scope[expr.value]
        if not (self.is_float or self.is_complex) or expr.value in ("None", "True", "False"):
            self.refuse(expr)
        return {"inf": "INFINITY", "nan": "NAN"}[expr.value]

    def text_name(self, expr):
        if expr.value not in self.scope:
            raise Problem(expr.at, f"no name '{expr.value}' here (in scope: {', '.join(sorted(self.scope))})")
        return self.scope[expr.value]

    def text_unary(self, expr):
        inside = self.text(expr.args[0])
        if expr.value == "not":
            return f"(!{inside})"
        if self.dtype == "bool":
            raise Problem(expr.at, "'-' does not exist for bool: leave bool out of 'types'")
        return f"({self.type})(-{inside})"

    def text_binary(self, expr):
        word = expr.value
        if word == "??":
            return self.text(absent_limit(expr)[0])
        a, b = (self.text(arg) for arg in expr.args)
        if self.is_complex and word not in ("and", "or"):
            return self.complex_binary(expr, a, b)
        if word in COMPARE:
            signed = TYPES[self.dtype].computes_signed
            return f"(({signed}){a} {word} ({signed}){b})"
        if word in ("and", "or"):
            return f"({a} {'&&' if word == 'and' else '||'} {b})"
        if self.dtype == "bool":
            if word not in "+*":
                raise Problem(expr.at, f"'{word}' does not exist for bool: leave bool out of 'types'")
            return f"({a} {'|' if word == '+' else '&'} {b})"
        if word in "+-*" or (word == "/" and self.is_float):
            return f"({a} {word} {b})"
        raise Problem(expr.at, f"'{word}' does not exist for {self.dtype}: leave it out of 'types'")

    def complex_binary(self, expr, a, b):
        if expr.value in "+-" or expr.value in ("==", "!="):
            return f"({a} {expr.value} {b})"
        if expr.value in "*/":
            return f"nx_complex_{'mul' if expr.value == '*' else 'div'}{self.suffix}({a}, {b})"
        raise Problem(expr.at, f"'{expr.value}' does not exist for {self.dtype}: leave complex out of 'types'")

    def text_if(self, expr):
        condition, yes, no = (self.text(arg) for arg in expr.args)
        return f"({condition} ? {yes} : {no})"

    def bound(self, binds, body):
        """`body` with names bound to texts: each is computed once, as a local of a statement expression."""
        before, lines = self.scope, []
        scope = dict(before)
        for name, text in binds:
            if not text.isidentifier():
                self.n_names += 1
                local = f"{name}_{self.n_names}"
                lines.append(f"const {self.type} {local} = {text};")
                text = local
            scope[name] = text
        self.scope = scope
        text = self.text(body)
        self.scope = before
        return f"({{ {' '.join(lines)} {text}; }})" if lines else text

    def text_let(self, expr):
        binds = expr.value
        if len(binds) == 1:
            (name, first), = binds
            return self.bound([(name, self.text(first))], expr.args[0])
        rest = Expr("let", expr.at, expr.args, binds[1:])
        (name, first) = binds[0]
        return self.bound([(name, self.text(first))], rest)

    def keeps(self, expr, kept):
        """Whether it is a number of the dtype, and needs no rounding, as those named `kept` are: an operand, its sign
        or whole part, a condition, a choice among such."""
        if expr.op == "match":
            return self.keeps(self.arm(expr), kept)
        if expr.op == "let":
            for name, first in expr.value:
                kept = kept | {name} if self.keeps(first, kept) else kept - {name}
            return self.keeps(expr.args[0], kept)
        if expr.op == "call" and expr.value in self.world.functions and expr.value not in self.world.prims:
            function = self.world.functions[expr.value]
            of_args = {name for name, arg in zip(function.params, expr.args) if self.keeps(arg, kept)}
            return self.keeps(function.body, of_args)
        if expr.op == "if" or (expr.op == "call" and expr.value == "where"):
            return all(self.keeps(arg, kept) for arg in expr.args[1:])
        if expr.op == "unary" and expr.value == "-":
            return self.keeps(expr.args[0], kept)
        if expr.op == "call" and expr.value in KEEPING:
            return all(self.keeps(arg, kept) for arg in expr.args[: KEEPING[expr.value]])
        if expr.op == "number":
            return abs(expr.value) <= 256 and float(expr.value).is_integer()
        if expr.op in ("name", "const"):
            return expr.value in kept | {"inf", "nan"}
        return expr.op == "unary" or expr.value in (*COMPARE, "and", "or")

    def text_match(self, expr):
        return self.text(self.arm(expr))

    def arm(self, expr):
        """`match T`, `match approximate`: the arm is chosen here, each dtype and each text has its own loop."""
        if expr.op != "match":
            return expr
        subject = expr.args[0].value if expr.args[0].op == "name" else None
        if subject != "T" and subject not in self.arms:
            self.refuse(expr)
        for key, body in zip(expr.value, expr.args[1:]):
            fits = self.dtype in CLASSES.get(key, [key]) if subject == "T" else key == self.arms[subject]
            if key == "else" or fits:
                return self.arm(body)
        raise Problem(expr.at, f"no arm for {self.dtype if subject == 'T' else self.arms[subject]}")

    def bits(self, expr, args):
        """Of integers bit by bit; of bool as logic."""
        if self.is_float or self.is_complex:
            raise Problem(expr.at, f"'{expr.value}' does not exist for {self.dtype}: leave it out of 'types'")
        if len(args) == 1:
            return f"(!{args[0]})" if self.dtype == "bool" else f"(~{args[0]})"
        return f"({args[0]} {BITS[expr.value][1]} {args[1]})"

    def divide(self, expr, args):
        """Quotients that are whole, remainders, shifts: functions of kernel/element.h."""
        if self.dtype == "bool":
            raise Problem(expr.at, f"'{expr.value}' does not exist for bool: leave it out of 'types'")
        if self.is_float:
            return f"nx_{expr.value}{'' if self.type == 'double' else 'f'}({', '.join(args)})"
        if expr.value in SHIFTS:
            return f"({self.type})nx_int_{expr.value}({', '.join(map(self.signed, args))}, {TYPES[self.dtype].bits})"
        return f"({self.type})nx_int_{expr.value}({', '.join(map(self.signed, args))})"

    def extreme(self, word, expr):
        """The larger or smaller of two, NaN if one of them is."""
        a, b = (self.text(arg) for arg in expr.args)
        if self.is_float:
            name = "nx_larger" if word == "max" else "nx_smaller"
            return f"{name}{self.suffix}({a}, {b})"
        names = [Expr("name", expr.at, [], "a'"), Expr("name", expr.at, [], "b'")]
        before, self.scope = self.scope, {"a'": "a_", "b'": "b_"}
        test = self.text(Expr("binary", expr.at, names, ">" if word == "max" else "<"))
        self.scope = before
        return f"({{ const {self.type} a_ = {a}, b_ = {b}; {test} ? a_ : b_; }})"

    def text_call(self, expr):
        if expr.value in ("lowest", "highest") and len(expr.args) == 1 and expr.args[0].value == "T":
            text = self.limit(expr.value)
            return text or self.refuse(expr)
        args = [self.text(arg) for arg in expr.args]
        if expr.value == "where" and len(args) == 3:
            return f"({args[0]} ? {args[1]} : {args[2]})"
        if expr.value in ("conj", "real") and not self.is_complex:
            return args[0]
        if expr.value == "rounded":  # to the dtype itself, where that is narrower than what computes
            return args[0] if expr.args[0].value in self.numbers else round_to(self.dtype, args[0])
        if expr.value in BITS:
            return self.bits(expr, args)
        if expr.value in ("min", "max") and len(args) == 2:
            return self.extreme(expr.value, expr)
        if expr.value in DIVISIONS or (expr.value in SHIFTS and not self.is_float):
            return self.divide(expr, args)
        if expr.value == "isnan":
            return f"({args[0]} != {args[0]})" if self.is_float or self.is_complex else "0"
        if expr.value == "pow" and self.dtype in CLASSES["int"]:
            return f"({self.type})nx_int_pow({self.signed(args[0])}, {self.signed(args[1])})"
        prim = self.world.prims.get(expr.value)
        if prim:
            if len(args) != len(prim.params) or self.dtype not in [n for w in prim.types for n in CLASSES.get(w, [w])]:
                raise Problem(
                    expr.at, f"{expr.value} takes {len(prim.params)} of {' '.join(prim.types)}, not {self.dtype}"
                )
            if prim.types == ["int"]:
                return f"({self.type}){prim.c}({', '.join(map(self.signed, args))})"
            name = prim.complex if self.is_complex else prim.c + "_near"*(self.near and prim.near is not None)
            return f"{name}{self.suffix}({', '.join(args)})"
        function = self.world.functions.get(expr.value)
        if not function:
            raise Problem(expr.at, f"no element function '{expr.value}' (ops/prim.op lists them)")
        if len(args) != len(function.params):
            raise Problem(expr.at, f"{expr.value} takes {len(function.params)} arguments")
        before, self.scope = self.scope, {}
        text = self.bound(list(zip(function.params, args)), function.body)
        self.scope = before
        return text


# Functions that keep a number one of its dtype, and how many arguments must be such.
KEEPING = {"abs": 1, "floor": 1, "ceil": 1, "trunc": 1, "round": 1, "copysign": 1, "min": 2, "max": 2, "isnan": 0,
           "rounded": 0, "conj": 1, "real": 1}
HALVES = {"float16": "f16", "bfloat16": "bf16"}


def load(dtype, text):
    if dtype in HALVES:
        return f"nx_load_{HALVES[dtype]}({text})"
    return f"({COMPUTE[dtype]}){text}"


def store(dtype, c_type, text, kept=False):
    """`kept`: it is a number of the dtype already."""
    if dtype in HALVES:
        return f"nx_{'keep' if kept and dtype == 'bfloat16' else 'store'}_{HALVES[dtype]}({text})"
    return f"({c_type})({text})"


def round_to(dtype, text):
    return load(dtype, store(dtype, "", text)) if dtype in HALVES else text


def constant_text(dtype, k):
    if dtype == "bool":
        return f"(uint8_t)(constants[{k}].i != 0)"
    if dtype in CLASSES["complex"]:
        return f"({COMPUTE[dtype]})nx_complex(constants[{k}].parts[0], constants[{k}].parts[1])"
    return f"({COMPUTE[dtype]})constants[{k}].{'f' if dtype in CLASSES['float'] else 'i'}"


# ---- point
LIMITS = {"lowest", "highest", "lowest_finite", "highest_finite"}  # of T, behind ??


def absent_limit(expr):
    """`min ?? lowest(T)`: a name, and what the number is where it is absent: one of LIMITS, "zero"."""
    name, limit = expr.args
    word = "zero" if limit.op == "number" and limit.value == 0 else limit.value if limit.op == "call" else None
    if name.op not in ("name", "const") or word not in LIMITS | {"zero"}:
        raise Problem(expr.at, f"in an element '??' has a number before it and behind it 0 or {sorted(LIMITS)} of T")
    return name, word


def operands(sibling):
    tensors = [a for a in sibling.arguments if a.base == "Tensor"]
    scalars = [a for a in sibling.arguments if a.base in ("Scalar", "int", "float") and a.list_of is None]
    others = [a for a in sibling.arguments if a not in tensors and a not in scalars and a.base != "str"]
    if others:
        raise Problem(others[0].param.at, f"not yet generated: a point operator with a {others[0].schema_type()}")
    if len(sibling.entry.results) != 1:
        raise Problem(sibling.at, "not yet generated: point operators with several results")
    return tensors, scalars


def result_kind(sibling):
    """How the loops' dtype follows from T: COMMON (it is T), FLOAT (division), BOOL (comparisons)."""
    dtype = sibling.entry.results[0].dtype
    if dtype is None or (dtype.op == "name" and dtype.value == "T"):
        return "COMMON"
    if dtype.op == "name" and dtype.value == "bool":
        return "BOOL"
    if dtype.op == "call" and dtype.value == "real":  # the loop writes complex numbers whose imaginary part is 0
        dtype = dtype.args[0]
    if dtype.op == "name" and dtype.value == "T":
        return "COMMON"
    if dtype.op == "call" and dtype.value == "float":
        return "FLOAT"
    if dtype.op == "call" and dtype.value == "complex":
        return "COMPLEX"
    if dtype.op == "if" and [part.value for part in dtype.args] == ["==", "float", "T"]:
        return "ARM"  # float(T) where the text that chooses the loop is absent
    known = "T, bool, float(T), real(T), complex(T)"
    raise Problem(dtype.at, f"not yet generated: a point operator with this result dtype ({known})")


def computed(sibling, arm=None):
    """The dtypes that have loops."""
    names, kind = [n for n in admitted(sibling.entry) if n in COMPUTE], result_kind(sibling)
    if kind == "COMPLEX":
        return CLASSES["complex"]
    floats = kind == "FLOAT" or (kind == "ARM" and arm == ABSENT)
    always = CLASSES["float"] + CLASSES["complex"]
    return [n for n in names if n in always or (not floats and n != "bool") or not (floats or kind == "ARM")]


def arms_of(sibling):
    """The argument whose text chooses the loop, and its texts; (None, [None]) where there is none."""
    chosen = [a for a in sibling.arguments if a.base == "str"]
    if len(chosen) > 1 or any(not a.param.type.inner for a in chosen):
        raise Problem(sibling.at, "not yet generated: more than one str, or one without choices")
    if not chosen:
        return None, [None]
    return chosen[0], [ABSENT] * chosen[0].optional + [key for key, _ in chosen[0].param.type.inner]


def names_in(expr):
    found = {expr.value} if expr.op == "name" else set()
    return found.union(*(names_in(arg) for arg in expr.args))


def unswitch(expr, numbers):
    """[(condition, expression)]: conditions of numbers alone, which are decided once; the last one's is None."""
    chooses = expr.op == "if" or (expr.op == "call" and expr.value == "where" and len(expr.args) == 3)
    if not chooses or not names_in(expr.args[0]) or not names_in(expr.args[0]) <= numbers:
        return [(None, expr)]
    condition, yes, no = expr.args
    return [(condition, yes)] + unswitch(no, numbers)


def write_point(world, sibling, written, add, header):
    """Gives the loops of a point operator to add(sibling, dtype, text). Returns {(arm, dtype): name without level}.
    What has been `written` already, {(dtype, text): name}, serves every operator that means the same."""
    tensors, scalars = operands(sibling)
    names = {}

    def write(arm, dtype, text):
        name = f"nx__loop_{sibling.c_name}_{arm + '_' if arm else ''}{SHORT[dtype]}"
        names[arm, dtype] = written.setdefault((dtype, text), name)
        if names[arm, dtype] == name:
            add(sibling, dtype, text.replace(LOOP_NAME, f"NX_AT_LEVEL({name})"))
            header.append((dtype, f"nx_loop_fn {name}_$;"))

    for arm in arms_of(sibling)[1]:
        dtypes = computed(sibling, arm)
        bodies = {dtype: point_bodies(world, sibling, arm, dtype) for dtype in dtypes}
        for _, dtype, c_type, _ in sorted(DTYPES, key=lambda row: row[1] in HALVES):
            if dtype not in dtypes:
                continue
            numbers = numbers_of(sibling, dtype)
            twin = names[arm, "float32"] if dtype in HALVES and bodies[dtype] == bodies.get("float32") else None
            cheap = is_cheap(world, sibling, arm, dtype)
            strips = bodies[dtype][0] if cheap or twin is None else []
            if dtype == "float16" or (dtype in HALVES and not strips):
                write(arm, dtype, half_loop(dtype, twin, len(tensors), numbers, strips))
            else:
                write(arm, dtype, point_loop(dtype, c_type, len(tensors), numbers, *bodies[dtype], cheap))
    return names


LOOP_NAME = "$loop"  # of a loop in its own text, until it has one
LOOP_PARAMETERS = "char *const *ptrs, const int64_t *steps, int64_t n, const nx_const *constants"


def rounded_numbers(sibling):
    """The numbers that the element's expression rounds to the dtype: they are rounded once, before the loop."""
    found = sibling.entry.one("point").value.walk()
    names = {e.args[0].value for e in found if e.op == "call" and e.value == "rounded" and e.args[0].op == "name"}
    return names & {a.name for a in operands(sibling)[1]}


def numbers_of(sibling, dtype):
    """What each number is in a loop of the dtype."""
    rounded, texts = rounded_numbers(sibling), []
    for k, number in enumerate(operands(sibling)[1]):
        text = constant_text(dtype, k)
        texts.append(round_to(dtype, text) if number.name in rounded else text)
    return texts


def point_bodies(world, sibling, arm, dtype):
    """What the loop of a dtype computes of an element, ([(condition of numbers or None, C expression, whether that is a
    number of the dtype already)], near_body)."""
    tensors, scalars = operands(sibling)
    argument, _ = arms_of(sibling)
    scope = {a.name: f"x{k}" for k, a in enumerate(tensors)} | {a.name: f"c{k}" for k, a in enumerate(scalars)}
    element = Element(world, dtype, scope, {argument.name: arm} if argument else None)
    element.numbers = rounded_numbers(sibling)
    expr = element.arm(sibling.entry.one("point").value)
    kept = {a.name for a in tensors} | element.numbers
    bodies = [
        (element.text(condition) if condition else None, element.text(expr), element.keeps(expr, kept))
        for condition, expr in unswitch(expr, {a.name for a in scalars})
    ]
    return bodies, near_body(world, element, expr)


CHEAP = 10  # what a function may cost: of others it is a small part to widen, narrow and move an element


def is_cheap(world, sibling, arm, dtype):
    """Whether what an element costs is mostly that it is brought: then its loop does so in the way that suits it."""
    argument, _ = arms_of(sibling)
    element = Element(world, dtype, {}, {argument.name: arm} if argument else None)
    expr = element.arm(sibling.entry.one("point").value)
    return cost(world, expr) <= CHEAP and not any(e.op == "call" and e.value in DIVISIONS for e in expr.walk())


def half_loop(dtype, twin, n, numbers, bodies):
    """The loop of a half type: by `bodies` dense operands are computed in registers, NX_HALF_STRIP at a time; the rest
    by float32's loop, the twin, where that computes the same, with numbers rounded where they are there."""
    text = point_constants(dtype, numbers) + "    int64_t done = 0;\n" if bodies else ""
    for condition, body, _ in bodies:
        block = half_strips(n, body) + ("" if twin else half_rest(n, body))
        end = "goto rest" if twin else "return"
        text += f"    if ({condition}) {{\n{block}        {end};\n    }}\n" if condition else block
    if twin and bodies:
        label = "rest:\n" if any(condition for condition, _, _ in bodies) else ""
        rest = ", ".join(f"ptrs[{k}] + done * steps[{k}]" for k in range(n + 1))
        text += f"{label}    if (done == n) return;\n    ptrs = (char *const[]){{{rest}}};\n    n -= done;\n"
    if twin:
        rounded = "constants"
        if any(number != constant_text(dtype, k) for k, number in enumerate(numbers)):
            rounded = f"(const nx_const[]){{{', '.join(f'{{.f = {number}}}' for number in numbers)}}}"
        half = f"NX_LOOP_{HALVES[dtype].upper()}"
        text += f"    nx_loop_by_floats(NX_AT_LEVEL({twin}), {half}, {n + 1}, ptrs, steps, n, {rounded});\n"
    declared = f"nx_loop_fn NX_AT_LEVEL({twin});\n" if twin else ""
    return f"{declared}void {LOOP_NAME}({LOOP_PARAMETERS}) {{\n{text}}}\n"


def half_rest(n, body):
    loads = " ".join(
        f"const float x{k} = nx_load_f16(*(const uint16_t *)(ptrs[{k + 1}] + done * steps[{k + 1}]));" for k in range(n)
    )
    return f"""    for (; done < n; done++) {{
        {loads}
        *(uint16_t *)(ptrs[0] + done * steps[0]) = nx_store_f16({body});
    }}
"""


def half_strips(n, body):
    """Strips of dense operands, and of those beside operands that are one element throughout."""
    text = ""
    for held in [set(), *held_operands(n)]:
        steps = ["0" if k - 1 in held else "(int64_t)sizeof(uint16_t)" for k in range(n + 1)]
        tests = " && ".join(f"steps[{k}] == {step}" for k, step in enumerate(steps))
        arrays = "".join(f"        const uint16_t *in{k} = (const uint16_t *)ptrs[{k + 1}];\n" for k in range(n))
        once = "".join(f"        const float x{k} = nx_load_f16(*in{k});\n" for k in sorted(held))
        moving = [k for k in range(n) if k not in held]
        widened = "".join(
            f"            float w{k}[NX_HALF_STRIP];\n            nx_widen_f16(w{k}, in{k} + done, NX_HALF_STRIP);\n"
            for k in moving
        )
        loads = " ".join(f"const float x{k} = w{k}[i];" for k in moving)
        text += f"""    if ({tests}) {{
        uint16_t *out = (uint16_t *)ptrs[0];
{arrays}{once}        for (; done + NX_HALF_STRIP <= n; done += NX_HALF_STRIP) {{
            float found[NX_HALF_STRIP];
{widened}            for (int i = 0; i < NX_HALF_STRIP; i++) {{
                {loads}
                found[i] = {body};
            }}
            nx_narrow_f16(out + done, found, NX_HALF_STRIP);
        }}
    }}
"""
    return text


def near_body(world, element, expr):
    """Of functions that have `near`, of operands and numbers, and of a quotient's rest: (the test of an element for
    which it is right, the text that computes it faster); else None."""
    suffix = {"float": "f", "double": ""}.get(element.type)
    if suffix is None:
        return None
    if expr.op == "call" and expr.value in DIVISIONS[1:]:
        a, b = (element.text(arg) for arg in expr.args)
        return f"nx_divides_near{suffix}({a}, {b})", f"nx_{expr.value}_near{suffix}({a}, {b})"
    calls = [e for e in expr.walk() if e.op == "call"]
    near = [e for e in calls if e.value in world.prims and world.prims[e.value].near is not None]
    bound = set().union(*map(names_in, near)) - set(element.scope)
    if not near or bound or any(e.value in world.functions and e.value not in world.prims for e in calls):
        return None
    # NaN is near: it stays what it is.
    tests = {f"!(fabs{suffix}({element.text(e.args[0])}) > {element.number(world.prims[e.value].near)})" for e in near}
    element.near = True
    return " & ".join(sorted(tests)), element.text(expr)


def point_constants(dtype, numbers):
    return "".join(f"    const {COMPUTE[dtype]} c{k} = {text};\n    (void)c{k};\n" for k, text in enumerate(numbers))


def held_operands(n):
    """Which of n operands may be the same element throughout (a number, a broadcast one) beside dense ones."""
    return [{k} for k in range(n) if n > 1] + [{0, 1, 2} - {k} for k in range(n) if n == 3]


def point_loop(dtype, c_type, n, numbers, bodies, near, cheap):
    """The function of one dtype: for each body, behind its condition, loops for dense operands, which store it.
    Elements that lie otherwise are taken one by one, where the body is `cheap`, else brought side by side."""
    constants = point_constants(dtype, numbers)
    unused = "" if numbers else "    (void)constants;\n"
    loops = ""
    near = near and (near[0], store(dtype, c_type, near[1]))
    for condition, body, kept in bodies:
        block = body_loops(dtype, c_type, n, store(dtype, c_type, body, kept), near, cheap)
        loops += f"    if ({condition}) {{\n{block}        return;\n    }}\n" if condition else block
    return f"void {LOOP_NAME}({LOOP_PARAMETERS}) {{\n{constants}{unused}{loops}}}\n"


def body_loops(dtype, c_type, n, body, near, cheap):
    size = f"(int64_t)sizeof({c_type})"
    arrays = "".join(f"        const {c_type} *in{k} = (const {c_type} *)ptrs[{k + 1}];\n" for k in range(n))
    loads = " ".join(f"const {COMPUTE[dtype]} x{k} = {load(dtype, f'in{k}[i]')};" for k in range(n))
    strided = " ".join(
        f"const {COMPUTE[dtype]} x{k} = {load(dtype, f'*(const {c_type} *)(ptrs[{k + 1}] + i * steps[{k + 1}])')};"
        for k in range(n)
    )
    dense = " && ".join(f"steps[{k}] == {size}" for k in range(n + 1))
    singles = "".join(held_loop(dtype, c_type, n, which, body, near) for which in held_operands(n))
    one_by_one = f"""    for (int64_t i = 0; i < n; i++) {{
        {strided}
        *({c_type} *)(ptrs[0] + i * steps[0]) = {body};
    }}
"""
    together = f"    nx_loop_side_by_side({LOOP_NAME}, (int)sizeof({c_type}), {n + 1}, ptrs, steps, n, constants);\n"
    return f"""    if ({dense}) {{
        {c_type} *out = ({c_type} *)ptrs[0];
{arrays}{fast_loop(range(n), loads, body, near)}        return;
    }}
{singles}{one_by_one if cheap else together}"""


def fast_loop(moving, loads, body, near):
    if near:
        return near_loop(moving, loads, body, near)
    return dense_loop(loads, body, "n", 8)


def near_loop(moving, loads, body, near):
    """In pieces, of which each whose elements are all near goes the faster way."""
    test, near_by = near
    moves = "".join(f", in{k} += end" for k in moving)
    return f"""        for (int64_t end; n > 0; n -= end, out += end{moves}) {{
            int far = 0;
            end = n < NX_NEAR_PIECE ? n : NX_NEAR_PIECE;
            for (int64_t i = 0; i < end; i++) {{
                {loads}
                far |= !({test});
            }}
            if (far) {{
{dense_loop(loads, body, "end", 16)}            }} else {{
{dense_loop(loads, near_by, "end", 16)}            }}
        }}
"""


def dense_loop(loads, body, n, depth):
    inner = f"""#pragma GCC ivdep
for (int64_t i = 0; i < {n}; i++) {{
    {loads}
    out[i] = {body};
}}
"""
    return "".join((" "*depth)*(line[0] != "#") + line for line in inner.splitlines(keepends=True))


def held_loop(dtype, c_type, n, held, body, near):
    """The loop for operands that are the same element throughout, the others dense."""
    size = f"(int64_t)sizeof({c_type})"
    tests = " && ".join(f"steps[{k}] == {0 if k - 1 in held else size}" for k in range(n + 1))
    arrays = "".join(f"        const {c_type} *in{k} = (const {c_type} *)ptrs[{k + 1}];\n" for k in range(n))
    once = "".join(f"        const {COMPUTE[dtype]} x{k} = {load(dtype, f'*in{k}')};\n" for k in sorted(held))
    moving = [k for k in range(n) if k not in held]
    loads = " ".join(f"const {COMPUTE[dtype]} x{k} = {load(dtype, f'in{k}[i]')};" for k in moving)
    return f"""    if ({tests}) {{
        {c_type} *out = ({c_type} *)ptrs[0];
{arrays}{once}{fast_loop(moving, loads, body, near)}        return;
    }}
"""


# ---- tables
def exact_operands(sibling, tensors):
    """`props keeps_digits(other)`: a number there is not rounded to a half type before the operation."""
    names = {
        arg.value
        for row in sibling.entry.all("props")
        for p in row.value
        if p["name"] == "keeps_digits"
        for arg in p["args"].args
    }
    return sum(1 << k for k, a in enumerate(tensors) if a.name in names)


class FloatBody(Body):
    """The checks of an entry as they stand when T is a floating dtype and no number is a bool or complex."""

    def is_class(self, expr):
        value = self.expr(expr.args[0])
        if value.kind == "dtype" and value.c == "T":
            return constant(expr.value == "float")
        if value.kind == "number" and expr.value in ("bool", "complex"):
            return constant(False)
        return super().is_class(expr)


def absent_limits(sibling, scalars):
    """What each number is where it is absent; its C name behind NX_ABSENT_."""
    limits = [absent_limit(e) for e in sibling.entry.one("point").value.walk() if e.op == "binary" and e.value == "??"]
    of_name = {name.value: limit.upper() for name, limit in limits}
    missing = [a for a in scalars if a.optional and a.name not in of_name]
    if missing:
        raise Problem(missing[0].param.at, f"'{missing[0].name}' may be absent: write '{missing[0].name} ?? lowest(T)'")
    return [of_name.get(a.name, "LOWEST") for a in scalars]


def divisor(sibling):
    """1 + the argument that whole division divides by, which must not be 0 among integers; 0: none."""
    divided = [e for e in sibling.entry.one("point").value.walk() if e.op == "call" and e.value in DIVISIONS]
    names = {e.args[1].value for e in divided}
    found = [a.index for a in sibling.arguments if a.name in names]
    if len(names) > 1 or len(found) != len(names):
        raise Problem(sibling.at, "not yet generated: a whole quotient by anything but one argument")
    return found[0] + 1 if found else 0


QUOTIENT = 4  # additions


def cost(world, expr):
    """What functions and quotients in an element expression cost, in additions (ops/prim.op); of a choice, all arms."""
    calls = [e.value for e in expr.walk() if e.op == "call"]
    functions = sum(world.prims[name].cost for name in calls if name in world.prims) + sum(
        cost(world, world.functions[name].body) for name in calls if name in world.functions)
    return functions + QUOTIENT * sum(e.op == "binary" and e.value == "/" for e in expr.walk())


def is_arithmetic(expr):
    """Whether it only adds, subtracts and multiplies."""
    return all(e.op in ("name", "number") or (e.op in ("unary", "binary") and e.value in "+-*") for e in expr.walk())


def likes_floats(world, sibling):
    """Whether operands of one floating dtype give one result of it without a check that could fail."""
    entry, result = sibling.entry, sibling.entry.results[0]
    floats = set(CLASSES["float"])
    keeps = result.dtype is None or (result.dtype.op == "call" and result.dtype.value == "real")
    if len(entry.results) != 1 or result.kind != "T" or not keeps or result.contiguous:
        return False
    if entry.one("types") and not floats <= set(admitted(entry)):
        return False
    if any(a.base in ("Scalar", "float") and a.optional for a in sibling.arguments):
        return False
    if any(a.base == "str" or (a.base == "Tensor" and not a.param.in_promotion) for a in sibling.arguments):
        return False
    body = FloatBody(world, sibling.base, False)
    body.scope = scope_of(sibling, world) | {"T": Value("dtype", "T")}
    body.checks([row for row in entry.rows if row.word in ("let", "check")])
    return not body.lines


def at_level(dtype, which):
    """Whether a level has loops of its own for a dtype."""
    return which != "float" or dtype in CLASSES["float"]


def loop_rows(names, levels, indent):
    """Initialisers of a table [level][dtype]; where a level has no loop of its own, the one below it stands."""
    rows, best = [], {}
    for level in levels:
        name, _, which = level.partition(":")
        best |= {n: name for n in names if at_level(n, which)}
        cells = ", ".join(f"[NX_{code}] = {names[n]}_{best[n]}" for code, n, _, _ in DTYPES if n in names)
        rows.append(f"{indent}[NX_LEVEL_{name.upper()}] = {{{cells}}},")
    return "\n".join(rows)


def write_point_table(world, sibling, names, levels, source):
    tensors, scalars = operands(sibling)
    argument, arms = arms_of(sibling)
    name, rows = sibling.c_name, ""
    if argument:
        texts = ", ".join(c_string(arm) for arm in arms)
        source.add(f"static const char *const arms_{name}[] = {{{texts}}};")
        source.add(f"static nx_loop_fn *const loops_{name}[][NX_N_LEVELS][NX_N_DTYPES] = {{")
        for arm in arms:
            of_arm = {dtype: c for (a, dtype), c in names.items() if a == arm}
            source.add(f"    {{\n{loop_rows(of_arm, levels, '        ')}\n    }},")
        source.add("};")
        rows = f"    .arm_param = {argument.index}, .n_arms = {len(arms)}, .arms = arms_{name},"
        rows += f" .arm_loop = loops_{name},\n"
    promoting = [a.index for a in sibling.arguments if a.param.in_promotion]
    first = {dtype: c for (a, dtype), c in names.items() if a == arms[0]}
    source.add(f"""static const nx_point point_{name} = {{
    .n_out = 1, .n_in = {len(tensors)}, .n_constants = {len(scalars)}, .n_promoting = {len(promoting)},
    .in_param = {{{", ".join(str(a.index) for a in tensors)}}},
    .constant_param = {{{", ".join(str(a.index) for a in scalars) or "0"}}},
    .promoting_param = {{{", ".join(map(str, promoting))}}},
    .likes_floats = {str(likes_floats(world, sibling)).lower()},
    .exact = {exact_operands(sibling, tensors):#x},
    .arithmetic = {str(is_arithmetic(sibling.entry.one("point").value)).lower()},
    .absent = {{{", ".join("NX_ABSENT_" + a for a in absent_limits(sibling, scalars)) or "0"}}},
    .divisor = {divisor(sibling)}, .cost = {cost(world, sibling.entry.one("point").value)},
    .result = NX_POINT_{result_kind(sibling)},
{rows}    .loop = {{
{loop_rows(first, levels, "        ")}
    }},
}};
""")
