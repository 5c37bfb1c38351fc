"""Writes what stands behind an operator in C: shape rules (meta.c), kernel adapters (kernels.h, kernels.c), formulas
(grad.c) and compositions (compose.c). One function a sibling and job; all forms of a sibling share them."""

import re

from gen.bind import argument_value
from gen.expr import Body, free_names, scope_of
from gen.model import CLASSES, DTYPE_CODE, DTYPES, admits_complex, admitted, gives_list, kind, meaning
from gen.syntax import Problem
from gen.values import UNKNOWN, Value, as_int, bare, c_string
from gen.write_loops import result_kind

RULES = '#include "gen/rules.h"\n'
TYPE_VALUE = {"int64_if_int": "nx_is_differentiable({0}) ? {0} : NX_I64",
              "int64_if_bool": "{0} == NX_BOOL ? NX_I64 : {0}",
              "float": "nx_is_differentiable({0}) ? {0} : nx_default_dtype()", "real": "nx_dtype_real({0})",
              "complex": "nx_dtype_complex({0})",
              "wide": " || ".join(f"{{0}} == NX_{DTYPE_CODE[half]}" for half in CLASSES["half"]) + " ? NX_F32 : {0}"}


class Source:
    """A C file in the making: functions in order, each with #line back to its entry."""

    def __init__(self, name, head):
        self.name, self.parts = name, [head.rstrip("\n")]

    def add(self, text, at=None):
        if at:
            self.parts.append(f"\x00{at.line} {c_string(at.path)}")
        self.parts.append(text.rstrip("\n"))
        if at:
            self.parts.append("\x00")

    def text(self):
        """Lines with the marks of add() turned into #line."""
        lines = []
        for line in "\n".join(self.parts).split("\n"):
            if line == "\x00":
                lines.append(f"#line {len(lines) + 2} {c_string('gen/' + self.name)}")
            elif line.startswith("\x00"):
                lines.append("#line " + line[1:])
            else:
                lines.append(line)
        return "\n".join(lines) + "\n"


def function(head, body, start, end):
    """A C function from a Body: declarations, `start` lines, statements, `end` lines."""
    lines = [head + " {"] + ["    " + d for d in body.declarations]
    lines += (
        ["    " + s for s in start]
        + ["    " + s for s in body.lines]
        + [s[1:] if s.startswith("\b") else "    " + s for s in end]
    )
    return "\n".join(lines + ["}", ""])


def promoting(sibling):
    return [a for a in sibling.arguments if a.param.in_promotion]


def common_dtype(sibling):
    """C text of the value of T, and the lines that make it."""
    args = promoting(sibling)
    tensors = [a for a in args if a.base == "Tensor"]
    if not tensors:
        return None
    same = len(args) == 1 or any(row.value[2] for row in sibling.entry.all("types"))
    if same and tensors[0].is_tensor:
        return [f"const nx_dtype T = (nx_dtype)in[{tensors[0].index}].array->dtype;"]
    return [f"const nx_value *const operands[] = {{{', '.join(f'&in[{a.index}]' for a in args)}}};",
            f"const nx_dtype T = nx_promote(operands, {len(args)});",
            f"if (NX_UNLIKELY(T == NX_N_DTYPES)) return nx_fail_promotion(operands, {len(args)});"]


def dtype_text(body, expr):
    """A result's dtype as C."""
    if expr.op == "call" and expr.value in TYPE_VALUE:
        return f"({TYPE_VALUE[expr.value].format(dtype_text(body, expr.args[0]))})"
    if expr.op == "binary" and expr.value == "??":
        left = body.expr(expr.args[0])
        if left.kind != "value":
            raise Problem(expr.at, "what stands before '??' may not be absent")
        return f"({left.c}.tag != NX_TAG_NONE ? (nx_dtype){left.c}.i : {dtype_text(body, expr.args[1])})"
    if expr.op == "if":
        condition = body.expr(expr.args[0])
        if condition.const is not UNKNOWN:
            return dtype_text(body, expr.args[1 if condition.const else 2])
        yes, no = (dtype_text(body, part) for part in expr.args[1:])
        return f"({bare(condition.c)} ? {yes} : {no})"
    if expr.op == "name" and expr.value == "bool":
        return "NX_BOOL"
    value = body.expr(expr)
    if value.kind == "value" and value.base == "dtype":
        return f"(nx_dtype){value.c}.i"
    if value.kind != "dtype":
        raise Problem(expr.at, f"a dtype is needed here, this is a {value.kind}")
    return value.c


# ---- shape rules
def write_meta(world, sibling, source):
    entry = sibling.entry
    body = Body(world, sibling.base, False)
    body.scope = scope_of(sibling, world)
    if promoting(sibling):
        body.scope["T"] = Value("dtype", "T")
    op = c_string(sibling.base)
    device_checks(body, sibling, op)
    body.wrap_dims(sibling)
    if kind(entry) == "elements" and meaning(entry).value["view"]:
        part_size(world, body, sibling, op)
    body.checks([row for row in entry.rows if row.word in ("let", "check")])
    dtype_checks(body, sibling, op)
    place(body, sibling, op)
    start = [line for line in common_dtype(sibling) or [] if uses(body, "T")]
    source.add(
        function(
            f"nx_status nx__shape_{sibling.c_name}(const nx_value *in, nx_meta *out)", body, start, ["return NX_OK;"]
        ),
        sibling.at,
    )


def uses(body, name):
    return any(re.search(rf"\b{name}\b", line) for line in body.lines)


def device_checks(body, sibling, op):
    entry = sibling.entry
    tensors = [a for a in sibling.arguments if a.is_tensor]
    if kind(entry) not in ("point", "as") and not entry.one("device"):
        for a in [a for a in tensors[1:] if not a.optional]:
            body.try_(f"nx__check_same_device({op}, in[{tensors[0].index}].array, in[{a.index}].array)")


def view_call(world, sibling, whole):
    """The shape rule of the view that an `elements` row calls, and the values that it is given: what is viewed, and the
    arguments, names of the entry's or whole numbers."""
    call = meaning(sibling.entry).value["view"]
    forms = world.overloads(call.value) if call.op == "call" else []
    views = [form.sibling for form in forms if kind(form.sibling.entry) == "view"]
    if len(views) != 1:
        raise Problem(call.at, f"{len(views)} views are called so, one is needed")
    if len(call.args) != len(views[0].arguments) - 1 or call.keywords:
        raise Problem(call.at, f"{views[0].name} takes {len(views[0].arguments) - 1} arguments behind what is viewed")
    texts = []
    for expr in call.args:
        argument = sibling.argument(expr.value) if expr.op == "name" else None
        if argument is None and expr.op != "number":
            raise Problem(expr.at, "an argument of the view is one of the entry's, or a whole number")
        texts.append(f"in[{argument.index}]" if argument else f"nx_value_int({expr.value})")
    return f"nx__shape_{views[0].c_name}", f"(nx_value[]){{{', '.join([whole, *texts])}}}"


def part_size(world, body, sibling, op):
    """The size of the part that an `elements` row names is `part` to the rows of checks; the view's own come first."""
    result = sibling.entry.results[0]
    size = body.expr(result.args[0])
    if size.kind == "tensor":
        size = Value("ints", f"{size.array}->sizes", f"{size.array}->ndim")
    rule, values = view_call(world, sibling, "NX_VALUE_NONE")
    body.declarations.append("nx_meta part;")
    body.emit(f"NX_TRY(nx__meta_part({op}, {size.c}, {as_int(size.n)}, {rule}, {values}, &part));")
    body.scope["part"] = Value("ints", "part.size", "part.ndim")


def dtype_checks(body, sibling, op):
    """Behind the entry's own checks, as in PyTorch, whose kernels are the last to look at dtypes."""
    entry = sibling.entry
    tensors = [a for a in sibling.arguments if a.is_tensor]
    names = [c_string(a.name) for a in tensors]
    if any(row.value[2] for row in entry.all("types")):
        for a, name in zip(tensors[1:], names[1:]):
            if a.optional or a.param.type.base != tensors[0].param.type.base:
                continue
            body.try_(
                f"nx__check_same_dtype({op}, in[{tensors[0].index}].array, {names[0]}, in[{a.index}].array, {name})"
            )
    if entry.one("types") or (kind(entry) in ("point", "elements", "kernel") and "T" in body.scope):
        names = admitted(entry)
        if kind(entry) == "point" and result_kind(sibling) == "FLOAT":  # what is computed is its float type
            names = names + CLASSES["unsigned"]
        bits = sum(1 << k for k, (_, name, _, _) in enumerate(DTYPES) if name in names)
        body.try_(f"nx__check_dtype({op}, T, {bits:#x})")
    for a in tensors:
        inner = a.param.type.inner if a.param.type.base == "Tensor" else None
        if inner:
            if inner == "index":
                continue  # int32 or int64: a check row of the entry says so
            expected = "NX_BOOL" if inner in ("bool", "truth") else f"NX_{DTYPE_CODE[inner]}"
            condition = f"in[{a.index}].tag == NX_TAG_TENSOR && " if a.optional else ""
            if inner == "truth":
                condition += f"in[{a.index}].array->dtype != NX_U8 && "  # PyTorch still takes it
            body.emit(f"if ({condition}in[{a.index}].array->dtype != {expected})")
            body.emit(f"    return nx__fail_argument_dtype({op}, {c_string(a.name)}, in[{a.index}].array, {expected});")
    for a in sibling.arguments:
        if a.base == "str" and a.param.type.inner:
            words = [key for key, _ in a.param.type.inner]
            body.try_(f"nx__check_choice({op}, {c_string(a.name)}, &in[{a.index}], "
                      f"(const char *const[]){{{', '.join(map(c_string, words))}}}, {len(words)})")
    options = sibling.argument("layout"), sibling.argument("pin_memory")
    if all(options):
        body.try_(f"nx__check_options({op}, &in[{options[0].index}], &in[{options[1].index}])")


def place(body, sibling, op):
    """Fills `out` from the results' places."""
    entry = sibling.entry
    for k, result in enumerate(entry.results):
        out = "out" if k == 0 else f"(out + {k})"
        getattr(Places, result.kind)(body, sibling, op, result, out)
        made = result.kind in ("new", "sizes", "swapped", "permuted", "strided")
        if result.dtype is not None and not made:
            body.emit(f"{out}->dtype = {dtype_text(body, result.dtype)};")
        device = sibling.argument("device")
        if device and not made:
            body.emit(f"if (in[{device.index}].tag == NX_TAG_DEVICE) {out}->device = in[{device.index}].device;")
        if result.condition is not None:
            body.emit(f"{out}->absent = !({bare(body.expr(result.condition).c)});")


class Places:
    """One function a kind of result."""

    @staticmethod
    def T(body, sibling, op, result, out):
        tensors = [a for a in sibling.arguments if a.base == "Tensor"]
        order = result.args if len(result.args) > 1 else [a.name for a in tensors]
        tensors.sort(key=lambda a: order.index(a.name))
        shapes = body.declare(f"const nx_value *$[{len(tensors)}]")
        for k, a in enumerate(tensors):
            body.emit(f"{shapes}[{k}] = &in[{a.index}];")
        body.emit(f"NX_TRY(nx_meta_broadcast({op}, {shapes}, {len(tensors)}, {out}));")
        if result.contiguous:
            body.emit(f"NX_TRY(nx__meta_contiguous({out}));")
        Places.plain(body, out)
        body.emit(f"{out}->dtype = T;")

    @staticmethod
    def plain(body, out):
        body.emit(f"{out}->absent = false;")
        body.emit(f"{out}->view_of = -1;")
        body.emit(f"{out}->offset = 0;")

    @staticmethod
    def like(body, sibling, op, result, out):
        array = body.expr(result.args[0]).array
        format_ = sibling.argument("memory_format")
        text = "(nx_value){.tag = NX_TAG_MEMORY_FORMAT}" if result.contiguous else \
            f"in[{format_.index}]" if format_ else "NX_VALUE_NONE"
        call = f"NX_TRY(nx__meta_like({op}, {array}, {text}, {out}));"
        if result.condition is None:
            return body.emit(call)
        body.emit(f"if ({bare(body.expr(result.condition).c)}) {call}")  # what it is like may be absent, too

    @staticmethod
    def param(body, sibling, op, result, out):
        argument = sibling.argument(result.args[0])
        if argument is None:
            raise Problem(result.at, f"{sibling.name} has no parameter '{result.args[0]}'")
        body.emit(f"nx__meta_same(in[{argument.index}].array, {out});")

    @staticmethod
    def new(body, sibling, op, result, out):
        size = body.expr(result.args[0])
        format_ = body.expr(result.args[1]).c if len(result.args) > 1 else "NX_VALUE_NONE"
        Places.make(body, sibling, op, result, out, size, format_)

    @staticmethod
    def sizes(body, sibling, op, result, out):
        Places.make(body, sibling, op, result, out, body.expr(result.args[0]), "NX_VALUE_NONE")

    @staticmethod
    def swapped(body, sibling, op, result, out):
        size, *dims = (body.expr(arg) for arg in result.args)
        Places.make(body, sibling, op, result, out, size, "NX_VALUE_NONE")
        body.emit(f"nx__meta_swap({', '.join(dim.c for dim in dims)}, {out});")

    @staticmethod
    def permuted(body, sibling, op, result, out):
        size, order = (body.expr(arg) for arg in result.args)
        Places.make(body, sibling, op, result, out, size, "NX_VALUE_NONE")
        body.emit(f"nx__meta_order({order.c}, {as_int(order.n)}, {out});")

    @staticmethod
    def strided(body, sibling, op, result, out):
        size, stride = (body.expr(arg) for arg in result.args)
        Places.make(body, sibling, op, result, out, size, "NX_VALUE_NONE")
        body.emit(f"for (int k = 0; k < {out}->ndim; k++) {out}->stride[k] = {stride.c}[k];")

    @staticmethod
    def make(body, sibling, op, result, out, size, format_):
        device, tensor = sibling.argument("device"), next((a for a in sibling.arguments if a.base == "Tensor"), None)
        first = ".list[0]" if tensor and not tensor.is_tensor else ""
        where = f"in[{tensor.index}]{first}.array->device" if tensor else "nx_device_default()" if device else "NX_CPU"
        if device:
            where = f"in[{device.index}].tag == NX_TAG_DEVICE ? in[{device.index}].device : {where}"
        dtype = dtype_text(body, result.dtype) if result.dtype else "T"
        body.emit(f"NX_TRY(nx__meta_new({op}, {dtype}, {where}, {size.c}, {as_int(size.n)}, {format_}, {out}));")

    @staticmethod
    def reduce(body, sibling, op, result, out):
        x, dim, keepdim = (body.expr(arg) for arg in result.args)
        dims = "&NX_VALUE_NONE" if dim.kind == "none" else f"&{dim.c}"
        if dim.kind == "ints":
            dims = f"&(nx_value){{.tag = NX_TAG_INTS, .n = {as_int(dim.n)}, .ints = {dim.c}}}"
        if dim.kind == "int":  # one dimension
            one = body.declare("int64_t $")
            body.emit(f"{one} = {dim.c};")
            dims = f"&(nx_value){{.tag = NX_TAG_INTS, .n = 1, .ints = &{one}}}"
        if "bool reduced[NX_MAX_DIMS];" not in body.declarations:
            body.declarations.append("bool reduced[NX_MAX_DIMS];")
        body.emit(f"NX_TRY(nx_meta_reduce({op}, {x.array}, {dims}, {keepdim.c}, {out}, reduced));")
        Places.plain(body, out)

    @staticmethod
    def view(body, sibling, op, result, out):
        argument = sibling.argument(result.args[0].value)
        body.emit(f"nx__meta_view(in[{argument.index}].array, {argument.index}, out);")
        rules = sibling.entry.one("view").value
        view_list(body, "size", rules["size"], f"in[{argument.index}].array->ndim")
        view_list(body, "stride", rules["stride"], "out->ndim")
        if "offset" in rules:
            body.emit(f"out->offset = {body.expr(rules['offset'][1]).c};")


def view_list(body, name, rule, count):
    """`size = E`, or `size[i] = E` for every i."""
    index, expr = rule
    if index is None:
        values = body.expr(expr)
        if values.kind != "ints":
            raise Problem(expr.at, f"{name} must be a list of integers")
        if name == "size":
            body.emit(f"out->ndim = {as_int(values.n)};")
        elif values.n.isidentifier():
            body.emit(f"(void){values.n}; /* as many as sizes */")
        body.emit(f"for (int k = 0; k < out->ndim; k++) out->{name}[k] = {values.c}[k];")
        return
    if name == "size":
        body.emit(f"out->ndim = {count};")
    counter = body.declare("int64_t $")
    body.scope[index] = Value("int", counter)
    body.emit(f"for ({counter} = 0; {counter} < out->ndim; {counter}++) {{")
    body.depth += 1
    body.emit(f"out->{name}[{counter}] = {body.expr(expr).c};")
    body.depth -= 1
    body.emit("}")


# ---- kernels
def kernel_argument(world, sibling, expr, name):
    """(C type, C text, lines before) of one argument of a typed kernel."""
    lists = [a.name for a in sibling.arguments if a.base == "Tensor" and not a.is_tensor]
    mutated = [n for row in sibling.entry.all("mutate") for n in row.value if n not in lists]
    if expr is not None and expr.op == "number":
        wrap = "nx_value_float" if isinstance(expr.value, float) else "nx_value_int"
        return "nx_value ", f"{wrap}({expr.value})", []
    results = {place.name or f"result{k}": k for k, place in enumerate(sibling.entry.results)} | {"result": 0}
    if name in mutated or (name in results and sibling.argument(name) is None):
        k = 0 if name in mutated else results[name]
        text = f"out[{k}].array"
        if name in results and sibling.entry.results[k].condition is not None:
            text = f"out[{k}].tag == NX_TAG_TENSOR ? {text} : NULL"
        return "nx_array *", text, []
    argument = sibling.argument(name)
    if argument is None and name == "generator":
        return "nx_generator *", "generator", ["nx_generator *generator;",
                                               "NX_TRY(nx__run_generator(run, &NX_VALUE_NONE, &generator));"]
    if argument is None and name in sibling.binds:
        bound = Body(world, sibling.base, False).expr(sibling.binds[name])
        param = sibling.entry.param(name)
        if param is None and bound.kind == "bool":
            return "bool ", bound.c, []
        if param is None:  # as a number that stands there
            return "nx_value ", f"nx_value_{bound.kind}({bound.c})", []
        wrapped = param.type.base == "Scalar" and bound.kind in ("int", "float", "bool")
        return ("nx_value ", f"nx_value_{bound.kind}({bound.c})", []) if wrapped else ("int64_t ", bound.c, [])
    if argument is None:
        raise Problem(expr.at if expr else sibling.at, f"{sibling.name} has no parameter '{name}'")
    c = f"in[{argument.index}]"
    if argument.is_tensor:
        array = f"{c}.tag == NX_TAG_TENSOR ? {c}.array : NULL" if argument.optional else c + ".array"
        return "const nx_array *", array, []
    if argument.base == "generator":
        return (
            "nx_generator *",
            "generator",
            ["nx_generator *generator;", f"NX_TRY(nx__run_generator(run, &{c}, &generator));"],
        )
    if argument.param.is_dim:
        body = Body(world, sibling.base, False)
        body.scope = scope_of(sibling, world)
        count = body.dim_count(argument.param)
        wrap = f"NX_TRY(nx_wrap_dim({c_string(sibling.base)}, {c}.i, {count}, &wrapped_{name}));"
        return "int64_t ", f"wrapped_{name}", [f"int wrapped_{name};", wrap]
    value = argument_value(argument)
    if value.kind in ("number", "value", "ints?", "bools", "tensors"):
        return "nx_value ", c, []
    types = {"int": "int64_t ", "float": "double ", "bool": "bool "}
    if value.kind == "ints":
        return "const int64_t *", f"{value.c}, {value.n}", []
    return types[value.kind], value.c, []


def kernel_call(world, sibling, row, prototypes):
    """The statements that call a typed kernel; notes its prototype."""
    name = row["name"]
    if row["args"] is None:
        places = sibling.entry.results
        results = ["result"] if len(places) == 1 else [place.name or f"result{k}" for k, place in enumerate(places)]
        names = [a.name for a in sibling.arguments] + ([] if sibling.entry.one("mutate") else results)
        parts = [(None, n) for n in names]
    else:
        parts = [(e, e.value if e.op == "name" else None) for e in row["args"]]
    types, texts, before = ["nx_run *run"], ["run"], []
    for k, (expr, part) in enumerate(parts):
        type_, text, lines = kernel_argument(world, sibling, expr, part)
        shown = {"result": "out", None: f"value{k}"}.get(part, part)
        types.append(type_ + shown + (f", int n_{shown}" if type_ == "const int64_t *" else ""))
        texts.append(text)
        before += lines
    note_prototype(prototypes, name, types, row["at"])
    return before + [f"return nx__{name}({', '.join(texts)});"]


def note_prototype(prototypes, name, types, at):
    bare = [t.rsplit(" ", 1)[0] if not t.rsplit(" ", 1)[1].startswith("*") else t.rsplit("*", 1)[0] for t in types]
    known = prototypes.setdefault(name, (bare, types))
    if known[0] != bare:
        raise Problem(at, f"kernel {name} is called with other types elsewhere: {', '.join(known[0])}")


def write_kernels(world, sibling, source, prototypes):
    """The function that chooses a kernel, and the one of the reference. Returns their C names."""
    entry, names = sibling.entry, {}
    rows = {"kernel": entry.all("kernel"), "ref": entry.all("ref")}
    simple = (
        len(rows["kernel"]) == 1 and rows["ref"] and rows["kernel"][0].value["name"] == rows["ref"][0].value["name"]
    )
    for word, function_name in (("kernel", f"run_{sibling.c_name}"), ("ref", f"ref_{sibling.c_name}")):
        if not rows[word] or (word == "ref" and simple):
            continue
        body = Body(world, sibling.base, False)
        body.scope = scope_of(sibling, world)
        body.scope["T"] = Value("dtype", "T")
        for row in rows[word]:
            lines = kernel_call(world, sibling, row.value, prototypes)
            if row.value["when"] is None:
                body.lines += lines
                break
            condition = body.expr(row.value["when"])
            body.emit(f"if ({bare(condition.c)}) {{")
            body.lines += ["    " + line for line in lines]
            body.emit("}")
        if word == "kernel" and rows[word][-1].value["when"] is not None:
            raise Problem(rows[word][-1].at, "the last kernel has no 'when': it takes what the others leave")
        start = [line for line in common_dtype(sibling) or [] if uses(body, "T")]
        head = f"nx_status nx__{function_name}(nx_run *run, const nx_value *in, nx_value *out)"
        source.add(function(head, body, start, []), rows[word][0].at)
        names[word] = f"nx__{function_name}"
    return names


def write_elements(world, sibling, source):
    """The function that writes what the `elements` row says: a number or a tensor's elements into the result, then into
    the part that a view of it shows. Returns its C name."""
    row = sibling.entry.one("elements")
    whole, view, part = (row.value[key] for key in ("whole", "view", "part"))
    if whole.op == "name" and whole.value == "undefined" and not view:
        return "nx__kernel_nothing"
    body = Body(world, sibling.base, False)
    write_into_array(world, body, sibling, whole, "out[0].array")
    if view:
        rule, values = view_call(world, sibling, "out[0]")
        body.declarations.append("nx_part part;")
        body.emit(f"NX_TRY(nx_part_of(out[0].array, {rule}, {values}, &part));")
        write_into_array(world, body, sibling, part, "&part.array")
    head = f"nx_status nx__run_{sibling.c_name}(nx_run *run, const nx_value *in, nx_value *out)"
    source.add(function(head, body, [], ["return NX_OK;"]), row.at)
    return f"nx__run_{sibling.c_name}"


def write_into_array(world, body, sibling, expr, to):
    type_, text, lines = kernel_argument(world, sibling, expr, expr.value if expr.op == "name" else None)
    if lines or type_ not in ("nx_value ", "const nx_array *"):
        raise Problem(expr.at, "elements are undefined, those of a tensor, or a number")
    body.emit(f"nx_copy_cast({to}, {text});" if type_ == "const nx_array *" else f"NX_TRY(nx_fill(run, {to}, {text}));")


# ---- formulas
def rules_of(sibling):
    """(argument, formula) of the inputs that have a gradient, by name: PyTorch computes them in this order."""
    row = sibling.entry.one("grad")
    if row is None:
        return []
    found = []
    for rule in row.value["rules"]:
        arguments = [sibling.argument(name) for name in rule["targets"]]
        arguments = [a for a in arguments if a is not None and a.base == "Tensor"]
        if any(a.is_tensor == bool(rule["index"]) for a in arguments):
            raise Problem(rule["at"], "name[k]: the gradient of element k of a list; of anything else without [k]")
        if arguments:
            found.append((arguments, rule["index"], rule["formula"]))
    return sorted(found, key=lambda pair: pair[0][0].name)


def hand_on(body):
    """A tensor that is mentioned for the last time is handed on: counting up and later down would be locked."""
    for k, line in enumerate(body.lines):
        found = re.search(r"nx_tensor_ref\((t\[\d+\])\)+;", line)
        if found and not any(found[1] in later for later in body.lines[k + 1 :]):
            body.lines[k] = line.replace(f"nx_tensor_ref({found[1]})", f"nx__hand_on(&{found[1]})")


def write_backward(world, sibling, source):
    """The formulas of a sibling. Returns {argument index: (inputs read, results read)}, or None."""
    entry, rules = sibling.entry, rules_of(sibling)
    if not rules:
        return None
    body = Body(world, sibling.base + " backward", True)
    body.may_be_complex = admits_complex(entry)
    body.scope = scope_of(sibling, world)
    for k, place in enumerate(entry.results):
        result = Value("tensor", f"results[{k}]", array=f"nx_arr(results[{k}])", source=("out", k))
        body.scope[f"g{k}"] = Value("tensor", f"g[{k}]", array=f"nx_arr(g[{k}])")
        for name in {place.name, f"result{k}"} - {None}:
            body.scope.setdefault(name, result)
    body.scope["g"], body.scope["result"] = body.scope["g0"], body.scope["result0"]
    if gives_list(entry):
        body.scope["g"] = Value("gradients", "g")
    saves = {}
    asks = any(e.op == "name" and e.value == "g1" for *_, formula in rules for e in formula.walk())
    read_gradients = len(entry.results) if asks else 1
    body.wrap_dims(sibling, set().union(*(free_names(formula) for *_, formula in rules)))
    n, listed = str(len(sibling.arguments)), None
    for arguments, index, formula in rules:
        if index:
            if listed is not None and arguments[0].index < listed:
                raise Problem(formula.at, "the gradients of lists stand in the order of the arguments")
            listed = arguments[0].index
            write_list_formula(body, arguments[0], index, formula, n)
            n += f" + in[{listed}].n"
        else:
            write_formula(body, entry, arguments, formula)
        for argument in arguments:
            saves[argument.index] = (bits(body.read, "in"), bits(body.read, "out"))
    for k, place in enumerate(entry.results):
        kept = any(results >> k & 1 for _, results in saves.values())
        if not kept and any(f"nx_arr(results[{k}])" in line for line in body.lines):
            name = place.name or "result"
            raise Problem(entry.one("grad").at, f"a formula asks for the size of {name}, which is not kept")
    sums = "true" if kind(entry) == "point" else "false"
    for argument in sorted((a for arguments, *_ in rules for a in arguments if a.is_tensor), key=lambda a: a.index):
        body.try_(f"nx__grad_finish(&grads[{argument.index}], &in[{argument.index}], {sums})")
    hand_on(body)
    start, end = frame(body, "grads", n)
    start.append(f"for (int k = 0; k < {n}; k++) grads[k] = NULL;")
    if not gives_list(entry):
        start.append(f"if ({' && '.join(f'!g[{k}]' for k in range(read_gradients))}) return NX_OK;")
    head = (
        f"nx_status nx__backward_{sibling.c_name}(const nx_value *in, nx_tensor *const *results, nx_tensor *const *g,\n"
        "        uint64_t needed, nx_tensor **grads)"
    )
    source.add(function(head, body, start, end), entry.one("grad").at)
    return saves


def frame(body, grads, n_grads):
    """First and last lines of a function that makes tensors: they lie in `t`, lists of them in `l`."""
    n, lists = max(body.n_tensors, 1), body.n_lists
    start = ["nx_status status = NX_OK;", f"nx_tensor *t[{n}] = {{0}};"]
    start += [f"nx_value l[{lists}] = {{0}};"] if lists else []
    end = ["\bfail:"] + ([f"nx__drop_lists(l, {lists});"] if lists else [])
    return start, end + [f"return nx__grad_end(status, t, {n}, {grads}, {n_grads});"]


def write_list_formula(body, argument, index, formula, n_before):
    """The gradient of each element of a list; those that are wanted have AUTOGRAD among their keys."""
    body.read = set()
    source, k = f"in[{argument.index}]", body.declare("int64_t $")
    body.emit(f"for ({k} = 0; {k} < (needed >> {argument.index} & 1 ? {source}.n : 0); {k}++) {{")
    body.depth += 1
    element = f"{source}.list[{k}]"
    body.emit(f"if ({element}.tag != NX_TAG_TENSOR || !({element}.tensor->keys & NX_KEY(AUTOGRAD))) continue;")
    first, body.scope[index] = body.n_tensors, Value("int", k)
    value = body.expr(formula)
    if value.kind != "tensor":
        raise Problem(formula.at, f"a gradient is a tensor, this is a {value.kind}")
    grad = f"grads[{n_before} + {k}]"
    body.emit(f"{grad} = nx_tensor_ref({body.elements(value)});")
    body.try_(f"nx__grad_finish(&{grad}, &{element}, false)")
    if body.n_tensors > first:
        body.emit(f"nx__release(t + {first}, {body.n_tensors - first});")
    del body.scope[index]
    body.depth -= 1
    body.emit("}")


def write_formula(body, entry, arguments, formula):
    """The gradients that one formula gives: of one input, or of several as a tuple with `mask` for what is needed."""
    body.read = set()
    if len(entry.results) > 1:  # any of the gradients may be missing
        body.zero_like = f"in[{arguments[0].index}].tensor"
    wanted = sum(1 << a.index for a in arguments)
    test = f"needed >> {arguments[0].index} & 1" if len(arguments) == 1 else f"needed & {wanted:#x}"
    body.emit(f"if ({test}) {{ /* {', '.join(a.name for a in arguments)} */")
    body.depth += 1
    if len(arguments) == 1:
        value = body.expr(formula)
        if value.kind != "tensor":
            raise Problem(formula.at, f"a gradient is a tensor, this is a {value.kind}")
        given = f"if ({value.c}) " if "none" in free_names(formula) else ""
        body.emit(f"{given}grads[{arguments[0].index}] = nx_tensor_ref({body.elements(value)});")
    else:
        if "mask" in free_names(formula):
            mask = body.declare(f"nx_value $[{len(arguments)}]", "mask")
            for k, a in enumerate(arguments):
                body.emit(f"{mask}[{k}] = nx_value_bool(needed >> {a.index} & 1);")
            body.scope["mask"] = Value("bools", f"nx_value_list({mask}, {len(arguments)})")
        value = body.expr(formula)
        if value.kind != "tuple" or int(value.n) != len(arguments):
            given = f"a {value.kind} of {value.n or 1}"
            raise Problem(formula.at, f"{len(arguments)} gradients are needed, this is {given}")
        for k, a in enumerate(arguments):
            body.emit(f"if (t[{value.const + k}]) grads[{a.index}] = nx_tensor_ref(t[{value.const + k}]);")
    body.depth -= 1
    body.emit("}")


def bits(read, where):
    return sum(1 << k for side, k in read if side == where)


# ---- inverses of views
def write_inverse(world, sibling, source):
    """The function that makes the viewed tensor's new value of a view's; `k` is which of several views."""
    row = sibling.entry.one("inverse")
    body = Body(world, sibling.base + " inverse", True)
    body.scope = scope_of(sibling, world)
    body.scope["v"] = Value("tensor", "v", array="nx_arr(v)")
    body.scope["k"] = Value("int", "(int64_t)k")
    lets = [r for r in sibling.entry.all("let") if {name for name, _ in r.value} & free_names(row.value)]
    named = free_names(row.value).union(*(free_names(bound) for r in lets for _, bound in r.value))
    body.wrap_dims(sibling, named)
    body.checks(lets)
    value = body.expr(row.value)
    if value.kind != "tensor":
        raise Problem(row.at, f"the viewed tensor's new value is a tensor, this is a {value.kind}")
    body.emit(f"*out = nx_tensor_ref({body.elements(value)});")
    start, end = frame(body, "out", "1")
    start.append("*out = NULL;")
    end[:1] = end[:1] if body.n_tensors or body.n_lists else []
    head = (f"nx_status nx__inverse_{sibling.c_name}(const nx_value *in, int k, nx_tensor *v, nx_tensor **out)")
    source.add(function(head, body, start, end), row.at)


def scatter_of(sibling):
    """The operator that alone is the inverse and takes the base, the view and the view's other arguments, in order."""
    row = sibling.entry.one("inverse")
    call = row.value if row and not gives_list(sibling.entry) else None
    names = ["self", "v"] + [a.name for a in sibling.arguments[1:]]
    alone = call is not None and call.op == "call" and [a.op == "name" and a.value for a in call.args] == names
    return call.value if alone and len(names) > 2 and not call.keywords else None


# ---- compositions
def write_compose(world, sibling, source):
    entry = sibling.entry
    body = Body(world, sibling.base, True)
    body.scope = scope_of(sibling, world)
    body.wrap_dims(sibling)
    body.checks([row for row in entry.rows if row.word in ("let", "check")])
    value = body.expr(entry.one("as").value)
    world.parts[sibling.c_name] = body.called
    expected = "tuple" if entry.result_is_tuple and len(entry.results) > 1 else "tensor"
    if gives_list(entry) or not entry.results:
        expected = "tensors"
    if value.kind != expected:
        raise Problem(entry.one("as").at, f"the result must be {expected}, this is {value.kind}")
    if not entry.results:
        pass  # it has written its arguments
    elif gives_list(entry):
        body.emit(f"out[0] = {value.c};")
        body.emit(f"{value.c} = NX_VALUE_NONE;")
    elif value.kind == "tuple":
        for k in range(len(entry.results)):
            body.emit(f"out[{k}] = nx_value_tensor(nx_tensor_ref(t[{value.const + k}]));")
    else:
        body.emit(f"out[0] = nx_value_tensor(nx_tensor_ref({body.elements(value)}));")
    if not any("for (" in line for line in body.lines):  # where the last mention is not the last use
        hand_on(body)
    start, end = frame(body, "NULL", "0")
    head = f"nx_status nx__compose_{sibling.c_name}(nx_run *run, const nx_value *in, nx_value *out)"
    source.add(function(head, body, start, end), entry.one("as").at)
