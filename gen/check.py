"""Judges entries before anything is written: what section 1 of docs/operator-language.md lists as refused. Every
finding becomes a Problem with its place. Types of expressions are checked while they are written (expr.py)."""

from gen.model import MEANINGS, admits_complex, dissolves, is_view, kind, meaning
from gen.syntax import Problem

TENSOR_FUNCTIONS = {"sum_to": 2, "to_like": 2, "scale": 2, "conj": 1, "expand_reduced": 4, "reshape": 2,
                    "cat_part": 4}
SIZE_FUNCTIONS = ("defined", "dims_of", "len", "range", "inverse", "swap", "set", "insert", "remove", "prod")
SIZE_FUNCTIONS += ("clamp", "zeros_as", "wrap")


def check_world(world):
    for entry in world.operators:
        for one in (check_meaning, check_elements, check_kernels, check_cases, check_gradient, check_types):
            try:
                one(world, entry)
            except Problem as problem:
                world.problems.append(problem)


def check_meaning(world, entry):
    found = [row for row in entry.rows if row.word in MEANINGS]
    if len(found) > 1:
        raise Problem(found[1].at, f"{entry.name} has two meanings, '{found[0].word}' and '{found[1].word}'")
    if not found and not entry.all("kernel"):
        raise Problem(entry.at, f"{entry.name} has no meaning: no {', '.join(MEANINGS)} or kernel row")
    for place in entry.results:
        if (place.kind == "view") != (kind(entry) == "view"):
            raise Problem(place.at, "a result view(x) and a 'view' row go together")
        if (place.kind == "reduce") != (kind(entry) == "reduce"):
            raise Problem(place.at, "a result reduce(x, dim, keepdim) and a 'reduce' row go together")
    if is_view(entry) and not entry.one("inverse"):
        raise Problem(entry.at, f"{entry.name} is a view and has no 'inverse'")
    forms = entry.one("forms")
    for row in forms.value if forms and kind(entry) == "as" else []:
        if row["word"] == "inplace":
            name = entry.name.split(".")[0]
            text = f"{name} is made of other operators: its in-place form is an entry {name}_ of its own"
            raise Problem(forms.at, text)
    if kind(entry) == "view" and not {"size", "stride"} <= set(meaning(entry).value):
        raise Problem(meaning(entry).at, "a view says its size and its stride")


def check_elements(world, entry):
    row = entry.one("elements")
    if row and entry.all("kernel"):
        raise Problem(entry.one("kernel").at, f"{entry.name} says what lies in its result and needs no kernel")
    if row and len(entry.results) != 1:
        raise Problem(row.at, f"'elements' is of one result, {entry.name} has {len(entry.results)}")


def check_kernels(world, entry):
    kernels = entry.all("kernel")
    ref = entry.one("ref")
    if len(kernels) > 1 and not ref:
        raise Problem(kernels[0].at, f"{entry.name} has {len(kernels)} kernels and no 'ref' to compare them with")
    if ref and len(kernels) == 1 and kernels[0].value["name"] == ref.value["name"]:
        raise Problem(ref.at, f"ref {ref.value['name']} is the kernel itself and compares nothing: leave it out")
    if kernels and any(place.kind == "as" for place in entry.results):
        raise Problem(kernels[0].at, f"{entry.name} has a kernel and no shape")
    for earlier, row in zip(kernels, kernels[1:]):
        if earlier.value["when"] is None:
            raise Problem(
                row.at, f"kernel {row.value['name']} is never reached: {earlier.value['name']} takes every call"
            )


def check_cases(world, entry):
    if kind(entry) not in ("point", "reduce") and not entry.one("cases"):
        raise Problem(entry.at, f"{entry.name} has no cases")
    for row in entry.all("cases"):
        for case in row.value:
            if (
                case["case"] == "set"
                and case["name"] not in ("shapes", "layouts", "values", "T")
                and not entry.param(case["name"])
                and not any(p.type.base == "options" for p in entry.params)
            ):
                raise Problem(case["at"], no_parameter(entry, case["name"]))


def no_parameter(entry, name):
    return f"{entry.name} has no parameter '{name}' ({', '.join(p.name for p in entry.params)})"


def check_types(world, entry):
    for row in entry.all("mutate"):
        for name in row.value:
            if entry.param(name) is None:
                raise Problem(row.at, no_parameter(entry, name))
            if not entry.param(name).written:
                raise Problem(row.at, f"'{name}' is written: mark it '{name}!' in the head")
    if entry.name.split(".")[0].endswith("_") and not entry.one("mutate"):
        raise Problem(entry.at, f"{entry.name} ends in '_': it needs a 'mutate' row")


# ---- gradients
def float_inputs(entry):
    """Parameters that can carry a gradient."""
    integral = set()
    for row in entry.all("types"):
        letters, words, _ = row.value
        if not set(words) & {"float", "complex", "number", "all", "half"}:
            integral |= set(letters)
    found = [p for p in entry.params if p.type.base in ("T", "U") and p.type.base not in integral]
    plain = [p for p in entry.params if p.type.base == "Tensor" and p.type.inner is None]
    return sorted(found + plain, key=entry.params.index)


def check_gradient(world, entry):
    row, without = entry.one("grad"), {n for r in entry.all("nograd") for c in r.value for n in c["names"]}
    rules = {t: rule for rule in (row.value["rules"] if row else []) for t in rule["targets"]}
    results = {place.name for place in entry.results} | {f"result{k}" for k in range(len(entry.results))} | {"result"}
    for name in [*rules, *without]:
        if entry.param(name) is None and not (name in without and name in results):
            at = rules[name]["at"] if name in rules else entry.one("nograd").at
            raise Problem(at, no_parameter(entry, name))
    if dissolves(entry) and not row:
        return
    for param in float_inputs(entry):
        if param.name not in rules and param.name not in without:
            raise Problem(param.at, f"{entry.name}: input '{param.name}' has neither 'grad' nor 'nograd'")
    for rule in rules.values():
        Linear(world, entry).rule(rule)


def is_constant(formula):
    """`zero`, `none`, `raise` and zeros_as stand for themselves, with or without g."""
    zeros = formula.op == "call" and formula.value == "zeros_as"
    return zeros or formula.op == "raise" or (formula.op == "name" and formula.value in ("zero", "none"))


class Linear:
    """Proves that a formula is linear in `g`, and that its factors are conjugated where complex is admitted."""

    def __init__(self, world, entry):
        self.world, self.entry = world, entry
        kinds = [("T", None), ("U", None), ("Tensor", None), ("Scalar", None), ("Scalar", "T")]
        self.values = {p.name for p in entry.params if (p.type.base, p.type.inner) in kinds} | {"result"}
        dtypes = [place.dtype for place in entry.results if place.dtype is not None]
        self.real_result = any(d.op == "call" and d.value == "real" for d in dtypes)  # then g is real

    def rule(self, rule):
        formula = rule["formula"]
        if is_constant(formula):
            return
        gradients = {f"g{k}": 1 for k in range(len(self.entry.results))}
        if self.degree(formula, {"g": 1, **gradients}) != 1:
            raise Problem(formula.at, "the formula is not linear in g: g does not occur")

    def degree(self, expr, scope):
        """0 or 1: how often g is a factor. `scope`: degrees of names that stand for parts of a formula."""
        op = expr.op
        if op == "name":
            return scope.get(expr.value, 0)
        if op == "if":
            if self.degree(expr.args[0], scope):
                raise Problem(expr.at, "the formula is not linear in g: a choice depends on g's elements")
            sides = {self.degree(part, scope) for part in expr.args[1:] if not is_constant(part)}
            if len(sides) > 1:
                raise Problem(expr.at, "the formula is not linear in g: only one side has g")
            return sides.pop() if sides else 1
        if op == "let":
            scope = dict(scope)
            for name, bound in expr.value:
                scope[name] = self.degree(bound, scope)
            return self.degree(expr.args[0], scope)
        if op in ("field", "const", "number"):
            return 0
        if op == "each":
            return self.degree(expr.args[1], scope)
        if op == "binary":
            return self.binary(expr, scope)
        if op == "call":
            return self.call(expr, scope)
        return max([self.degree(part, scope) for part in expr.args if part is not None], default=0)

    def binary(self, expr, scope):
        left, right = (self.degree(part, scope) for part in expr.args)
        if expr.value == "??":
            return left
        if expr.value in ("+", "-"):
            if left != right:
                raise Problem(expr.at, "the formula is not linear in g: a sum of a part with g and one without")
            return left
        if expr.value == "*" and left + right > 1:
            raise Problem(expr.at, "the formula is not linear in g: g is multiplied by g")
        if expr.value == "/" and right:
            raise Problem(expr.at, "the formula is not linear in g: g divides")
        if left + right and expr.value in "*/":
            self.conjugated(expr.args[0] if right else expr.args[1])
        elif left + right and expr.value not in ("==", "!="):
            raise Problem(expr.at, f"the formula is not linear in g: '{expr.value}' of g")
        return left + right if expr.value in "*/" else 0

    def conjugated(self, factor):
        """A factor of g that depends on an input stands under conj."""
        if not admits_complex(self.entry) or self.real_result:
            return
        bare = self.bare_name(factor, self.values)
        if bare:
            raise Problem(bare.at, f"factor '{bare.value}' of g lacks conj: {self.entry.name} admits complex")

    def bare_name(self, expr, values):
        """A name of `values` outside of conj; a function reads bare what its body does."""
        if expr.op == "name":
            return expr if expr.value in values else None
        if expr.op in ("field", "const", "number") or (expr.op == "call" and expr.value in ("conj", "real", "abs")):
            return None
        parts = [part for part in expr.args if part is not None]
        function = self.world.functions.get(expr.value) if expr.op == "call" else None
        if function:
            parts = [part for name, part in zip(function.params, expr.args) if self.bare_name(function.body, {name})]
        return next((found for part in parts if (found := self.bare_name(part, values))), None)

    def call(self, expr, scope):
        degrees = [self.degree(arg, scope) for arg in expr.args]
        if expr.value in SIZE_FUNCTIONS:
            return 0
        if sum(degrees) == 0:
            return 0
        several = sum(degrees) > 1 and expr.value not in self.world.functions
        if several and expr.value != "where" and not self.linear_together(expr, degrees):
            raise Problem(expr.at, f"the formula is not linear in g: {expr.value} of g and g")
        at = degrees.index(1)
        self.linear_in(expr, at)
        # A derivative, and a function of tensor_fns.op, conjugates what it makes a factor of.
        conjugates = expr.value.endswith("_backward") or expr.value in self.world.functions
        if (expr.value not in TENSOR_FUNCTIONS and not conjugates) or expr.value == "scale":
            for k, arg in enumerate(expr.args):
                if k != at and not (expr.value == "where" and k == 0):  # a condition is no factor
                    self.conjugated(arg)
        return 1

    def linear_together(self, expr, degrees):
        """Whether the called function says of all arguments with g that it is linear in them taken together."""
        for form in self.world.overloads(expr.value.removeprefix("aten.")):
            names = {p.name for p, degree in zip(form.params, degrees) if degree}
            claims = [p for r in form.sibling.entry.all("props") for p in r.value if p["name"] == "linear"]
            return any(names <= {a.value for a in p["args"].args} for p in claims)
        return False

    def linear_in(self, expr, at):
        """Whether the called function is linear in that argument: its own gradient does not read it."""
        if expr.value in TENSOR_FUNCTIONS or expr.value in self.world.functions:
            return
        for form in self.world.overloads(expr.value.removeprefix("aten.")):
            entry = form.sibling.entry
            if at >= len(form.params):
                continue
            name = form.params[at].name
            row = entry.one("grad")
            claims = [p for r in entry.all("props") for p in r.value if p["name"] in ("linear", "affine")]
            if any(a.value == name for p in claims for a in p["args"].args):
                return
            formulas = [r["formula"] for r in (row.value["rules"] if row else []) if name in r["targets"]]
            if dissolves(entry) or (formulas and not any(reads(f, name) or reads(f, "result") for f in formulas)):
                return
            raise Problem(expr.at, f"the formula is not linear in g: {entry.name} is not linear in '{name}'")
        raise Problem(expr.at, f"no operator is called '{expr.value}'")


def reads(formula, name):
    """Whether a formula reads a name's elements: more than .size and the like, or a test of its layout."""
    def inside(expr):
        if expr.op == "field":
            return False
        if expr.op == "call" and expr.value in ("column_major", "to_like", "zeros_as", "cat_part"):
            return any(inside(arg) for arg in expr.args[:1]) if expr.value == "to_like" else False
        if expr.op == "name":
            return expr.value == name
        parts = [p for p in expr.args if p is not None] + list(expr.keywords.values())
        return any(inside(part) for part in parts)
    return inside(formula)


