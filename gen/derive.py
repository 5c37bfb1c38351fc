"""`grad auto`: the formulas of a point operator, from what it computes and the derivatives of ops/prim.op.

The derivative of an element expression by a parameter is again one, simplified as far as 0, 1, signs and quotients go;
with `result` for the operator's own value and operators in the place of prims it is a formula at tensor level."""

from gen.syntax import Expr, Problem

BINDS = {"+": 1, "-": 1, "*": 2, "/": 2}  # how tightly, for the text of a formula


def derive(entry, world):
    """The rules of a `grad auto` row: one for each parameter that T stands for."""
    row, made = entry.one("grad"), Derivation(entry, world)
    names = [p.name for p in entry.params if p.type.base == "T"]
    rules = [{"at": row.at, "targets": [name], "index": None, "formula": made.formula(name)} for name in names]
    return [{**rule, "text": text(rule["formula"])} for rule in rules]


class Derivation:
    def __init__(self, entry, world):
        self.at, self.world, self.point = entry.one("grad").at, world, entry.one("point")
        if self.point is None:
            raise Problem(self.at, "'grad auto' derives what a 'point' row says: write the formula")

    def formula(self, name):
        return self.factor(self.by(self.point.value, name))

    def factor(self, d):
        """g times conj(d): a quotient divides g, a sign stands before it all."""
        g = self.make("name", "g")
        if d.op == "number":
            return self.make("name", "zero") if d.value == 0 else g if d.value == 1 else self.times(g, d)
        if d.op == "unary":
            return self.minus(self.factor(d.args[0]))
        if d.op == "binary" and d.value == "/":
            return self.make("binary", "/", self.factor(d.args[0]), self.conj(d.args[1]))
        return self.make("binary", "*", g, self.conj(d))

    def conj(self, d):
        return self.make("call", "conj", d)

    # ---- expressions
    def make(self, op, value, *args):
        return Expr(op, self.at, list(args), value)

    def number(self, value):
        return self.make("number", value)

    def minus(self, x):
        if x.op == "number":
            return self.number(-x.value)
        return x.args[0] if x.op == "unary" and x.value == "-" else self.make("unary", "-", x)

    def plus(self, a, b, word="+"):
        if is_number(b, 0):
            return a
        if is_number(a, 0):
            return b if word == "+" else self.minus(b)
        return self.make("binary", word, a, b)

    def times(self, a, b):
        a, b = (self.minus(x.args[0]) if x.op == "unary" and x.args[0].op == "number" else x for x in (a, b))
        if is_number(a, 0) or is_number(b, 0):
            return self.number(0)
        for one, other in ((a, b), (b, a)):
            if is_number(one, 1):
                return other
            if is_number(one, -1):
                return self.minus(other)
        if a.op == b.op == "number":
            return self.number(a.value * b.value)
        if b.op == "number":
            a, b = b, a
        if a.op == "number" and b.op == "binary" and b.value == "*" and b.args[0].op == "number":
            return self.times(self.number(a.value * b.args[0].value), b.args[1])
        if a.op == "unary" or b.op == "unary":
            inner = self.times(*(x.args[0] if x.op == "unary" else x for x in (a, b)))
            return inner if a.op == b.op else self.minus(inner)
        return self.make("binary", "*", a, b)

    # ---- derivatives
    def by(self, e, name):
        """The derivative of `e` by the parameter `name`, where T is a float."""
        if e.op == "number" or (e.op == "name" and e.value != name):
            return self.number(0)
        if e.op == "name":
            return self.number(1)
        if e.op == "unary" and e.value == "-":
            return self.minus(self.by(e.args[0], name))
        if e.op == "binary" and e.value in BINDS:
            return self.of_binary(e, name)
        if e.op == "call":
            return self.of_call(e, name)
        if e.op == "match" and e.value[0] == "float" and "complex" not in e.value:  # integers have no gradient
            return self.by(e.args[1], name)
        raise Problem(self.at, f"'grad auto' knows no derivative of '{e.op}': write the formula")

    def of_binary(self, e, name):
        (a, b), (da, db) = e.args, (self.by(arg, name) for arg in e.args)
        if e.value in "+-":
            return self.plus(da, db, e.value)
        if e.value == "*":
            return self.plus(self.times(da, b), self.times(a, db))
        over = self.number(0) if is_number(da, 0) else self.make("binary", "/", da, b)
        if is_number(db, 0):
            return over
        y = self.value(e)
        back = self.times(y, y) if is_number(a, 1) else self.make("binary", "/", y, b)
        return self.plus(over, self.times(back, db), "-")

    def value(self, e):
        """`e`, or the name of the operator's result where it is that."""
        return self.make("name", "result") if e is self.point.value else e

    def of_call(self, e, name):
        inner = [self.by(arg, name) for arg in e.args]
        if all(is_number(d, 0) for d in inner):
            return self.number(0)
        prim = self.world.prims.get(e.value)
        if prim is None or prim.derivative is None or len(prim.params) != 1:
            raise Problem(self.at, f"'{e.value}' has no derivative in ops/prim.op: write the formula")
        names = {prim.params[0]: e.args[0], "y": self.value(e)}
        return self.times(self.put(prim.derivative, names), inner[0])

    def put(self, e, names):
        """`e` with expressions in the place of names."""
        if e.op == "name":
            return names.get(e.value, e)
        args = [self.put(arg, names) for arg in e.args]
        if e.op == "unary" and e.value == "-":
            return self.minus(args[0])
        if e.op == "binary" and e.value == "*":
            return self.times(*args)
        return Expr(e.op, self.at, args, e.value)


def is_number(e, value):
    return e.op == "number" and e.value == value


def text(e, outer=0):
    """A formula as one would write it."""
    if e.op == "call":
        return f"{e.value}({', '.join(map(text, e.args))})"
    if e.op == "unary":
        return f"-{text(e.args[0], 2)}"
    if e.op != "binary":
        return str(e.value)
    binds = BINDS[e.value]
    space = " " if binds == 1 else ""
    shown = f"{text(e.args[0], binds)}{space}{e.value}{space}{text(e.args[1], binds + 1)}"
    return f"({shown})" if binds < outer else shown
