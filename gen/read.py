"""Reads the .op files into syntax.File: grammar only, no meaning. Errors carry their place and do not stop the reading:
an item that cannot be read is left out and the next one is tried."""

from gen.syntax import (
    INTO,
    At,
    Entry,
    Expr,
    File,
    Function,
    Group,
    Param,
    Place,
    Prim,
    Problem,
    Row,
    Token,
    Type,
    tokenize,
)

# Rows stand in this order; equal numbers may mix. `raw` rows are text for people.
ORDER = {word: k for k, words in enumerate([
    ["also"], ["types"], ["device"], ["let", "check"], ["point", "reduce", "view", "as", "elements"], ["data_sized"],
    ["factory"], ["mutate"], ["random"], ["kernel"], ["ref"], ["inverse"], ["grad"], ["nograd"], ["autocast"], ["into"],
    ["forms"], ["props"], ["close"], ["cases"],
]) for word in words}
RAW = {"random", "device"}
KEYWORDS = {"let", "in", "if", "then", "else", "match", "each", "and", "or", "not", "None", "True", "False", "inf",
            "nan", "raise"}
COMPARE = ("==", "!=", "<", "<=", ">", ">=")
ERRORS = ("RuntimeError", "ValueError", "TypeError", "IndexError", "NotImplementedError")


class Parser:
    """A cursor over the tokens of one item or row."""

    def __init__(self, tokens, source):
        last = tokens[-1]
        end = At(last.at.path, last.at.line, last.at.column + len(last.text))
        self.tokens = tokens + [Token("end", "end of row", end, last.offset + len(last.text), False)]
        self.source = source
        self.k = 0
        self.membership = True  # whether `in` is an operator: not inside `let a = E in`

    # ---- the cursor
    @property
    def token(self):
        return self.tokens[self.k]

    def fail(self, message, at=None):
        raise Problem(at or self.token.at, message)

    def peek(self, text, ahead=0):
        k = min(self.k + ahead, len(self.tokens) - 1)
        return self.tokens[k].text == text and self.tokens[k].kind in ("name", "punct")

    def accept(self, text):
        if self.peek(text):
            self.k += 1
            return True
        return False

    def expect(self, text):
        if not self.accept(text):
            self.fail(f"expected '{text}', found '{self.token.text}'")

    def name(self, what="a name"):
        if self.token.kind != "name":
            self.fail(f"expected {what}, found '{self.token.text}'")
        self.k += 1
        return self.tokens[self.k - 1].text

    def string(self):
        if self.token.kind != "string":
            self.fail(f"expected a text in quotes, found '{self.token.text}'")
        text = ""
        while self.token.kind == "string":  # texts side by side are one text, as in C
            text += self.token.text[1:-1]
            self.k += 1
        return text

    def number(self):
        negative = self.accept("-")
        if self.accept("inf"):
            return -float("inf") if negative else float("inf")
        if self.token.kind != "number":
            self.fail(f"expected a number, found '{self.token.text}'")
        value = self.atom().value
        return -value if negative else value

    def dotted(self, what="a name"):
        text = self.name(what)
        while self.peek("."):
            self.k += 1
            text += "." + self.name()
        return text

    def separated(self, read, separator=",", close=None):
        """`read {separator read}`, up to `close`, which is consumed."""
        found = []
        while close is None or not self.accept(close):
            found.append(read())
            if self.accept(separator):
                continue
            if close:
                self.expect(close)
            break
        return found

    def done(self):
        if self.token.kind != "end":
            self.fail(f"unexpected '{self.token.text}'")

    def text_from(self, start):
        """What was read since token number `start`, in one line."""
        end = self.tokens[self.k - 1]
        return " ".join(self.source[self.tokens[start].offset : end.offset + len(end.text)].split())

    def rest(self):
        """The remaining text as it stands."""
        start = self.token.offset
        self.k = len(self.tokens) - 1
        return self.source[start : self.token.offset].strip()

    # ---- expressions
    def expr(self):
        at = self.token.at
        if self.accept("let"):
            binds = self.binds()
            self.expect("in")
            return Expr("let", at, [self.expr()], binds)
        if self.accept("if"):
            condition = self.expr()
            self.expect("then")
            yes = self.expr()
            self.expect("else")
            return Expr("if", at, [condition, yes, self.expr()])
        if self.accept("match"):
            return self.match(at)
        if self.accept("each"):
            return self.each(at)
        if self.accept("raise"):
            return Expr("raise", at, [], self.string())
        return self.infix(0)

    def binds(self):
        def one():
            name = self.new_name()
            self.expect("=")
            before, self.membership = self.membership, False
            value = self.expr()
            self.membership = before
            return name, value
        return self.separated(one)

    def new_name(self):
        if self.token.text in KEYWORDS:
            self.fail(f"'{self.token.text}' cannot be a name")
        return self.name()

    def match(self, at):
        subject = self.infix(0)
        self.expect("{")

        def arm():
            key = self.name("an arm's value")
            self.expect(":")
            return key, self.expr()
        arms = self.separated(arm, close="}")
        return Expr("match", at, [subject] + [body for _, body in arms], [key for key, _ in arms])

    def each(self, at):
        name = self.new_name()
        self.expect("in")
        before, self.membership = self.membership, True
        over = self.expr()
        self.membership = before
        self.expect(":")
        return Expr("each", at, [over, self.expr()], name)

    LEVELS = [("or",), ("and",), ("not",), COMPARE + ("in",), ("??",), ("+", "-"), ("*", "/", "%")]

    def infix(self, level):
        if level == len(self.LEVELS):
            return self.unary()
        at, words = self.token.at, self.LEVELS[level]
        if words == ("not",):
            if self.accept("not"):
                return Expr("unary", at, [self.infix(level)], "not")
            return self.infix(level + 1)
        left = self.infix(level + 1)
        while self.token.text in words and self.token.kind in ("name", "punct"):
            if self.token.text == "in" and not self.membership:
                break
            at, word = self.token.at, self.token.text
            self.k += 1
            left = Expr("binary", at, [left, self.infix(level + 1)], word)
        return left

    def unary(self):
        at = self.token.at
        if self.accept("-"):
            return Expr("unary", at, [self.unary()], "-")
        return self.postfix()

    def postfix(self):
        expr = self.atom()
        while True:
            at = self.token.at
            if self.peek(".") and self.tokens[self.k + 1].kind == "name":
                self.k += 1
                expr = Expr("field", at, [expr], self.name())
            elif self.accept("["):
                expr = self.index(expr, at)
            elif self.peek("(") and expr.op in ("name", "field"):
                self.k += 1
                expr = self.call(expr)
            else:
                return expr

    def index(self, expr, at):
        before, self.membership = self.membership, True
        start = None if self.peek(":") else self.expr()
        if self.accept(":"):
            stop = None if self.peek("]") else self.expr()
            expr = Expr("slice", at, [expr, start, stop])
        else:
            expr = Expr("index", at, [expr, start])
        self.expect("]")
        self.membership = before
        return expr

    def call(self, target):
        call = Expr(
            "call", target.at, [], target.value if target.op == "name" else f"{target.args[0].value}.{target.value}"
        )
        before, self.membership = self.membership, True

        def argument():
            if self.token.kind == "name" and self.peek("=", 1):
                key = self.name()
                self.expect("=")
                call.keywords[key] = self.expr()
            else:
                call.args.append(self.expr())
        self.separated(argument, close=")")
        self.membership = before
        return call

    def atom(self):
        token = self.token
        if token.kind == "number":
            self.k += 1
            is_float = any(c in token.text for c in ".eE")
            return Expr("number", token.at, [], float(token.text) if is_float else int(token.text))
        if token.kind == "string":
            return Expr("string", token.at, [], self.string())
        if token.text in ("None", "True", "False", "inf", "nan"):
            self.k += 1
            return Expr("const", token.at, [], token.text)
        if token.text in ("(", "["):
            self.k += 1
            before, self.membership = self.membership, True
            parts = self.separated(self.expr, close=")" if token.text == "(" else "]")
            self.membership = before
            if token.text == "[":
                return Expr("list", token.at, parts)
            return parts[0] if len(parts) == 1 else Expr("tuple", token.at, parts)
        if token.text in ("let", "if", "match", "each"):  # the last operand of an infix: it reaches as far as it can
            return self.expr()
        if token.kind == "name" and token.text not in KEYWORDS:
            self.k += 1
            return Expr("name", token.at, [], token.text)
        self.fail(f"expected an expression, found '{token.text}'")

    # ---- heads
    def type(self):
        type_ = Type(self.name("a type"), self.tokens[self.k - 1].at)
        if type_.base == "Tensor" and self.accept(":"):
            type_.inner = self.name("a dtype")
        while True:
            if self.accept("?"):
                type_.optional = True
            elif self.accept("["):
                type_.list_of = 0 if self.peek("]") else int(self.number())
                self.expect("]")
                type_.optional, type_.optional_elements = False, type_.optional
            elif self.accept("("):
                type_.inner = self.type_argument(type_.base)
            else:
                return type_

    def type_argument(self, base):
        if base in ("int", "str"):
            def choice():
                key = self.name("a choice")
                return key, self.number() if self.accept("=") else None
            return self.separated(choice, close=")")
        inner = self.name() if base == "Scalar" else self.expr()
        self.expect(")")
        return inner

    def param(self, keyword_only):
        at = self.token.at
        param = Param(self.name("a parameter"), at, None, keyword_only=keyword_only)
        if self.accept("!"):
            param.written = True
        if self.accept(":"):
            param.type = self.type()
        elif self.accept("?"):  # `dtype?` alone means `dtype: dtype? = None`
            param.type = Type(param.name, at, optional=True)
            param.initial = Expr("const", at, [], "None")
        else:
            param.type = Type("options" if param.name == "options" else "Tensor", at)
        if self.accept("="):
            param.initial = self.expr()
        return param

    def params(self):
        """`( … )`; a leading `...` (in `also`) is reported as the second result."""
        self.expect("(")
        same = self.accept("...")
        params, keyword_only = [], False
        while not self.accept(")"):
            if self.accept("*"):
                keyword_only = True
            else:
                params.append(self.param(keyword_only))
            if not self.accept(","):
                self.expect(")")
                break
        return params, same

    def place(self):
        name = None
        if self.token.kind == "name" and self.peek("=", 1):
            name = self.name()
            self.expect("=")
        at = self.token.at
        if self.peek("["):
            place = Place("sizes", at, [self.atom()])
        else:
            word = self.name("a result")
            place = Place(word if word in ("T", "as") else "param", at, [word])
            if self.peek("(") and word == "T":  # the operands in the order in which their strides count
                self.k += 1
                place = Place("T", at, self.separated(self.name, close=")"))
            elif self.peek("("):
                if word not in ("like", "reduce", "view", "new", "swapped", "permuted", "strided", "as"):
                    kinds = "like, reduce, view, new, swapped, permuted, strided, as"
                    self.fail(f"'{word}' is no kind of result ({kinds})", at)
                self.k += 1
                call = self.call(Expr("name", at, [], word))
                place = Place(word, at, call.args, call.keywords)
        if self.accept("["):  # a list of them
            self.expect("]")
            place.listed = True
        place.name = name
        place.contiguous = self.accept("contiguous")
        if self.accept(":"):
            place.dtype = self.expr()
        if self.accept("if"):
            place.condition = self.expr()
        return place

    # ---- rows
    def row(self):
        at = self.token.at
        word = self.name("a row")
        if word not in ORDER:
            self.fail(f"unknown row '{word}' (rows are: {' '.join(ORDER)})", at)
        value = self.rest() if word in RAW else getattr(self, "row_" + word)()
        self.done()
        return Row(word, at, value)

    def row_also(self):
        at = self.token.at
        name = self.dotted()
        params, same = self.params()
        binds = self.binds() if self.accept("with") else []
        forms = self.row_forms() if self.accept("forms") else None
        return {"name": name, "at": at, "params": params, "same": same, "binds": binds, "forms": forms}

    def row_types(self):
        letters = self.separated(self.name)
        self.expect("in")
        words = []
        while self.token.kind == "name":
            words.append(self.name())
        same = bool(words) and words[-1] == "same"
        return letters, words[:-1] if same else words, same

    def row_let(self):
        return self.binds()

    def row_check(self):
        if self.peek("(", 1) and self.group_call():
            return {"group": self.postfix()}
        condition = self.expr()
        self.expect("else")
        kind = self.name() if self.token.text in ERRORS else "RuntimeError"
        return {"condition": condition, "kind": kind, "text": self.string()}

    def group_call(self):
        """Whether the whole row is one call: then it names a `checks` group."""
        depth = 0
        for token in self.tokens[self.k + 1 : -1]:
            depth += {"(": 1, ")": -1}.get(token.text, 0)
            if depth == 0 and token is not self.tokens[-2]:
                return False
        return depth == 0

    def row_point(self):
        return self.expr()

    row_as = row_inverse = row_point

    def row_reduce(self):
        self.expect("(")
        state = self.name()
        self.expect("=")
        initial = self.expr()
        self.expect(")")
        self.expect("step")
        step = self.expr()
        self.expect("done")
        return {"state": state, "initial": initial, "step": step, "done": self.expr()}

    def row_view(self):
        def clause():
            at, name, index = self.token.at, self.name(), None
            if name not in ("size", "stride", "offset"):
                self.fail(f"a view has size, stride and offset, not '{name}'", at)
            if self.accept("["):
                index = self.name()
                self.expect("]")
            self.expect("=")
            return name, (index, self.expr())
        clauses = {}
        while self.token.kind != "end":
            name, rule = clause()
            clauses[name] = rule
            self.accept(";")
        return clauses

    def row_elements(self):
        """What lies in the whole result, and in the part that a view of it shows."""
        start, whole, view, part = self.k, self.expr(), None, None
        if self.accept(";"):
            view = self.postfix()
            self.expect(":")
            part = self.expr()
        return {"whole": whole, "view": view, "part": part, "text": self.text_from(start)}

    def row_data_sized(self):
        bound = self.expr()
        return bound, self.expr() if self.accept("when") else None

    def row_factory(self):
        return None

    def names(self):
        found = [self.name()]
        while self.token.kind == "name" and self.token.text != "raise":
            found.append(self.name())
        return found

    row_mutate = names

    def row_kernel(self):
        at = self.token.at
        name = self.name("a kernel's name")
        args = None
        if self.accept("("):
            args = self.call(Expr("name", at, [], name)).args
        when = self.expr() if self.accept("when") else None
        return {"name": name, "at": at, "args": args, "when": when}

    row_ref = row_kernel

    def row_grad(self):
        if self.accept("auto"):
            return {"auto": True, "rules": []}
        rules = []
        while self.token.kind != "end":
            at = self.token.at
            index = None
            if self.accept("("):
                targets = self.separated(self.name, close=")")
            else:
                targets = [self.name("an input")]
                if self.accept("["):
                    index = self.name()
                    self.expect("]")
            self.expect(":")
            start = self.k
            rule = {"at": at, "targets": targets, "index": index, "formula": self.expr()}
            rule["text"] = self.text_from(start)
            rules.append(rule)
            self.accept(";")
        return {"auto": False, "rules": rules}

    def row_nograd(self):
        def clause():
            at, names = self.token.at, self.names()
            return {"at": at, "names": names, "raises": self.accept("raise"), "reason": self.string()}
        return self.separated(clause, ";")

    def row_autocast(self):
        at, word = self.token.at, self.name()
        if word not in ("lower", "float32", "promote"):
            raise Problem(at, f"autocast is lower, float32 or promote, not '{word}'")
        return {"word": word, "of": self.names() if self.accept("of") else None, "at": at}

    def row_into(self):
        """What is said of an out= whose dtype is another one than the result's."""
        at = self.token.at
        if self.token.kind == "string":
            return self.string()
        word = self.name()
        if word not in INTO:
            raise Problem(at, f"into is a text or one of {', '.join(INTO)}, not '{word}'")
        return INTO[word]

    def row_forms(self):
        forms = []
        while self.token.kind == "name":
            at, word = self.token.at, self.name()
            name, outs = None, []
            if self.accept(":"):
                name = self.dotted()
                if self.accept("("):
                    outs = self.separated(self.name, close=")")
            forms.append({"word": word, "at": at, "name": name, "outs": outs})
        return forms

    def row_props(self):
        def clause():
            at, name = self.token.at, self.name()
            args = self.call(Expr("name", at, [], name)) if self.accept("(") else None
            when = self.expr() if self.accept("when") else None
            return {"name": name, "at": at, "args": args, "when": when}
        return self.separated(clause, ";")

    def row_close(self):
        dtype, bound = self.name(), self.number()
        if self.token.kind != "string":
            self.fail("a tolerance needs its reason in quotes")
        return dtype, bound, self.string()

    # ---- cases
    def row_cases(self):
        return self.separated(self.case, ";")

    def case(self):
        at, word = self.token.at, self.name("call, error or a parameter")
        if word in ("call", "error"):
            of = None if self.peek("(") else self.dotted("an operator")
            self.expect("(")
            args, keywords = [], {}

            def argument():
                if self.token.kind == "name" and self.peek("=", 1):
                    key = self.name()
                    self.expect("=")
                    keywords[key] = self.literal()
                else:
                    args.append(self.literal())
            self.separated(argument, close=")")
            case = {"case": word, "at": at, "of": of, "args": args, "keywords": keywords}
            if word == "error":
                case["kind"] = self.name() if self.token.kind == "name" else "RuntimeError"
                case["text"] = self.string()
            else:
                case["meta"] = self.accept("meta")
            return case
        if not self.accept("in") and word not in ("shapes", "layouts"):
            self.fail(f"expected 'in' after '{word}'")
        values = []
        while self.token.kind != "end" and not self.peek(";"):
            values.append(self.literal())
        return {"case": "set", "at": at, "name": word, "values": values}

    def literal(self):
        token = self.token
        if token.text == "x" and self.peek("[", 1):
            return self.tensor_literal()
        if self.accept("["):
            return {"list": self.separated(self.literal, close="]")}
        if self.peek("-"):
            return self.number()
        if token.kind == "name" and token.text not in ("None", "True", "False", "inf", "nan"):
            self.k += 1
            return {"word": token.text}
        atom = self.atom()
        values = {"None": None, "True": True, "False": False, "inf": float("inf"), "nan": float("nan")}
        return values[atom.value] if atom.op == "const" else atom.value

    def tensor_literal(self):
        self.k += 2
        sizes = self.separated(self.number, close="]")
        close = self.tokens[self.k - 1]
        tensor = {"tensor": sizes, "layout": "", "dtype": None, "values": "normal"}
        if self.token.kind == "name" and self.token.offset == close.offset + 1:
            tensor["layout"] = self.name()
            if tensor["layout"] not in ("t", "s", "e", "o", "cl"):
                self.fail(f"unknown layout '{tensor['layout']}' (t s e o cl)", self.tokens[self.k - 1].at)
        if self.accept(":"):
            tensor["dtype"] = self.name("a dtype")
        if self.accept("in"):
            if self.token.kind == "name":
                tensor["values"] = self.name()
            else:
                low = self.number()
                self.expect("..")
                tensor["values"] = [low, self.number()]
        return tensor


# ---- items
def split_rows(tokens):
    """Head and rows of an item: a row begins two columns in, or after `|`."""
    parts, depth = [[]], 0
    for token in tokens:
        if depth == 0 and token.text == "|" and token.kind == "punct":
            parts.append([])
            continue
        if token.first and token.at.column == 3 and parts[-1] and depth == 0:
            parts.append([])
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(token.text, 0) if token.kind == "punct" else 0
        parts[-1].append(token)
    return parts[0], [part for part in parts[1:] if part]


def documentation(comments, line):
    """The comment lines directly above an item."""
    found = []
    while line - 1 in comments and comments[line - 1][0] == 1:
        line -= 1
        found.insert(0, comments[line][1])
    return " ".join(found)


def read_rows(parts, source, file, allowed=None):
    rows = []
    for part in parts:
        try:
            row = Parser(part, source).row()
            if allowed and row.word not in allowed:
                raise Problem(row.at, f"'{row.word}' cannot stand here, only {' '.join(allowed)}")
            if not allowed and rows and ORDER[row.word] < ORDER[rows[-1].word]:
                raise Problem(row.at, f"'{row.word}' stands before '{rows[-1].word}' in the order of rows")
            rows.append(row)
        except Problem as problem:
            file.problems.append(problem)
    return rows


def read_prim(parser):
    at, name = parser.token.at, parser.name()
    parser.expect("(")
    params, types = [parser.name()], []
    while parser.accept(","):
        params.append(parser.name())
    parser.expect(":")
    while not parser.accept(")"):
        types.append(parser.name("a dtype"))
    prim = Prim(name, at, params, types, None, None, None, 1)
    if types != ["complex"]:
        parser.expect("c")
        prim.c = parser.name()
    if parser.accept("near"):
        prim.near = parser.number()
    if "complex" in types:
        parser.expect("cc")
        prim.complex = parser.name()
    if parser.accept("d"):
        prim.derivative = parser.expr()
    if parser.accept("cost"):
        prim.cost = parser.number()
    parser.done()
    return prim


def read_item(tokens, source, file, comments):
    word = tokens[0].text
    if word == "fn":
        parser = Parser(tokens[1:], source)
        at, name = parser.token.at, parser.name()
        parser.expect("(")
        params = parser.separated(parser.name, close=")")
        parser.expect("=")
        file.functions.append(Function(name, at, params, parser.expr()))
        return parser.done()
    if word == "prim":
        file.prims.append(read_prim(Parser(tokens[1:], source)))
        return None
    head, parts = split_rows(tokens)
    if len(head) < 2:
        raise Problem(tokens[0].at, f"'{word}' needs a name")
    parser = Parser(head[1:], source)
    at = parser.token.at
    name = parser.dotted("a name")
    if word == "op":
        params, same = parser.params()
        if same:
            parser.fail("'...' is for 'also' only", at)
        binds = dict(parser.binds()) if parser.accept("with") else {}
        parser.expect("->")
        is_tuple = parser.accept("(")
        results = parser.separated(parser.place, close=")") if is_tuple else [parser.place()]
        parser.done()
        rows = read_rows(parts, source, file)
        arrow = next(token for token in head if token.text == "->")
        text = " ".join(source[arrow.offset + 2 : head[-1].offset + len(head[-1].text)].split())
        doc = documentation(comments, tokens[0].at.line)
        file.entries.append(Entry(name, at, params, results, is_tuple, rows, doc, text, binds))
    elif word == "checks":
        parser.expect("(")
        params = parser.separated(parser.name, close=")")
        parser.done()
        file.groups.append(Group(name, at, params, read_rows(parts, source, file, ("check", "let"))))
    else:
        raise Problem(tokens[0].at, f"expected op, fn, checks or prim, found '{word}'")


def read(path, text):
    """Reads one file. All that could be read is in the result, all that could not in result.problems."""
    file = File(path, text.split("\n"))
    for k, line in enumerate(file.lines):
        if len(line) > 110:
            file.problems.append(Problem(At(path, k + 1, 111), f"the line has {len(line)} columns, 110 are allowed"))
    try:
        tokens, comments = tokenize(path, text)
    except Problem as problem:
        file.problems.append(problem)
        return file
    items = []
    for token in tokens:
        if token.first and token.at.column == 1:
            items.append([])
        elif not items:
            file.problems.append(Problem(token.at, "an item begins in column 1"))
            return file
        items[-1].append(token)
    for item in items:
        try:
            read_item(item, text, file, comments)
        except Problem as problem:
            file.problems.append(problem)
    return file
