"""Random functions over tensors, numbers, lists, dicts, objects, loops, branches, closures, generators, contexts and
exceptions.

`source(seed)` is the text of f(x, y, o, d, o2, d2, l2), where the last three may be others of the same objects.
Statements that end a graph (prints, stores, branches on data, exceptions) come as often as those that are captured.
"""

import random

EXPRESSIONS = (
    "{t} + {t}", "{t} * {i}", "torch.add({t}, {t}, alpha={i})", "helper({t}, {i})", "helper({t}, {i}, {t}, z={t})",
    "o.pure({t})", "o.pure({t}, k={i})", "o.step({t})", "noisy({t})", "({t} if {i} > {i} else {t})",
    "sum(q * {i} for q in ({t}, {t}))", "Pair({t}, k={i}).total()", "next(iter(count({t}, {i})))",
    "{t} + len('%d-%d' % ({i}, {i}))", "max(map(lambda q: q.shape[0], [{t}, {t}])) + {t}", "{t} + len(d)",
    "{t} * getattr(o, 'w', {i})", "{t} + len(o.items)",
    "(lambda q: q + {t})({t})", "sum([{t}, {t}], {t})", "{t}.clone()", "({t} * 1).add_({t})", "[{t}, {t}][{bit}]",
)  # fmt: skip
SIMPLE = (
    "out.append({i})", "o.v = {i}", "x, y = y, {t}", "x += {t}", "y.mul_(2)", "x = d['a'] + {t}", "d['k'] = {t}",
    "pass", "lst = [{t}, {t}, {i}]", "lst.append({t})", "lst[0] = {t}", "o.items = lst",
    "o.items.append({t})", "o.w = o.v + {i}", "d.setdefault('s', {t})", "G_LIST.append({i})", "p = Pair({t})",
    "o.pair = Pair({t}, {i})", "lst = [*lst, *count({t}, 1)]", "lst.append(lst.pop(0))", "print(end='')",
    "G_LIST[0] += {i}", "d.pop('k', None)", "x = d.get('k', {t}) + 0", "o.v += len(G_LIST)", "x = lst[0] + 0",
    "o2.v = {i}", "x = x + o2.v", "x = x + o.v", "d2['k'] = {t}", "x = d2['a'] + {t}", "l2.append({t})",
    "x = x + l2[0]", "l2[0] = {t}", "o2.items = l2", "x = x + len(l2)", "x = x + len(d2)", "d2['v'] = {i}",
    "x = x + d2.get('v', {i})", "x = x + len(o2.items)", "x = x + o2.__dict__['v']",
    "d2['a'] = {t}", "o2.w = {t}", "x = x + G_LIST[0]",
)  # fmt: skip
CONDITIONS = ("{i} > {i}", "{t}.sum().item() > {n}", "{t} is {t}", "isinstance({t}, torch.Tensor)", "o.v > {i}")
FAILURES = ("raise ValueError(3)", "x = x + ones(7)", "pass", "x = d['absent']")


class Writer:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def fill(self, text, tensors, numbers):
        """`text` with every hole filled by its own choice."""
        draw = self.random
        while "{" in text:
            text = text.replace("{t}", draw.choice([*tensors, "G_T"]), 1)
            text = text.replace("{i}", draw.choice([*numbers, "G_K", str(draw.randint(0, 4))]), 1)
            text = text.replace("{n}", str(draw.randint(0, 20)), 1).replace("{bit}", str(draw.randint(0, 1)), 1)
        return text

    def block(self, depth, tensors, numbers, count=None):
        tensors, numbers, lines = list(tensors), list(numbers), []
        for _ in range(count or self.random.randint(2, 6)):
            lines += self.statement(depth, tensors, numbers)
        return lines

    def nested(self, depth, tensors, numbers):
        return ["    " + line for line in self.block(depth + 1, tensors, numbers)]

    def statement(self, depth, tensors, numbers):
        kind = self.random.random()
        if kind < 0.35:
            name = self.random.choice("abc")
            line = f"{name} = " + self.fill(self.random.choice(EXPRESSIONS), tensors, numbers)
            tensors.extend(set(name) - set(tensors))
            return [line]
        if kind < 0.42:
            line = self.fill("j = {i} + {i}", tensors, numbers)
            numbers.extend(set("j") - set(numbers))
            return [line]
        if kind < 0.70 or (depth > 1 and kind < 0.92):
            return [self.fill(self.random.choice(SIMPLE), tensors, numbers)]
        if kind < 0.77:
            return [f"for k{depth} in range({self.random.randint(0, 3)}):", *self.nested(depth, tensors, numbers)]
        if kind < 0.85:
            condition = self.fill(self.random.choice(CONDITIONS), tensors, numbers)
            return [
                f"if {condition}:",
                *self.nested(depth, tensors, numbers),
                "else:",
                *self.nested(depth, tensors, numbers),
            ]
        if kind < 0.88:
            opened = self.random.choice(["torch.no_grad()", "scope(out)", "o"])
            return [f"with {opened}:", *self.nested(depth, tensors, numbers)]
        if kind < 0.94:
            tried = [*self.nested(depth, tensors, numbers), "    " + self.random.choice(FAILURES)]
            return ["try:", *tried, "except (ValueError, RuntimeError, KeyError) as e:", "    x = x + len(e.args)"]
        return [
            self.fill("def inner(q, k={i}):", tensors, numbers),
            self.fill("    return q * k + {t}", tensors, numbers),
            self.fill("x = inner({t})", tensors, numbers),
        ]


def source(seed):
    writer = Writer(seed)
    body = writer.block(0, ["x", "y"], ["1"], writer.random.randint(3, 9))
    return "\n    ".join(["def f(x, y, o, d, o2, d2, l2):", "lst = [x]", *body, "return x, [y, d], o.v, lst"]) + "\n"
