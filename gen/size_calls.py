"""Functions of sizes, dtypes and presence that expressions call: one method `call_NAME` each, part of gen.expr.Body."""

from gen.syntax import Problem
from gen.values import UNKNOWN, Value, as_int, bare, c_string, constant


class SizeCalls:
    """Methods of Body; each takes the call and gives its Value."""

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

    def call_len(self, expr):
        value = self.expr(expr.args[0])
        if value.kind == "tensors":
            return Value("int", f"(int64_t){value.c}.n")
        if value.kind != "ints":
            raise Problem(expr.at, f"len() needs a list, this is a {value.kind}")
        return Value("int", f"(int64_t){as_int(value.n)}")

    def quantifier(self, expr, everywhere):
        inner = expr.args[0]
        if inner.op != "each":
            raise Problem(expr.at, f"{expr.value}() needs 'each … : condition'")
        name = self.declare("bool $")
        self.emit(f"{name} = {'true' if everywhere else 'false'};")
        self.loop(inner, lambda value, k: self.emit(f"{name} {'&=' if everywhere else '|='} {value.c};"))
        return Value("bool", name)

    def call_all(self, expr):
        return self.quantifier(expr, True)

    def call_any(self, expr):
        return self.quantifier(expr, False)

    def call_find(self, expr):
        """`find(each i in ...: condition)`: the place of the first element for which it holds, -1 without one."""
        name = self.declare("int64_t $")
        self.emit(f"{name} = -1;")
        self.loop(expr.args[0], lambda value, k: self.emit(f"if ({name} < 0 && {bare(value.c)}) {name} = {k};"))
        return Value("int", name)

    def call_sum(self, expr):
        """`sum(each i in ...: integer)`; any other sum is the operator."""
        if not expr.args or expr.args[0].op != "each":
            return self.call_operator(expr, "sum")
        name = self.declare("int64_t $")
        self.emit(f"{name} = 0;")
        self.loop(expr.args[0], lambda value, k: self.emit(f"{name} += {value.c};"))
        return Value("int", name)

    def call_wrap(self, expr):
        """A dimension counted from the front."""
        dim, n = (self.int_text(arg) for arg in expr.args)
        name = self.declare("int $")
        self.try_(f"nx_wrap_dim({c_string(self.operator)}, {dim}, {as_int(n)}, &{name})")
        return Value("int", f"(int64_t){name}")

    def call_common_format(self, expr):
        """channels_last (of rank 5: channels_last_3d) if a tensor, or all of a list, lie so, else contiguous."""
        x = self.expr(expr.args[0])
        text = x.c if x.kind == "tensors" else f"(nx_value){{.list = (nx_value[]){{{{.array = {x.array}}}}}, .n = 1}}"
        return Value("value", f"nx__common_format(&{text})", base="memory_format")

    def call_any_format(self, expr):
        """The common_format of the first of some tensors for which it is not contiguous."""
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

    def call_expandable(self, expr):
        a, b = (self.expr(arg) for arg in expr.args)
        return Value("bool", f"nx_expandable({a.c}, {a.n}, {b.c}, {b.n})")

    def call_contiguous(self, expr):
        """`contiguous(x)`: row by row; `contiguous(x, memory_format)`: as the format says."""
        x, *format_ = (self.expr(arg) for arg in expr.args)
        return Value("bool", f"nx_lies_in_format({x.array}, {format_[0].c}.i)" if format_ else f"{x.array}->contiguous")

    def call_infer_size(self, expr):
        size, numel = self.expr(expr.args[0]), self.expr(expr.args[1])
        name = self.declare("int64_t $[NX_MAX_DIMS]")
        self.try_(f"nx__check_ndim({c_string(self.operator)}, {size.n})")
        self.try_(f"nx_infer_size({c_string(self.operator)}, {size.c}, {size.n}, {numel.c}, {name})")
        return Value("ints", name, size.n)

    def call_regroup(self, expr):
        x, size = self.expr(expr.args[0]), self.expr(expr.args[1])
        name, ok = self.declare("int64_t $[NX_MAX_DIMS]"), self.declare("bool $")
        self.emit(f"{ok} = nx_regroup({x.array}, {size.c}, {size.n}, {name});")
        return Value("ints", name, size.n, present=ok)

    def call_dims_of(self, expr):
        """The dimensions that a dim argument names, wrapped; all for None and the empty list."""
        dims, n = self.expr(expr.args[0]), self.int_text(expr.args[1])
        name, count = self.declare("int64_t $[NX_MAX_DIMS]"), self.declare("int $")
        text = "&NX_VALUE_NONE" if dims.kind == "none" else f"&{dims.c}"
        if dims.kind == "int":
            text = f"&(nx_value){{.tag = NX_TAG_INTS, .n = 1, .ints = (int64_t[]){{{dims.c}}}}}"
        if dims.kind == "ints":
            text = f"&(nx_value){{.tag = NX_TAG_INTS, .n = {as_int(dims.n)}, .ints = {dims.c}}}"
        self.try_(f"nx__dims_of({c_string(self.operator)}, {text}, {as_int(n)}, {name}, &{count})")
        return Value("ints", name, count)

    def call_is_empty(self, expr):
        """Whether a dim argument is a list without elements, which is not the same as None."""
        value = self.expr(expr.args[0])
        if value.kind == "ints":
            return Value("bool", f"({as_int(value.n)} == 0)")
        return Value("bool", f"({value.c}.tag == NX_TAG_INTS && {value.c}.n == 0)")

    # ---- lists of integers
    def new_ints(self, function, values, args, count):
        """A new list that a function of gen/support.h makes of another one."""
        self.try_(f"nx__check_ndim({c_string(self.operator)}, {count})")
        name = self.declare("int64_t $[NX_MAX_DIMS]")
        self.emit(f"{function}({', '.join([values.c, as_int(values.n)] + args + [name])});")
        return Value("ints", name, count)

    def list_argument(self, expr):
        value = self.expr(expr.args[0])
        if value.kind != "ints":
            raise Problem(expr.at, f"{expr.value}() needs a list of integers, this is a {value.kind}")
        return value, [self.int_text(arg) for arg in expr.args[1:]]

    def call_swap(self, expr):
        values, args = self.list_argument(expr)
        return self.new_ints("nx__ints_swap", values, args, values.n)

    def call_set(self, expr):
        values, args = self.list_argument(expr)
        return self.new_ints("nx__ints_set", values, args, values.n)

    def call_insert(self, expr):
        values, args = self.list_argument(expr)
        return self.new_ints("nx__ints_insert", values, args, f"({values.n} + 1)")

    def call_remove(self, expr):
        values, args = self.list_argument(expr)
        return self.new_ints("nx__ints_remove", values, args, f"({values.n} - 1)")

    def call_without_ones(self, expr):
        """A list without the elements at those of some dimensions at which a second list has a 1."""
        values, size, dims = (self.expr(arg) for arg in expr.args)
        name, count = self.declare("int64_t $[NX_MAX_DIMS]"), self.declare("int $")
        lists = f"{values.c}, {size.c}, {as_int(values.n)}, {dims.c}, {as_int(dims.n)}"
        self.emit(f"{count} = nx__ints_without_ones({lists}, {name});")
        return Value("ints", name, count)

    def call_inverse(self, expr):
        values, args = self.list_argument(expr)
        return self.new_ints("nx__ints_inverse", values, args, values.n)

    def call_broadcast(self, expr):
        a, b = (self.expr(arg) for arg in expr.args)
        name, count = self.declare("int64_t $[NX_MAX_DIMS]"), self.declare("int $")
        self.try_(f"nx__ints_broadcast({c_string(self.operator)}, {a.c}, {as_int(a.n)}, {b.c}, {as_int(b.n)}, "
                  f"{name}, &{count})")
        return Value("ints", name, count)

    def call_arange_size(self, expr):
        """How many numbers lie between two others."""
        values = [self.expr(arg) for arg in expr.args]
        texts = [v.c if v.kind == "number" else f"nx_value_int({v.c})" for v in values]
        name = self.declare("int64_t $")
        self.try_(f"nx__arange_size({c_string(self.operator)}, {', '.join(texts)}, &{name})")
        return Value("int", name)

    def call_prod(self, expr):
        values, _ = self.list_argument(expr)
        return Value("int", f"nx_numel({as_int(values.n)}, {values.c})")

    def call_clamp(self, expr):
        return Value("int", f"nx__clamp({', '.join(self.int_text(arg) for arg in expr.args)})")

    def call_index_size(self, expr):
        """The size of x[indices]: a list of tensors and None, one for each leading dimension."""
        x, indices = (self.expr(arg) for arg in expr.args)
        name = self.declare("nx_indexed $")
        self.try_(f"nx_index_shape({c_string(self.operator)}, {x.array}, &{indices.c}, &{name})")
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

    def call_square_root(self, expr):
        return Value("float", f"sqrt({self.expr(expr.args[0]).c})")

    def call_bytes(self, expr):
        """Of an element of a dtype."""
        dtype = self.expr(expr.args[0])
        text = f"(nx_dtype){dtype.c}.i" if dtype.kind == "value" else dtype.c
        return Value("int", f"(int64_t)nx_dtype_bytes({text})")

    def call_ceil_div(self, expr):
        a, b = (self.int_text(arg) for arg in expr.args)
        return Value("int", f"(({a} + {b} - 1) / {b})")

    def call_count(self, expr):
        """How many elements of a tensor of that size one result of a reduction over `dim` takes."""
        size, dims = self.expr(expr.args[0]), self.expr(expr.args[1])
        name = self.declare("int64_t $")
        text = "&NX_VALUE_NONE" if dims.kind == "none" else f"&{dims.c}"
        self.try_(f"nx__count({c_string(self.operator)}, {size.c}, {as_int(size.n)}, {text}, &{name})")
        return Value("int", name)

    def call_int64_if_int(self, expr):
        value = self.expr(expr.args[0])
        return Value("dtype", f"(nx_is_differentiable({value.c}) ? {value.c} : NX_I64)")
