"""Functions of sizes, dtypes and presence that expressions call, part of gen.expr.Body: a row of CALLS each, or a
method `call_NAME` where what is emitted depends on more than the texts of the arguments."""

from gen.syntax import Problem
from gen.values import UNKNOWN, Value, as_int, bare, c_string, constant

# NAME: the kind of its value, the value's C text, statements before it (`try …`: one that may fail). {0.c} is the
# first argument (Argument says what else there is of one), {op} the operator's name in messages, {out} what the
# statements fill: a list, a number or a tensor; {n} an int, {ok} a bool. Behind `ints` stands how many there are.
CALLS = {
    "expandable": ("bool", "nx_expandable({0.c}, {0.given}, {1.c}, {1.given})"),
    "defined": ("bool", "({0.c} != NULL)"),  # the gradient of a result; one that is not there counts as zero
    "is_empty": ("bool", "{0.is_empty}"),  # a dim argument that is a list without elements, which is not None
    "len": ("int", "(int64_t){0.length}"),
    "prod": ("int", "nx_numel({0.n}, {0.c})"),
    "clamp": ("int", "nx__clamp({0.i}, {1.i}, {2.i})"),
    "ceil_div": ("int", "({0.i} / {1.i} + ({0.i} % {1.i} > 0))"),
    "bytes": ("int", "(int64_t)nx_dtype_bytes({0.dtype})"),  # of an element of a dtype
    "wrap": ("int", "(int64_t){n}", "try nx_wrap_dim({op}, {0.i}, {1.as_int}, &{n})"),
    # How many numbers lie between two others.
    "arange_size": ("int", "{out}", "try nx__arange_size({op}, {0.number}, {1.number}, {2.number}, &{out})"),
    # How many elements of a tensor of that size one result of a reduction over some dimensions takes.
    "count": ("int", "{out}", "try nx__count({op}, {0.c}, {0.n}, {1.dims}, &{out})"),
    "holds": ("bool", "nx_number_fits({0.dtype}, &{1.c})"),  # whether a dtype has a number, or at least rounds it
    "largest": ("float", "nx__dtype_facts[{0.dtype}].highest"),  # finite number of a floating dtype
    "pooled": ("int", "nx__pooled({0.i}, {1.i}, {2.i}, {3.i}, {4.i}, {5.c})"),  # windows in a row
    "square_root": ("float", "sqrt({0.c})"),
    "int64_if_int": ("dtype", "(nx_is_differentiable({0.c}) ? {0.c} : NX_I64)"),
    # channels_last (of rank 5: channels_last_3d) if a tensor, or all of a list, lie so, else contiguous. Where a tensor
    # lies in both ways, its strides tell; to the second it is contiguous.
    "common_format": ("memory_format", "nx__common_format(&{0.tensors})"),
    "dense_format": ("memory_format", "nx__dense_format({0.array})"),
    # ---- lists of integers
    "dims_of": ("ints {n}", "{out}", "try nx__dims_of({op}, {0.dims}, {1.as_int}, {out}, &{n})"),  # all for None and []
    "infer_size": ("ints {0.given}", "{out}", "try nx__check_ndim({op}, {0.given})",
                   "try nx_infer_size({op}, {0.c}, {0.given}, {1.c}, {out})"),
    "regroup": ("ints {1.given}", "{out}", "{ok} = nx_regroup({0.array}, {1.c}, {1.given}, {out});"),
    "broadcast": ("ints {n}", "{out}",
                  "try nx__ints_broadcast({op}, {0.c}, {0.n}, {1.c}, {1.n}, {out}, &{n})"),
    # Without the elements at those of some dimensions at which a second list has a 1.
    "without_ones": ("ints {n}", "{out}",
                     "{n} = nx__ints_without_ones({0.c}, {1.c}, {0.n}, {2.c}, {2.n}, {out});"),
    "swap": ("ints {0.given}", "{out}", "try nx__check_ndim({op}, {0.given})",
             "nx__ints_swap({0.c}, {0.n}, {1.i}, {2.i}, {out});"),
    "set": ("ints {0.given}", "{out}", "try nx__check_ndim({op}, {0.given})",
            "nx__ints_set({0.c}, {0.n}, {1.i}, {2.i}, {out});"),
    "insert": ("ints ({0.given} + 1)", "{out}", "try nx__check_ndim({op}, ({0.given} + 1))",
               "nx__ints_insert({0.c}, {0.n}, {1.i}, {2.i}, {out});"),
    "remove": ("ints ({0.given} - 1)", "{out}", "try nx__check_ndim({op}, ({0.given} - 1))",
               "nx__ints_remove({0.c}, {0.n}, {1.i}, {out});"),
    "inverse": ("ints {0.given}", "{out}", "try nx__check_ndim({op}, {0.given})",
                "nx__ints_inverse({0.c}, {0.n}, {out});"),
    "+": ("ints ({0.given} + {1.given})", "{out}", "try nx__check_ndim({op}, ({0.given} + {1.given}))",
          "nx__ints_join({0.c}, {0.n}, {1.c}, {1.n}, {out});"),
    # ---- tensors
    "sum_to": ("tensor", "{out}", "try nx__sum_to({0.read}, {1.c}, {1.given}, &{out})"),
    # Zeros of a size, of the dtype and on the device of a tensor.
    "zeros_as": ("tensor", "{out}", "try nx__zeros_as({0.array}, {1.c}, {1.n}, &{out})"),
    "to": ("tensor", "{out}", "try nx__to_dtype({0.read}, {1.dtype}, &{out})"),  # an optional dtype is there
    "to_like": ("tensor", "{out}", "try nx__to_like({0.read}, {1.array}, &{out})"),
}
# NAME(each i in …: E): the C type of its value, what that is at first, and what each E does to it.
LOOPS = {
    "all": ("bool", "true", "{out} &= {c};"),
    "any": ("bool", "false", "{out} |= {c};"),
    "sum": ("int64_t", "0", "{out} = nx__plus({out}, {c});"),
    "find": ("int64_t", "-1", "if ({out} < 0 && {bare}) {out} = {k};"),  # the place of the first one that holds
}
MADE = {"ints": "int64_t $[NX_MAX_DIMS]", "int": "int64_t $"}  # the room for {out}


class Argument:
    """An argument of a call as CALLS names its C texts."""

    def __init__(self, body, call, expr, value):
        self.body, self.call, self.expr, self.value = body, call, expr, value
        self.c, self.given, self.array = self.value.c, self.value.n, self.value.array

    @property
    def i(self):
        """An integer."""
        return self.body.checked_int(self.expr, self.value)

    @property
    def as_int(self):
        return as_int(self.i)

    @property
    def n(self):
        """How many there are, as a C int; `given`: as it stands."""
        if self.value.kind != "ints":
            raise Problem(self.call.at, f"{self.call.value}() needs a list of integers, this is a {self.value.kind}")
        return as_int(self.given)

    @property
    def length(self):
        return f"{self.c}.n" if self.value.kind == "tensors" else self.n

    @property
    def dims(self):
        """What names dimensions, as a pointer to an nx_value."""
        if self.value.kind in ("int", "ints"):
            n = self.n if self.value.kind == "ints" else 1
            ints = self.c if self.value.kind == "ints" else f"(int64_t[]){{{self.c}}}"
            return f"&(nx_value){{.tag = NX_TAG_INTS, .n = {n}, .ints = {ints}}}"
        return "&NX_VALUE_NONE" if self.value.kind == "none" else f"&{self.c}"

    @property
    def is_empty(self):
        is_list = self.value.kind == "ints"
        return f"({self.n} == 0)" if is_list else f"({self.c}.tag == NX_TAG_INTS && {self.c}.n == 0)"

    @property
    def number(self):
        return self.c if self.value.kind == "number" else f"nx_value_int({self.c})"

    @property
    def dtype(self):
        return f"(nx_dtype){self.c}.i" if self.value.kind == "value" else self.c

    @property
    def tensors(self):
        one = f"(nx_value){{.list = (nx_value[]){{{{.array = {self.array}}}}}, .n = 1}}"
        return self.c if self.value.kind == "tensors" else one

    @property
    def read(self):
        """A tensor whose elements are read."""
        return self.body.elements(self.value)


class SizeCalls:
    """Methods of Body; each takes the call and gives its Value."""

    def call_row(self, expr):
        return self.row(expr.value, expr, [self.expr(arg) for arg in expr.args])

    def row(self, name, expr, values):
        kind, text, *statements = CALLS[name]
        kind, _, count = kind.partition(" ")
        names = {"op": c_string(self.operator)}
        arguments = [Argument(self, expr, arg, value) for arg, value in zip(expr.args, values)]
        used = text + count + "".join(statements)
        for name, type_ in (("out", MADE.get(kind)), ("n", "int $"), ("ok", "bool $")):
            if f"{{{name}}}" in used:
                names[name] = self.new_tensor() if type_ is None else self.declare(type_)
        for statement in statements:
            word, _, call = statement.format(*arguments, **names).partition(" ")
            self.try_(call) if word == "try" else self.emit(f"{word} {call}")
        text, count = (part.format(*arguments, **names) for part in (text, count))
        if kind == "tensor":
            return self.tensor(text)
        if kind == "memory_format":
            return Value("value", text, base=kind)
        return Value(kind, text, count, present=names.get("ok", ""))

    def call_loop(self, expr):
        """`all(each i in ...: condition)` and the like; any other sum is the operator."""
        if not expr.args or expr.args[0].op != "each":
            if expr.value == "sum":
                return self.call_operator(expr, "sum")
            raise Problem(expr.at, f"{expr.value}() needs 'each … : …'")
        type_, initial, step = LOOPS[expr.value]
        out = self.declare(f"{type_} $")
        self.emit(f"{out} = {initial};")
        self.loop(expr.args[0], lambda v, k: self.emit(step.format(out=out, c=v.c, bare=bare(v.c), k=k)))
        return Value("bool" if type_ == "bool" else "int", out)

    def call_fits(self, expr):
        number = self.expr(expr.args[0])
        if number.const is not UNKNOWN:
            return constant(not isinstance(number.const, float))
        return Value("bool", f"({number.c}.tag != NX_TAG_FLOAT)")

    def call_log_of(self, expr):
        """The natural logarithm of a number."""
        return self.new_number(f"nx__number_log({self.expr(expr.args[0]).c}, $)")

    def call_conj(self, expr):
        value = self.expr(expr.args[0])
        if not self.may_be_complex or value.const is not UNKNOWN:
            return value
        if value.kind == "number":
            return self.new_number(f"nx__number_conj({value.c}, $)")
        if value.kind == "operand":  # a tensor or a number
            made = self.new_number(f"nx__number_conj({value.c}, $)")
            self.read.add(value.source)
            self.emit(f"if ({made.c}.tag == NX_TAG_TENSOR && nx_is_complex((nx_dtype){made.c}.array->dtype)) {{")
            self.part_of_complex("nx__conj_physical", f"{made.c}.tensor")
            self.emit("}")
            return Value("operand", made.c)
        return self.if_complex(expr, value, "nx__conj_physical")

    def call_real(self, expr):
        value = self.expr(expr.args[0])
        if value.kind == "dtype":
            return Value("dtype", f"nx_dtype_real({value.c})")
        return self.if_complex(expr, value, "nx__real_part") if self.may_be_complex else value

    def if_complex(self, expr, value, function):
        """Of a complex tensor what the function gives, of another one the tensor itself: no call, no node."""
        if value.kind != "tensor":
            self.refuse(expr, f"{expr.value}() of a {value.kind}")
        name = self.declare("nx_tensor *$")
        self.emit(f"{name} = {self.elements(value)};")
        present = f"{name} && " if value.present else ""
        self.emit(f"if ({present}nx_is_complex((nx_dtype)nx_arr({name})->dtype)) {{")
        self.part_of_complex(function, name)
        self.emit("}")
        return Value("tensor", name, array=f"nx_arr({name})", present=value.present and f"({name} != NULL)")

    def part_of_complex(self, function, name):
        slot = self.new_tensor()
        self.try_(f"{function}({name}, &{slot})")
        self.emit(f"{name} = {slot};")

    def call_any_format(self, expr):
        """The common_format of the first of some tensors for which it is not contiguous, else contiguous."""
        texts = [self.expr(arg).array for arg in expr.args]
        return Value("value", f"nx__any_format({len(texts)}, (const nx_array *const[]){{{', '.join(texts)}}})",
                     base="memory_format")

    def size_function(self, expr):
        """`size_NAME(...)`: a list of integers from C, nx__size_NAME, which may fail in the operator's name."""
        name, count = self.declare("int64_t $[NX_MAX_DIMS]"), self.declare("int $")
        texts = [c_string(self.operator)]
        for value in [self.expr(arg) for arg in expr.args]:
            if value.kind == "tensor":
                texts.append(f"{value.present} ? {value.array} : NULL" if value.present else value.array)
            elif value.kind == "ints":
                texts.append(f"{value.c}, {as_int(value.n)}")
            elif value.kind == "value":
                texts.append("&" + value.c)
            else:
                texts.append("NULL" if value.kind == "none" else value.c)
        self.try_(f"nx__{expr.value}({', '.join(texts)}, {name}, &{count})")
        return Value("ints", name, count)

    def call_contiguous(self, expr):
        """`contiguous(x)`: row by row; `contiguous(x, memory_format)`: as the format says."""
        x, *format_ = (self.expr(arg) for arg in expr.args)
        return Value("bool", f"nx_lies_in_format({x.array}, {format_[0].c}.i)" if format_ else f"{x.array}->contiguous")

    def call_index_size(self, expr):
        """The size of x[indices]: a list of tensors and None, one for each leading dimension; `index_size(x, indices,
        values)`: of what the values are put into."""
        x, indices, *values = (self.expr(arg) for arg in expr.args)
        name, put = self.declare("nx_indexed $"), "_put" if values else ""
        given = "".join(f", {value.array}" for value in values)
        self.try_(f"nx_index{put}_shape({c_string(self.operator)}, {x.array}, &{indices.c}{given}, &{name})")
        return Value("ints", f"{name}.size", f"{name}.ndim")

    def call_as_float(self, expr):
        """A Scalar argument as a float."""
        value = self.expr(expr.args[0])
        return value if value.kind == "float" else Value("float", f"nx_value_as_float(&{value.c})")

    def call_as_int(self, expr):
        """A Scalar argument as an integer, cut off."""
        value = self.expr(expr.args[0])
        return value if value.kind == "int" else Value("int", f"(int64_t)nx_value_as_float(&{value.c})")

    def call_number(self, expr):
        """The one element of a tensor of int64; the host waits for it, and a fake has none."""
        if not self.can_call:
            raise Problem(expr.at, "number() reads an element, which a shape rule has not")
        x, name = self.expr(expr.args[0]), self.declare("int64_t $")
        self.try_(f"nx__number_of({c_string(self.operator)}, {self.elements(x)}, &{name})")
        return Value("int", name)
