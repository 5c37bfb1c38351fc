"""Turns size-level and tensor-level expressions into C statements.

A Body is one C function in the making. Each expression becomes a Value: its kind, its C text and, where it is known
now, its constant. Choices on constants (a parameter that a sibling leaves out) are made here, so the C holds none.
Tensors that a body makes lie in `t[]`, which the function releases at its end; a body also notes which arguments'
and results' elements it read, which is what has to be saved for backward."""

import re

from gen.bind import argument_value, bind
from gen.model import DTYPE_CODE, MEMORY_FORMATS, gives_list
from gen.read import Parser
from gen.size_calls import CALLS, LOOPS, SizeCalls
from gen.syntax import At, Expr, Problem, tokenize
from gen.values import STATUS, UNKNOWN, Value, as_int, bare, c_string, constant


class Body(SizeCalls):
    """One C function: declarations, statements, names in scope."""

    def __init__(self, world, operator, can_call):
        self.world = world
        # For messages, as users write it.
        self.operator = re.sub("^_?(linalg|fft)_(.*?)(_ex)?$", r"\1.\2", operator)
        self.can_call = can_call  # tensor level: operators may be called, failure goes to `fail`
        self.lines, self.declarations = [], []
        self.scope = {}
        self.n_tensors = self.n_lists = self.n_names = self.depth = 0
        self.may_be_complex = True  # else conj() and real() are their argument
        self.zero_like = "g[0]"  # what `zero` has the size of
        self.read = set()  # sources whose elements were read
        self.called = []  # the operators of a composition, as siblings

    # ---- emitting
    def emit(self, line):
        self.lines.append("    " * self.depth + line)

    def declare(self, text, hint="v"):
        self.n_names += 1
        name = f"{hint}{self.n_names}"
        self.declarations.append(text.replace("$", name) + ";")
        return name

    def new_tensor(self):
        self.n_tensors += 1
        return f"t[{self.n_tensors - 1}]"

    def new_list(self):
        """Room for a list of tensors that is made here."""
        self.n_lists += 1
        return f"l[{self.n_lists - 1}]"

    def named(self, name, value):
        """A number that `let` names gets a C variable."""
        types = {"int": "int64_t", "bool": "bool", "float": "double", "dtype": "nx_dtype"}
        if value.kind not in types or value.const is not UNKNOWN:
            return value
        variable = self.declare(f"{types[value.kind]} $", name + "_")
        self.emit(f"{variable} = {bare(value.c)};")
        return Value(value.kind, variable)

    def capture(self, expr):
        """The value of an expression and the statements that it needs, which are not emitted."""
        before, self.lines = self.lines, []
        value = self.expr(expr)
        made, self.lines = self.lines, before
        return value, made

    def try_(self, call):
        self.emit(f"{'NX_TRY_FAIL' if self.can_call else 'NX_TRY'}({call});")

    def fail(self, kind, text, at):
        """Emits the failure with its text, whose {expressions} are filled in; `{{` and `}}` are braces."""
        literal = lambda said: said.replace("{{", "{").replace("}}", "}").replace("%", "%%")  # noqa: E731
        parts, args, rest = [], [], text
        while opening := re.search(r"(?<!\{)(?:\{\{)*\{(?!\{)", rest):
            before, rest = rest[: opening.end() - 1], rest[opening.end() :]
            inside, _, rest = rest.partition("}")
            inside, _, style = inside.partition(":")
            parts.append(literal(before))
            spec, arg = self.format(self.parse_inside(inside, at), style)
            parts.append(spec)
            args.append(arg)
        parts.append(literal(rest))
        said = re.match(
            rf"{re.escape(self.operator)}_?\b", parts[0]
        )  # the text begins with the operator's name already
        form = c_string(("" if said else f"{self.operator}: ") + "".join(parts))
        call = f"nx_fail({', '.join([STATUS[kind], form] + args)})"
        if self.can_call:
            self.emit(f"status = {call};")
            self.emit("goto fail;")
        else:
            self.emit(f"return {call};")

    def parse_inside(self, text, at):
        tokens, _ = tokenize(at.path, text)
        tokens = [type(t)(t.kind, t.text, at, t.offset, False) for t in tokens]
        parser = Parser(tokens, text)
        expr = parser.expr()
        parser.done()
        return self.expr(expr)

    def format(self, value, style):
        if value.kind == "int":
            return "%lld", f"(long long)({value.c})"
        if value.kind == "float":
            return "%g", value.c
        if value.kind == "value" and value.base == "str":
            return "%s", f"{value.c}.str"
        if value.kind == "dtype":
            return "%s", f"nx_dtype_c_type({value.c})" if style == "c" else f"nx_dtype_kind({value.c})"
        if value.kind == "ints":
            separator = c_string({"x": "x", "bare": " "}.get(style, ", "))
            return "%s", f"nx__ints_text((char[256]){{0}}, 256, {value.c}, {value.n}, {separator})"
        raise Problem(At("", 0, 0), f"a {value.kind} cannot be shown in a message")

    # ---- expressions
    def expr(self, expr):
        return getattr(self, "expr_" + expr.op)(expr)

    def refuse(self, expr, what):
        raise Problem(expr.at, f"not yet generated: {what}")

    def expr_number(self, expr):
        return constant(expr.value)

    def expr_const(self, expr):
        if expr.value in self.scope:  # nan_to_num has a parameter `nan`
            return self.scope[expr.value]
        return constant(
            {"None": None, "True": True, "False": False, "inf": float("inf"), "nan": float("nan")}[expr.value]
        )

    def expr_string(self, expr):
        return Value("value", f"nx_value_str({c_string(expr.value)})", base="str")

    def expr_name(self, expr):
        name = expr.value
        if name in self.scope:
            return self.scope[name]
        if name in DTYPE_CODE:
            return Value("dtype", f"NX_{DTYPE_CODE[name]}")
        if name in MEMORY_FORMATS:
            format_ = MEMORY_FORMATS[name]
            return Value("value", f"((nx_value){{.tag = NX_TAG_MEMORY_FORMAT, .i = {format_}}})", base="memory_format")
        if name == "default":
            return Value("dtype", "nx_default_dtype()")
        if name == "none" and "g" in self.scope:  # a gradient that is not there; only as one side of a choice
            return Value("tensor", "NULL")
        if name == "zero" and "g" in self.scope:
            slot = self.new_tensor()
            self.try_(f"nx__zeros_like({self.zero_like}, &{slot})")
            return self.tensor(slot)
        raise Problem(expr.at, f"{self.operator} has no name '{name}' (in scope: {', '.join(sorted(self.scope))})")

    def expr_let(self, expr):
        before = dict(self.scope)
        for name, bound in expr.value:
            self.scope[name] = self.named(name, self.expr(bound))
        value = self.expr(expr.args[0])
        self.scope = before
        return value

    def expr_tuple(self, expr):
        """Several tensors side by side: the results of a composition."""
        values = [self.expr(part) for part in expr.args]
        first, self.n_tensors = self.n_tensors, self.n_tensors + len(values)
        for k, (part, value) in enumerate(zip(expr.args, values)):
            if value.kind != "tensor":
                self.refuse(part, f"a {value.kind} among several results")
            self.emit(f"t[{first + k}] = nx_tensor_ref({self.elements(value)});")
        return Value("tuple", n=str(len(values)), const=first)

    def expr_list(self, expr):
        if expr.args and all(part.op == "const" and part.value in ("True", "False") for part in expr.args):
            texts = [f"nx_value_bool({part.value.lower()})" for part in expr.args]
            return Value("bools", f"nx_value_list((nx_value[]){{{', '.join(texts)}}}, {len(texts)})")
        given = [self.expr(part) for part in expr.args]
        if given and given[0].kind == "tensor":
            return self.tensor_list(given)
        values = [self.checked_int(part, value) for part, value in zip(expr.args, given)]
        name = self.declare("int64_t $[NX_MAX_DIMS]" + ("" if values else " = {0}"))
        for k, text in enumerate(values):
            self.emit(f"{name}[{k}] = {text};")
        return Value("ints", name, str(len(values)))

    def tensor_list(self, values):
        name = self.new_list()
        for value in values:
            self.try_(f"nx__list_add(&{name}, {self.elements(value)})")
        return Value("tensors", name)

    def int_text(self, expr):
        return self.checked_int(expr, self.expr(expr))

    def checked_int(self, expr, value):
        if value.kind not in ("int", "bool"):
            raise Problem(expr.at, f"an integer is needed here, this is a {value.kind}")
        return value.c

    def expr_field(self, expr):
        value, name = self.expr(expr.args[0]), expr.value
        if value.kind != "tensor":
            raise Problem(expr.at, f"a {value.kind} has no '{name}'")
        array = value.array
        if name == "size":
            return Value("ints", f"{array}->sizes", f"{array}->ndim")
        if name == "stride":
            return Value("ints", f"{array}->strides", f"{array}->ndim")
        if name == "offset":  # of the tensor that the array begins
            return Value("int", f"((const nx_tensor *){array})->offset")
        if name in ("ndim", "numel"):
            return Value("int", f"(int64_t){array}->{name}")
        if name == "dtype":
            return Value("dtype", f"(nx_dtype){array}->dtype")
        if name == "device":
            return Value("device", f"{array}->device")
        if name == "requires_grad" and self.can_call:
            return Value("bool", f"((nx_tensor_whole({value.c})->keys & NX_KEYS_OWN) != 0)")
        raise Problem(expr.at, f"a tensor has no '{name}' (size stride offset ndim numel dtype device)")

    def expr_index(self, expr):
        value = self.expr(expr.args[0])
        if value.kind in ("tuple", "bools"):
            return self.member(expr, value)
        if value.kind == "gradients":
            at = f"g[{self.int_text(expr.args[1])}]"
            return Value("tensor", at, array=f"nx_arr({at})", present=f"({at} != NULL)")
        if value.kind == "tensors":
            return self.listed(value, self.int_text(expr.args[1]))
        if value.kind != "ints":
            self.refuse(expr, f"an index into a {value.kind}")
        return Value("int", f"nx__int_at({value.c}, {value.n}, {self.int_text(expr.args[1])})")

    def expr_slice(self, expr):
        value, (start, stop) = self.expr(expr.args[0]), expr.args[1:]
        if value.kind != "ints":
            self.refuse(expr, f"a part of a {value.kind}")
        first = self.int_text(start) if start is not None else "0"
        end = self.int_text(stop) if stop is not None else value.n
        return Value("ints", f"({value.c} + {first})", f"nx__part_length({value.n}, {first}, {end})")

    def listed(self, values, at):
        """Element `at` of a list of tensors."""
        at = f"{values.c}.list[{at}]"
        return Value("tensor", f"{at}.tensor", array=f"{at}.array", source=values.source)

    def member(self, expr, value):
        """One of an operator's results, or of a list of bools."""
        at = self.expr(expr.args[1]).const
        if not isinstance(at, int):
            raise Problem(expr.at, "which one must be a number here")
        if value.kind == "bools":
            return Value("bool", f"({value.c}.list[{at}].i != 0)")
        if not 0 <= at < int(value.n):
            raise Problem(expr.at, f"there are {value.n} results, counted from 0")
        return self.tensor(f"t[{value.const + at}]")

    def expr_unary(self, expr):
        value = self.expr(expr.args[0])
        if value.const is not UNKNOWN:
            return constant(not value.const if expr.value == "not" else -value.const)
        if expr.value == "not":
            return Value("bool", f"!({bare(value.c)})")
        if value.kind in ("int", "float"):
            return Value(value.kind, f"-({value.c})")
        if value.kind == "tensor":
            return self.call_form(expr, "neg", [value], {})
        self.refuse(expr, f"'-' of a {value.kind}")

    def expr_binary(self, expr):
        word = expr.value
        if word in ("and", "or"):
            return self.logic(expr)
        if word == "in":
            return self.membership(expr)
        if word == "??" and (given := self.expr(expr.args[0])).kind == "tensor" and given.present:
            return self.choose(expr, Value("bool", given.present), *expr.args)
        left, right = self.expr(expr.args[0]), self.expr(expr.args[1])
        if word in ("==", "!=") and "none" in (left.kind, right.kind):
            return self.compare_none(expr, left if right.kind == "none" else right)
        if "none" not in (left.kind, right.kind) and {left.kind, right.kind} & {"tensor", "operand"}:
            return self.tensor_infix(expr, left, right)
        if word == "??":
            return self.otherwise(expr, left, right)
        if "none" in (left.kind, right.kind):
            return self.compare_none(expr, left if right.kind == "none" else right)
        if left.const is not UNKNOWN and right.const is not UNKNOWN:
            return self.fold(expr, left, right)
        if left.kind == "ints" and right.kind == "ints" and word in ("==", "!="):
            test = f"nx__ints_equal({left.c}, {left.n}, {right.c}, {right.n})"
            return Value("bool", test if word == "==" else f"!{test}")
        if left.kind == "ints" and right.kind == "ints" and word == "+":
            return self.row("+", expr, [left, right])
        if "number" in (left.kind, right.kind):
            return self.compare_number(expr, left, right)
        return self.arithmetic(expr, left, right)

    def fold(self, expr, left, right):
        a, b, word = left.const, right.const, expr.value
        table = {
            "+": lambda: a + b,
            "-": lambda: a - b,
            "*": lambda: a * b,
            "/": lambda: a / b,
            "%": lambda: a % b,
            "==": lambda: a == b,
            "!=": lambda: a != b,
            "<": lambda: a < b,
            "<=": lambda: a <= b,
            ">": lambda: a > b,
            ">=": lambda: a >= b,
        }
        return constant(table[word]())

    def arithmetic(self, expr, left, right):
        word = expr.value
        comparable = {"int", "bool", "float"}
        if word in ("==", "!=") and left.kind == right.kind == "dtype":
            return Value("bool", f"({left.c} {word} {right.c})")
        if left.kind not in comparable or right.kind not in comparable:
            self.refuse(expr, f"'{word}' of a {left.kind} and a {right.kind}")
        if word in ("==", "!=", "<", "<=", ">", ">="):
            return Value("bool", f"({left.c} {word} {right.c})")
        kind = "float" if "float" in (left.kind, right.kind) or word == "/" else "int"
        if word == "/":
            return Value("float", f"((double)({left.c}) / (double)({right.c}))")
        return Value(kind, f"({left.c} {word} {right.c})")

    def compare_none(self, expr, value):
        if expr.value not in ("==", "!="):
            raise Problem(expr.at, f"None can only be compared by == and !=, not by {expr.value}")
        absent = expr.value == "=="
        if value.kind == "none":
            return constant(absent)
        if value.kind in ("ints?", "value"):
            return Value("bool", f"({value.c}.tag {'==' if absent else '!='} NX_TAG_NONE)")
        if value.kind in ("ints", "tensor") and value.present:
            return Value("bool", f"!{value.present}" if absent else value.present)
        return constant(not absent)

    def compare_number(self, expr, left, right):
        """A Scalar argument against a constant: `alpha == 1`."""
        if expr.value in ("+", "-", "*"):
            return self.compute_number(expr, left, right)
        if left.kind != "number" or right.const is UNKNOWN or expr.value not in ("==", "!=", "<", "<=", ">", ">="):
            self.refuse(expr, "more than comparing a Scalar with a constant")
        if expr.value in ("==", "!="):
            is_it = f"nx__number_is(&{left.c}, {constant(float(right.const)).c})"
            return Value("bool", is_it if expr.value == "==" else f"!{is_it}")
        return Value("bool", f"(nx_value_as_float(&{left.c}) {expr.value} {constant(float(right.const)).c})")

    def compute_number(self, expr, left, right):
        """A Scalar argument and a constant, or two of them: a Scalar again."""

        def text(value):
            if value.kind == "number":
                return value.c
            if value.const is UNKNOWN:
                self.refuse(expr, f"'{expr.value}' of a {left.kind} and a {right.kind}")
            return f"nx_value_{value.kind}({value.c})"

        word = {"+": "add", "-": "sub", "*": "mul"}[expr.value]
        return self.new_number(f"nx__number_{word}({text(left)}, {text(right)}, $)")

    def new_number(self, call):
        """A number that a call makes; $ is room for a complex one's parts."""
        name, parts = self.declare("nx_value $"), self.declare("double $[2]")
        self.emit(f"{name} = {call.replace('$', parts)};")
        return Value("number", name)

    def otherwise(self, expr, left, right):
        """`a ?? b`: the first if it is present."""
        if left.kind == "none":
            return right
        if left.kind != "value":
            return left
        present = f"{left.c}.tag != NX_TAG_NONE"
        if left.base == "dtype" and right.kind == "dtype":
            return Value("dtype", f"({present} ? (nx_dtype){left.c}.i : {right.c})")
        if left.base == "device" and right.kind == "device":
            return Value("device", f"({present} ? {left.c}.device : {right.c})")
        if left.base in ("int", "SymInt") and right.kind == "int":
            return Value("int", f"({present} ? {left.c}.i : {right.c})")
        if left.base == right.kind == "bool":
            return Value("bool", f"({present} ? {left.c}.i != 0 : {right.c})")
        if left.base in ("float", "Scalar") and right.kind in ("float", "int"):
            return Value("float", f"({present} ? nx_value_as_float(&{left.c}) : {right.c})")
        if right.kind == "value" and right.base == left.base:
            return Value("value", f"({present} ? {left.c} : {right.c})", base=left.base)
        self.refuse(expr, f"'??' of a {left.base} and a {right.kind}")

    def membership(self, expr):
        left = self.expr(expr.args[0])
        if left.kind == "dtype" and expr.args[1].op == "list":
            return Value("bool", "(" + " || ".join(f"{left.c} == {self.expr(p).c}" for p in expr.args[1].args) + ")")
        right = self.expr(expr.args[1])
        if left.kind == "int" and right.kind == "ints":
            return Value("bool", f"nx__ints_have({right.c}, {right.n}, {left.c})")
        self.refuse(expr, f"'in' of a {left.kind} and a {right.kind}")

    def logic(self, expr):
        """`and`, `or`: the right side runs only if the left one leaves it open."""
        left = self.expr(expr.args[0])
        stops = expr.value == "or"
        if left.const is not UNKNOWN:
            return left if bool(left.const) == stops else self.expr(expr.args[1])
        self.depth += 1
        right, made = self.capture(expr.args[1])
        self.depth -= 1
        if not made:
            return Value("bool", f"({left.c} {'||' if stops else '&&'} {right.c})")
        name = self.declare("bool $")
        self.emit(f"{name} = {left.c};")
        self.emit(f"if ({'!' if stops else ''}{name}) {{")
        self.lines += made
        self.emit(f"    {name} = {right.c};")
        self.emit("}")
        return Value("bool", name)

    def expr_raise(self, expr):
        self.fail("RuntimeError", expr.value, expr.at)
        return self.tensor("NULL")

    def expr_if(self, expr):
        condition = self.expr(expr.args[0])
        return self.choose(expr, condition, expr.args[1], expr.args[2])

    def choose(self, expr, condition, if_true, if_false):
        if condition.const is not UNKNOWN:
            return self.expr(if_true if condition.const else if_false)
        self.depth += 1
        yes, yes_lines = self.capture(if_true)
        no, no_lines = self.capture(if_false)
        self.depth -= 1
        if yes.kind != no.kind:
            raise Problem(expr.at, f"the two sides differ: a {yes.kind} and a {no.kind}")
        if not yes_lines and not no_lines and yes.kind in ("int", "bool", "float", "dtype"):
            return Value(yes.kind, f"({condition.c} ? {yes.c} : {no.c})")
        value, assign = self.join(expr, yes, no)
        self.emit(f"if ({bare(condition.c)}) {{")
        self.lines += yes_lines
        self.emit("    " + assign(yes))
        self.emit("} else {")
        self.lines += no_lines
        self.emit("    " + assign(no))
        self.emit("}")
        return value

    def join(self, expr, yes, no):
        """A variable that both sides of an `if` fill, and how they do it. Beside an argument, which is the caller's,
        a tensor that was made here is lent as well: its own place holds it."""
        kind = yes.kind
        types = {"int": "int64_t", "bool": "bool", "float": "double", "dtype": "nx_dtype"}
        if kind in types:
            name = self.declare(types[kind] + " $")
            return Value(kind, name), lambda v: f"{name} = {v.c};"
        if kind == "ints":
            at, n = self.declare("const int64_t *$"), self.declare("int $")
            return Value("ints", at, n), lambda v: f"{at} = {v.c}; {n} = {v.n};"
        if kind == "tensor" and any(re.fullmatch(r"in\[\d+\]\.tensor", v.c) for v in (yes, no)):
            name = self.declare("nx_tensor *$")
            return self.tensor(name), lambda v: f"{name} = {self.elements(v)};"
        if kind == "tensor":
            slot = self.new_tensor()
            return self.tensor(slot), lambda v: "" if v.c == "NULL" else f"{slot} = nx_tensor_ref({self.elements(v)});"
        if kind == "value" and yes.base == no.base:
            name = self.declare("nx_value $")
            return Value("value", name, base=yes.base), lambda v: f"{name} = {v.c};"
        if kind == "tensors":
            name = self.new_list()
            return Value("tensors", name), lambda v: f"{name} = {v.c}; {v.c} = NX_VALUE_NONE;"
        self.refuse(expr, f"a choice between two {kind}s")

    def expr_match(self, expr):
        """`match approximate { none: A, tanh: B }`: the last arm is what remains."""
        subject = self.expr(expr.args[0])
        if subject.kind != "value" or subject.base != "str":
            self.refuse(expr, "'match' of anything but a text at this level")
        if len(expr.value) == 1:
            return self.expr(expr.args[1])
        rest = Expr("match", expr.at, [expr.args[0]] + expr.args[2:], expr.value[1:])
        test = Value("bool", f"(strcmp({subject.c}.str, {c_string(expr.value[0])}) == 0)")
        return self.choose(expr, test, expr.args[1], rest)

    def expr_each(self, expr):
        """A list of integers or of tensors, one for each element of a range or a list."""
        if self.can_call and self.gives_tensors(expr):
            return self.each_tensor(expr)
        name = self.declare("int64_t $[NX_MAX_DIMS]")
        count = self.loop(expr, lambda value, k: self.emit(f"{name}[{k}] = {value.c};"), "nx__check_ndim")
        return Value("ints", name, count)

    def gives_tensors(self, expr):
        """Whether the elements are tensors: what the loop would emit is thrown away."""
        kept = self.lines, self.declarations, self.n_tensors, self.n_lists, self.n_names, set(self.read)
        self.lines, self.declarations, kinds = [], [], []
        self.loop(expr, lambda value, k: kinds.append(value.kind))
        self.lines, self.declarations, self.n_tensors, self.n_lists, self.n_names, self.read = kept
        return kinds == ["tensor"]

    def each_tensor(self, expr):
        """A list of tensors that is made here; what an element needed on the way is released before the next."""
        name, first = self.new_list(), self.n_tensors

        def put(value, k):
            self.try_(f"nx__list_add(&{name}, {self.elements(value)})")
            if self.n_tensors > first:
                self.emit(f"nx__release(t + {first}, {self.n_tensors - first});")

        self.loop(expr, put, "nx__check_list")
        return Value("tensors", name)

    def loop(self, expr, body, check=None):
        """`check` names the function that refuses what is too long, by operator and count."""
        name, over = expr.value, expr.args[0]
        k = self.declare("int64_t $")
        if over.op == "call" and over.value == "range":
            if len(over.args) != 1:
                self.refuse(over, "a range with two ends")
            count, element = self.int_text(over.args[0]), Value("int", k)
        else:
            values = self.expr(over)
            if values.kind not in ("ints", "tensors"):
                raise Problem(over.at, f"'each' needs a list, this is a {values.kind}")
            count = values.n if values.kind == "ints" else f"{values.c}.n"
            element = Value("int", f"{values.c}[{k}]") if values.kind == "ints" else self.listed(values, k)
        if check:
            self.try_(f"{check}({c_string(self.operator)}, {count})")
        before = dict(self.scope)
        self.scope[name] = element
        self.emit(f"for ({k} = 0; {k} < {count}; {k}++) {{")
        self.depth += 1
        body(self.expr(expr.args[1]), k)
        self.depth -= 1
        self.emit("}")
        self.scope = before
        return as_int(count)

    # ---- calls
    def expr_call(self, expr):
        name = expr.value
        if name in self.scope:
            raise Problem(expr.at, f"'{name}' is a name here and no function")
        known = self.size_function if name.startswith("size_") else getattr(self, "call_" + name, None)
        known = self.call_row if name in CALLS else self.call_loop if name in LOOPS else known
        if known:
            return known(expr)
        if name in self.world.functions:
            return self.inline(expr)
        if name in ("int", "bool", "float", "complex"):
            return self.is_class(expr)
        if self.world.overloads(name.removeprefix("aten.")):
            return self.call_operator(expr, name.removeprefix("aten."))
        raise Problem(expr.at, f"no function or operator is called '{name}'")

    def inline(self, expr):
        function = self.world.functions[expr.value]
        if len(expr.args) != len(function.params) or expr.keywords:
            raise Problem(
                expr.at, f"{expr.value} takes {len(function.params)} arguments ({', '.join(function.params)})"
            )
        if self.depth > 20:
            raise Problem(expr.at, f"{expr.value} calls itself")
        values = {name: self.expr(arg) for name, arg in zip(function.params, expr.args)}
        before, self.scope = self.scope, values
        value = self.expr(function.body)
        self.scope = before
        return value

    def is_class(self, expr):
        """Of a dtype, a number, or a tensor's dtype."""
        value, word = self.expr(expr.args[0]), expr.value
        tests = {name: f"nx_is_{name}(%s)" for name in ("int", "float", "complex")} | {"bool": "(%s == NX_BOOL)"}
        if value.kind == "dtype":
            return Value("bool", tests[word] % value.c)
        if value.kind == "tensor":
            return Value("bool", tests[word] % f"(nx_dtype){value.array}->dtype")
        of_number = f"{value.c}.tag == NX_TAG_{word.upper()}"
        if value.kind == "number":
            return Value("bool", f"({of_number})")
        if value.kind == "operand":  # a tensor or a number
            of_tensor = tests[word] % f"(nx_dtype){value.c}.array->dtype"
            return Value("bool", f"({value.c}.tag == NX_TAG_TENSOR ? {of_tensor} : {of_number})")
        if value.const is not UNKNOWN:
            return constant(type(value.const).__name__ == word)
        self.refuse(expr, f"{word}() of a {value.kind}")

    # ---- tensor level
    def tensor(self, slot):
        return Value("tensor", slot, array=f"nx_arr({slot})")

    def elements(self, value):
        """The C text of a tensor whose elements are read."""
        if value.source:
            self.read.add(value.source)
        return value.c

    def tensor_infix(self, expr, left, right):
        """An operator between tensors; a number may stand on either side of + and *, and before -."""
        names = {
            "+": "add",
            "*": "mul",
            "-": "sub",
            "/": "div",
            "==": "eq",
            "!=": "ne",
            "<": "lt",
            "<=": "le",
            ">": "gt",
            ">=": "ge",
        }
        base = names.get(expr.value)
        if not base:
            self.refuse(expr, f"'{expr.value}' of tensors")
        if left.kind != "tensor" and right.kind == "tensor":
            if expr.value == "-":
                base, left, right = "rsub", right, left
            elif expr.value in "+*":
                left, right = right, left
            else:
                self.refuse(expr, f"'{expr.value}' of a {left.kind} and a tensor")
        return self.call_form(expr, base, [left, right], {})

    def call_operator(self, expr, base):
        if not self.can_call:
            raise Problem(expr.at, f"'{base}' is an operator: it cannot be called at size level")
        keywords = {key: self.expr(value) for key, value in expr.keywords.items()}
        return self.call_form(expr, base, [self.expr(arg) for arg in expr.args], keywords)

    def call_form(self, expr, base, args, keywords):
        reasons = []
        for form in self.world.overloads(base):
            bound, reason = bind(form, args, keywords)
            if reason:
                reasons.append(f"{form.name}: {reason}")
                continue
            texts = [self.argument_text(param, value) for param, value in bound]
            self.called.append(form.sibling)
            if form.variant == "inplace":
                self.try_(f"nx_{form.c_name}({', '.join(texts)})")
                return args[0]
            if gives_list(form.sibling.entry):
                name = self.new_list()
                self.try_(f"nx_{form.c_name}({', '.join(texts + ['&' + name])})")
                return Value("tensors", name)
            first, n = self.n_tensors, len(form.sibling.entry.results)
            self.n_tensors += n
            slot = f"t[{first}]"
            self.try_(f"nx_{form.c_name}({', '.join(texts + ['&' + slot])})")
            return self.tensor(slot) if n == 1 else Value("tuple", n=str(n), const=first)
        raise Problem(expr.at, f"no overload of {base} takes these arguments; " + "; ".join(reasons))

    def argument_text(self, param, value):
        base = param.type.base
        if value is None:
            value = self.expr(param.initial)
        if value.kind == "operand":
            return self.elements(value)
        if value.kind == "tensor":
            text = self.elements(value)
            return f"nx_value_tensor({text})" if param.number_too else text
        if param.is_tensor and value.kind == "none":
            return "NULL"
        if value.kind in ("bools", "tensors"):
            return self.elements(value)
        if param.type.list_of is not None:
            return self.ints_text(param, value)
        if base == "options":
            k = value.base
            return (
                "(nx_options){0}"
                if value.kind == "none"
                else f"(nx_options){{{', '.join(f'in[{k + j}]' for j in range(4))}}}"
            )
        if base == "generator":
            return (
                "NULL" if value.kind == "none" else f"({value.c}.tag == NX_TAG_GENERATOR ? {value.c}.generator : NULL)"
            )
        if value.kind == "none":
            return "NX_VALUE_NONE"
        if base in ("Scalar", "dtype", "device") or param.number_too or param.type.optional:
            wrap = {
                "int": "nx_value_int",
                "float": "nx_value_float",
                "bool": "nx_value_bool",
                "dtype": "nx_value_dtype",
                "device": "nx_value_device",
            }
            return f"{wrap[value.kind]}({value.c})" if value.kind in wrap else value.c
        if base == "bool" and value.kind == "int":
            return "true" if value.const else "false"
        return value.c

    def ints_text(self, param, value):
        if value.kind == "none":
            return "NULL, 0"
        if value.kind == "ints?":
            return f"{value.c}.tag == NX_TAG_NONE ? NULL : {value.c}.ints, {value.c}.n"
        return f"{value.c}, {as_int(value.n)}"

    # ---- rows that every function shares
    def dim_count(self, param):
        """How many dimensions a dim() parameter counts, as C."""
        value = self.expr(param.type.inner)
        return f"{value.array}->ndim" if value.kind == "tensor" else as_int(value.c)

    def wrap_dims(self, sibling, names=None):
        """dim() parameters (those of `names`) become their wrapped values."""
        for argument in sibling.arguments:
            if argument.param.is_dim and (names is None or argument.name in names):
                name = self.declare("int $", argument.name + "_")
                count = self.dim_count(argument.param)
                self.try_(f"nx_wrap_dim({c_string(self.operator)}, in[{argument.index}].i, {count}, &{name})")
                self.scope[argument.name] = Value("int", f"(int64_t){name}")

    def checks(self, rows):
        """`let` and `check` rows, in order."""
        for row in rows:
            if row.word == "let":
                for name, bound in row.value:
                    self.scope[name] = self.named(name, self.expr(bound))
            elif row.word == "check" and "group" in row.value:
                call = row.value["group"]
                group = self.world.groups[call.value]
                before, self.scope = self.scope, {p: self.expr(a) for p, a in zip(group.params, call.args)}
                self.checks(group.rows)
                self.scope = before
            elif row.word == "check":
                self.check(row)

    def check(self, row):
        condition = row.value["condition"]
        if condition.op == "call" and condition.value == "all":  # the text may name the element that fails
            each = condition.args[0]
            return self.loop(each, lambda holds, k: self.demand(row, holds))
        self.demand(row, self.expr(condition))

    def demand(self, row, condition):
        value = row.value
        if condition.const is True:
            return
        self.emit(f"if (!({bare(condition.c)})) {{")
        self.depth += 1
        self.fail(value["kind"], value["text"], row.at)
        self.depth -= 1
        self.emit("}")


def scope_of(sibling, world):
    """Names of a sibling's arguments, and of those that it leaves out."""
    scope = {}
    for argument in sibling.arguments:
        scope[argument.name] = argument_value(argument)
    for param in sibling.params:
        if param.type.base == "options":
            first = next(a.index for a in sibling.arguments if a.name == "dtype" and a.param is param)
            scope["options"] = Value("options", base=first)
    empty = Body(world, sibling.base, False)
    for name, expr in sibling.binds.items():
        scope[name] = empty.expr(expr)
    return scope


def free_names(expr):
    """Names that an expression mentions, functions left out."""
    return {e.value for e in expr.walk() if isinstance(e, Expr) and e.op == "name"}
