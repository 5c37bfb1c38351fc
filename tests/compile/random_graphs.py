"""Random functions of tensors: views, point operators, reductions, products, writes, several results, types; a third of
them of images: convolutions, pools, norms, resizing.

`program(seed)` grows one by running each line eagerly as it is written; a line that the framework refuses is left out,
so that every program is one that eager mode runs. `shrink()` takes lines and results away while something still holds.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

import narthex as nt

MAX_ELEMENTS = 20000
SHAPES = ((3, 4), (4,), (3, 1), (1, 4), (), (2, 3, 4), (4, 4), (5,), (2, 1, 4), (7, 300), (0, 4))
IMAGES = (
    (2, 3, 6, 6), (2, 4, 6, 6), (4, 3, 3, 3), (3, 1, 3, 3), (4, 3, 1, 1), (3, 4, 2, 2), (3,), (4,), (1, 3, 1, 1),
    (2, 32, 5, 5),
)  # fmt: skip
POINT = (
    "{x} + {y}", "{x} - {y}", "{x} * {y}", "{x} / ({y} * {y} + 1)", "t.maximum({x}, {y})", "t.minimum({x}, {y})",
    "{x} + {n}", "{n} - {x}", "{x} * {n}", "{x} / {k}", "{x}.exp()", "t.tanh({x})", "{x}.sigmoid()", "t.relu({x})",
    "-{x}", "{x}.abs()", "t.sqrt({x}.abs() + 1)", "{x}.erf()", "{x}.sin() * {x}.cos()", "({x} * {x} + 1).log()",
    "({x} * {x} + 1).rsqrt()", "t.nn.functional.gelu({x})", "t.nn.functional.silu({x})", "{x} ** 2", "{x} ** 3",
    "t.where({x} > {y}, {x}, {y})", "t.where({x} > 0, {x}, {n})", "({x} > {y})", "({x} >= 0)",
    "{x}.add({y}, alpha={k})", "{x}.masked_fill({y} > 0, {n})", "{x}.reciprocal()", "t.zeros_like({x}) + {y}",
    "t.ones_like({x}) * {y}", "{x}.clamp(-1, 1)", "t.clamp({x}, min={n})", "t.nn.functional.elu({x})",
    "t.nn.functional.softplus({x})", "t.lerp({x}, {y}, 0.25)", "t.nn.functional.leaky_relu({x}, 0.1)",
    "t.logical_not({x})", "{x}.isnan()", "{x}.sign()", "{x}.floor()",
)  # fmt: skip
VIEW = (
    "{x}.t()", "{x}.view(-1)", "{x}.reshape(-1)", "{x}.transpose(0, -1)", "{x}.transpose(-2, -1)",
    "{x}.unsqueeze({d})", "{x}.squeeze({d})", "{x}[0]", "{x}[-1]", "{x}[..., 1:3]", "{x}[:, 0]", "{x}[::2]",
    "{x}[1:]", "{x}.expand(3, 4)", "{x}.expand(2, 3, 4)", "{x}.permute(1, 0)", "{x}.permute(2, 0, 1)",
    "{x}.view(4, -1)", "{x}.view(2, -1)", "{x}.narrow(0, 1, 2)", "{x}.flatten()", "{x}.detach()", "{x}.view_as({x})",
    "{x}.select(-1, 1)", "t.chunk({x}, 2)[0]", "{x}.split(2)[1]", "{x}.unbind(0)[-1]", "{x}.split([1, 2], -1)[1]",
    "t.chunk({x}, 2, -1)[1]", "{x}.tensor_split(2)[0]",
)  # fmt: skip
REDUCE = (
    "{x}.sum()", "{x}.sum(0)", "{x}.sum(-1, keepdim=True)", "{x}.mean()", "{x}.mean(-1)", "{x}.mean(0, keepdim=True)",
    "{x}.sum((0, 1))", "t.softmax({x}, -1)", "t.softmax({x}, 0)", "t.log_softmax({x}, -1)",
    "t.nn.functional.layer_norm({x}, {x}.shape[-1:])", "t.nn.functional.layer_norm({x}, {x}.shape[-1:], {y}, {x}[0])",
    "{x}.var()", "{x}.var(-1, correction=0)", "{x}.max(-1)[0]", "{x}.max()", "{x}.argmax(-1)", "{x}.amax(0)",
    "{x}.cumsum(-1)", "{x}.topk(2)[0]", "{x}.sort(-1)[0]", "{x}.prod()", "{x}.any()", "{x}.std(0)",
    "t.logsumexp({x}, -1)", "{x}.min(0)[1]", "{x}.norm()",
)  # fmt: skip
PRODUCT = (
    "{x} @ {y}", "{x} @ {y}.t()", "{x}.t() @ {y}", "t.nn.functional.linear({x}, {y})", "{x} @ {x}.transpose(-2, -1)",
    "t.bmm({x}, {y}.transpose(-2, -1))", "t.nn.functional.linear({x}, {y}, {y}[:, 0])", "t.cat([{x}, {y}])",
    "t.cat([{x}, {y}, {x}], -1)", "t.stack([{x}, {x} + 1], {d})",
)  # fmt: skip
OTHER = (
    "{x}.clone()", "{x}.contiguous()", "{x}.to(t.float64)", "{x}.to(t.float32)", "{x}.to(t.bfloat16)",
    "{x}.to(t.int64)", "t.randn(3, 4, device=a.device)", "t.randn(4, device=a.device) + {x}",
    "t.full((3, 4), {n}, device=a.device)", "t.arange(4, device=a.device) * {x}", "t.nn.functional.dropout({x}, 0.5)",
    "t.tril({x})", "t.zeros(3, 4, device=a.device)",
    "t.nn.functional.cross_entropy({x}, t.arange(3, device=a.device))", "t.eye(4, device=a.device) + {x}",
    "{x}.gather(-1, t.zeros_like({x}, dtype=t.int64))", "{x}.index_select(0, t.arange(2, device=a.device))",
    "{x}[t.arange(2, device=a.device)]", "t.nn.functional.embedding(t.arange(3, device=a.device), {x})",
    "t.nn.functional.mse_loss({x}, {x} * 2)", "{x}.repeat(2, 1)",
    "t.nn.functional.scaled_dot_product_attention({x}, {x}, {x})", "{x}.diagonal(0, -2, -1)",
    "t.nn.functional.one_hot(t.arange(3, device=a.device), 4)", "{x}.flip(0)", "{x}.roll(1)",
    "t.nn.functional.pad({x}, (1, 1))",
)  # fmt: skip
WRITE = (
    "{x}.add_({y})", "{x}.mul_({n})", "{x}.add_(1)", "{x}.copy_({y})", "{x}.zero_()", "{x}.fill_({n})", "{x}.neg_()",
    "{x}[0] = {y}", "{x}[0] = {n}", "{x}[..., 1:3] = {n}", "{x}[1:] += {n}", "{x}.t().mul_({n})",
    "{x}.view(-1).add_({n})", "{x}.exp_()", "{x} += {y}", "{x}.masked_fill_({y} > 0, {n})",
    "{x}.transpose(0, -1)[0].copy_({y})", "{x}.detach().mul_({n})", "{x}.sub_({y}, alpha={k})", "{x}[:, 1].zero_()",
    "{x}.normal_()", "{x}.unsqueeze(0).mul_({y})", "{x}.clamp_(-1, 1)", "{x}.chunk(2)[0].mul_({n})",
    "{x}.index_fill_(0, t.arange(1, device=a.device), {n})", "{x}[{x} > 1] = {n}",
    "{x}[t.arange(2, device=a.device)] = {n}", "{x}.split(2)[1].add_({n})",
    "{x}.scatter_(0, t.zeros_like({x}, dtype=t.int64), {n})",
)  # fmt: skip
IMAGE = (
    "F.conv2d({x}, {y})", "F.conv2d({x}, {y}, padding=1)", "F.conv2d({x}, {y}, stride=2)",
    "F.conv2d({x}, {y}, {x}.sum((0, 2, 3))[:1].expand({y}.shape[0]), 1, 1)",
    "F.conv2d({x}, {y}, padding=1, groups={x}.shape[1])", "F.conv2d({x}, {y}, padding=2, dilation=2)",
    "F.relu(F.conv2d({x}, {y}, padding=1))", "F.conv_transpose2d({x}, {y})",
    "F.conv_transpose2d({x}, {y}, stride=2, padding=1)", "F.conv2d({x}, {x}[:, :, :3, :3], padding=1)",
    "F.conv1d({x}[0], {y}[0])", "F.max_pool2d({x}, 2)", "F.max_pool2d({x}, 3, 2, 1)", "F.avg_pool2d({x}, 2)",
    "F.adaptive_avg_pool2d({x}, 2)", "F.adaptive_avg_pool2d({x}, 1)", "F.batch_norm({x}, None, None, training=True)",
    "F.batch_norm({x}, {y}, {y} * {y}, training=False)",
    "F.batch_norm({x}, {y}.detach().clone(), {y}.detach() ** 2, {y}, None, True)",
    "F.relu(F.batch_norm({x}, {y}, {y} * {y} + 1, {y}, {y}))", "F.hardtanh({x} * {y} + {x})", "F.relu6({x})",
    "F.hardswish({x})", "F.group_norm({x}, 1)", "F.instance_norm({x})", "F.local_response_norm({x}, 2)",
    "F.interpolate({x}, scale_factor=2)", "F.interpolate({x}, size=(4, 5), mode='bilinear')",
    "{x}.contiguous(memory_format=t.channels_last)", "F.pixel_shuffle({x}, 2)", "F.unfold({x}, 2)",
    "F.pad({x}, (1, 1, 1, 1), mode='reflect')", "F.dropout2d({x}.reshape(1, 1, -1, {x}.shape[-1]), 0.5)",
    "{x}.mean((2, 3))", "{x}.amax((2, 3), keepdim=True)", "{x}.flatten(1)", "{x}.view({x}.shape[0], -1)",
    "{x}.permute(0, 2, 3, 1)", "t.softmax({x}, 1)", "{x}[:, 1:]", "{x}[:, ::2]", "t.cat([{x}, {y}], 1)", "{x} + {y}",
    "{x} * {x}.sigmoid()", "F.prelu({x}, {y})",
    "F.cross_entropy({x}, t.zeros({x}.shape[0], *{x}.shape[2:], dtype=t.int64, device=a.device))", "{x}.add_({y})",
)  # fmt: skip
Other = tuple[int, int] | None  # each dimension of the first size has the second instead; None: all are as they are
KINDS = ((POINT, 40), (VIEW, 22), (REDUCE, 9), (PRODUCT, 9), (OTHER, 8), (WRITE, 12))


@dataclass(frozen=True)
class Program:
    """Lines of a function of t and the inputs; `inputs`: name -> (shape, dtype, requires_grad, transposed)."""

    seed: int
    inputs: tuple[tuple[str, tuple[int, ...], str, bool, bool], ...]
    lines: tuple[str, ...]
    results: tuple[str, ...]

    def text(self) -> str:
        body = [*self.lines, f"return ({''.join(name + ', ' for name in self.results)})"]
        return f"def f(t, {', '.join(i[0] for i in self.inputs)}):\n" + "".join(f"    {line}\n" for line in body)

    def arguments(self, device: str = "cpu", other: Other = None) -> list[nt.Tensor]:
        """Inputs from the seed."""
        nt.manual_seed(self.seed)
        size, instead = other or (0, 0)
        sizes = [tuple(instead if n == size else n for n in i[1]) for i in self.inputs]
        return [make_input(n, *i[2:]).to(device).detach().requires_grad_(i[3]) for n, i in zip(sizes, self.inputs)]

    def other_sizes(self) -> list[Other]:
        """Two for one size of the inputs, with which the program may not run; none where all are 0 or 1."""
        draw = random.Random(self.seed)
        sizes = sorted({size for i in self.inputs for size in i[1] if size > 1})
        size = draw.choice(sizes) if sizes else None
        return [(size, more) for more in draw.sample((size + 1, size + 3, 2 * size, 9 * size), 2)] if size else []


def make_input(shape, dtype, requires_grad, transposed):
    x = nt.randn(shape[::-1] if transposed else shape)
    if transposed:
        for d in range(len(shape) // 2):
            x = x.transpose(d, -1 - d)
    return (x * 3).to(getattr(nt, dtype))


def make_inputs(draw, shapes):
    for name in "abcde"[: draw.randint(2, 5)]:
        shape = draw.choice(shapes)
        dtype = draw.choice(("float32",) * 6 + ("float64", "bfloat16", "int64"))
        floating = dtype != "int64"
        yield name, shape, dtype, floating and draw.random() < 0.5, len(shape) > 1 and draw.random() < 0.2


def fill(draw, text, names):
    x = draw.choice(names[-4:]) if draw.random() < 0.6 else draw.choice(names)
    text = text.replace("{x}", x).replace("{y}", draw.choice(names)).replace("{d}", str(draw.randint(-1, 1)))
    text = text.replace("F.", "t.nn.functional.")
    return text.replace("{n}", str(draw.choice((0.5, -1.25, 2, 3)))).replace("{k}", str(draw.choice((2, -0.5, 3))))


def program(seed: int, length: int = 14) -> Program:
    draw = random.Random(seed)
    of_images = seed % 3 == 2
    made = Program(seed, tuple(make_inputs(draw, IMAGES if of_images else SHAPES)), (), ())
    scope = {"t": nt} | {i[0]: x for i, x in zip(made.inputs, made.arguments())}
    names, lines = [i[0] for i in made.inputs], []
    templates, weights = zip(*KINDS, *(((IMAGE, 60),) if of_images else ()))
    for _ in range(draw.randint(3, length) * 3):
        kind = draw.choices(templates, weights)[0]
        line = fill(draw, draw.choice(kind), names)
        name = "" if kind is WRITE else f"v{len(lines)}"
        if try_line(scope, f"{name} = {line}" if name else line, name):
            lines.append(f"{name} = {line}" if name else line)
            names += [name] if name else []
        if len(lines) == length:
            break
    results = draw.sample(names, min(len(names), draw.randint(1, 4)))
    return replace(made, lines=tuple(lines), results=tuple(dict.fromkeys([*results, names[-1]])))


def try_line(scope, line, name) -> bool:
    try:
        exec(line, scope)
    except (RuntimeError, IndexError, TypeError, ValueError, AttributeError):  # NotImplementedError is a RuntimeError
        return False
    value = scope.get(name)
    return not name or (isinstance(value, nt.Tensor) and value.numel() <= MAX_ELEMENTS)


def shrink(made: Program, holds: Callable[[Program], bool]) -> Program:
    """The program with as little as possible, so that `holds` is still true of it."""
    smaller = True
    while smaller:
        smaller = False
        for part in ("lines", "results"):
            have = getattr(made, part)
            for i in reversed(range(len(have))):
                less = have[:i] + have[i + 1 :]
                candidate = replace(made, **{part: less})
                if (part == "lines" or less) and holds(candidate):
                    made, have, smaller = candidate, less, True
    return made
