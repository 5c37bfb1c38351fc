"""Programs with functions that have a backward of their own, for narthex and for PyTorch.

`programs(torch)` gives, by name, a function and what makes its arguments. Those of REFUSED end a graph.
"""

from types import SimpleNamespace


def classes(torch):
    """What the programs call."""
    from_ = torch.autograd.Function

    class Step(from_):
        @staticmethod
        def forward(ctx, x):
            return (x > 0).float()

        @staticmethod
        def backward(ctx, g):
            return g

    class Reverse(from_):
        @staticmethod
        def forward(ctx, x, rate):
            ctx.rate = rate
            return x.view_as(x)

        @staticmethod
        def backward(ctx, g):
            return g.neg() * ctx.rate, None

    class Same(from_):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return 3 * g

    class Two(from_):
        @staticmethod
        def forward(ctx, x, y):
            a, b = x * y, (x + y).exp()
            ctx.save_for_backward(x, y, b)
            return a, b

        @staticmethod
        def backward(ctx, ga, gb):
            x, y, b = ctx.saved_tensors
            gx = ga * y + gb * b if ctx.needs_input_grad[0] else None
            return gx, ga * x + gb * b if ctx.needs_input_grad[1] else None

    class Sorted(from_):
        @staticmethod
        def forward(ctx, x):
            values, places = x.sort(dim=-1)
            ctx.mark_non_differentiable(places)
            ctx.save_for_backward(places)
            return values, places

        @staticmethod
        def backward(ctx, g, _):
            (places,) = ctx.saved_tensors
            return torch.zeros_like(g).scatter(-1, places, g)

    class Power(from_):
        @staticmethod
        def forward(x, n=2):
            return x**n

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(inputs[0], output)
            ctx.n = inputs[1]

        @staticmethod
        def backward(ctx, g):
            x, out = ctx.saved_tensors
            return g * ctx.n * out / x, None

    class Bare(from_):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return None if g is None else 2 * g

    class Once(from_):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.exp()

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, g):
            return g * ctx.saved_tensors[0].exp()

    class Outer(from_):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return Step.apply(x) + Same.apply(x)

        @staticmethod
        def backward(ctx, g):
            return Same.apply(g) * ctx.saved_tensors[0]

    weight = torch.arange(9.0).view(3, 3) / 9

    class Closed(from_):
        @staticmethod
        def forward(ctx, x):
            return x @ weight

        @staticmethod
        def backward(ctx, g):
            return g @ weight.t()

    class Kept(from_):
        @staticmethod
        def forward(ctx, x):
            ctx.kept = x.softmax(-1)
            return ctx.kept.log()

        @staticmethod
        def backward(ctx, g):
            return g - ctx.kept * g.sum(-1, keepdim=True)

    class Drawn(from_):
        @staticmethod
        def forward(ctx, x, p):
            mask = (torch.rand_like(x) > p).float() / (1 - p)
            ctx.save_for_backward(mask)
            return x * mask

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0] * (torch.rand_like(g) > 0.5), None

    class Broadcast(from_):
        @staticmethod
        def forward(ctx, x, b):
            ctx.shape = b.shape
            return x + b

        @staticmethod
        def backward(ctx, g):
            return g, g.sum(0).view(ctx.shape)

    class Wide(from_):
        @staticmethod
        def forward(ctx, x, b):
            return x + b

        @staticmethod
        def backward(ctx, g):
            return g, g  # summed to the shape of b

    class Constant(from_):
        @staticmethod
        def forward(ctx, x):
            return x * torch.tensor([1.0, 2.0, 3.0])

        @staticmethod
        def backward(ctx, g):
            return g * torch.tensor([1.0, 2.0, 3.0]) + torch.ones(3)

    class Mean(from_):
        @staticmethod
        def forward(ctx, x):
            ctx.n = x.size(0)
            return x.mean(0)

        @staticmethod
        def backward(ctx, g):
            return g.expand(ctx.n, g.size(0)) / ctx.n

    class Scratch(from_):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g.clone().mul_(2)

    class Turned(from_):
        @staticmethod
        def forward(ctx, x):
            return x.t()

        @staticmethod
        def backward(ctx, g):
            return g.t() * 7

    class Dirty(from_):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx, g):
            return 2 * g

    class Scaled(from_):
        @staticmethod
        def forward(ctx, x, w):
            x.mul_(w)
            ctx.mark_dirty(x)
            ctx.save_for_backward(x, w)
            return x, x.exp()

        @staticmethod
        def backward(ctx, g, h):
            x, w = ctx.saved_tensors
            g = g + h * x.exp()
            return g * w, g * x / w

    calls = []

    class Telling(from_):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            calls.append(g.shape)
            return 2 * g

    class Loud(from_):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            print("backward")
            return 2 * g

    class Wrong(from_):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g, g

    class Writing(from_):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g.mul_(2)

    class Twice(from_):
        @staticmethod
        def forward(ctx, x):
            y = x * 2
            return y, y

        @staticmethod
        def backward(ctx, a, b):
            return 2 * a + 3 * b

    class Apart(from_):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, a, b):
            return 2 * a if b is None else 3 * b if a is None else 2 * a + 3 * b

    class Deciding(from_):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return 2 * g if g.sum() > 0 else g

    found = {name: value for name, value in locals().items() if isinstance(value, type) and name[0].isupper()}
    return SimpleNamespace(calls=calls, **found)


def programs(torch):
    """By name: a function and what makes its arguments."""
    of = classes(torch)

    def x():
        return torch.randn(4, 3, requires_grad=True)

    def both():
        return torch.randn(4, 3, requires_grad=True), torch.randn(4, 3, requires_grad=True)

    def saved_then_written(x):
        y = x.sin()
        out = of.Once.apply(y)
        y.mul_(2)
        return out

    def kept_then_written(x):
        y = x.sin()
        out = of.Kept.apply(y)
        y.mul_(2)
        return out

    def written_and_used(x):
        y = x.sin()
        out = of.Dirty.apply(y)
        return out * y + out.cos()

    def written_view(x):
        y = x.sin()
        of.Dirty.apply(y[:2])
        return y.exp()

    def view_of_what_is_written(x):
        y = x.sin()
        rows = y[1:]
        of.Dirty.apply(y)
        return rows * 3

    def written_twice(x, y):
        z = x * 1
        first, other = of.Scaled.apply(of.Dirty.apply(z), y)
        return first + other + z

    return {
        "straight through": (lambda x: of.Step.apply(x * 2) * x, lambda: (x(),)),
        "of an argument": (lambda x: of.Step.apply(x), lambda: (x(),)),
        "reversal": (lambda x: of.Reverse.apply(x * 2, 0.5), lambda: (x(),)),
        "reversal of an argument": (lambda x: of.Reverse.apply(x, 0.5), lambda: (x(),)),
        "a view of a reversal": (lambda x: of.Reverse.apply(x, 0.5)[1], lambda: (x(),)),
        "an argument as it is": (lambda x: of.Same.apply(x) + x, lambda: (x(),)),
        "a result beside its argument": (lambda x: (of.Same.apply(x.sin()), x), lambda: (x(),)),
        "two results": (lambda x, y: of.Two.apply(x, y), both),
        "one of two results": (lambda x, y: of.Two.apply(x, y)[1], both),
        "the first needs none": (lambda x, y: of.Two.apply(x.detach(), y)[0], both),
        "the second needs none": (lambda x, y: of.Two.apply(x, y.detach())[0], both),
        "places": (lambda x: of.Sorted.apply(x.sin()), lambda: (x(),)),
        "setup_context": (lambda x: of.Power.apply(x.exp(), 3), lambda: (x(),)),
        "setup_context, defaults": (lambda x: of.Power.apply(x.exp()), lambda: (x(),)),
        "set_materialize_grads": (lambda x: of.Bare.apply(x).sin(), lambda: (x(),)),
        "once_differentiable": (lambda x: of.Once.apply(x.sin()), lambda: (x(),)),
        "functions inside": (lambda x: of.Outer.apply(x.sin()), lambda: (x(),)),
        "a closure": (lambda x: of.Closed.apply(x.sin()), lambda: (x(),)),
        "an intermediate": (lambda x: of.Kept.apply(x.sin()), lambda: (x(),)),
        "random numbers": (
            lambda x: of.Drawn.apply(x.sin(), 0.3) + torch.nn.functional.dropout(x),
            lambda: (x(),),
        ),
        "another shape": (lambda x, b: of.Broadcast.apply(x, b[:1]), both),
        "a gradient that is summed": (lambda x, b: of.Wide.apply(x, b[:1]), both),
        "constants": (lambda x: of.Constant.apply(x), lambda: (x(),)),
        "sizes": (lambda x: of.Mean.apply(x.sin()), lambda: (x(),)),
        "memory of its own written": (lambda x: of.Scratch.apply(x.sin()), lambda: (x(),)),
        "a view": (lambda x: of.Turned.apply(x.sin()), lambda: (x(),)),
        "a view of an argument": (lambda x: of.Turned.apply(x), lambda: (x(),)),
        "its result written": (lambda x: of.Once.apply(x.sin()).mul_(2), lambda: (x(),)),
        "what it saved written": (saved_then_written, lambda: (x(),)),
        "what it kept written": (kept_then_written, lambda: (x(),)),
        "a chain": (lambda x: of.Once.apply(of.Step.apply(of.Same.apply(x)) + x), lambda: (x(),)),
        "mark_dirty": (lambda x: of.Dirty.apply(x.sin()), lambda: (x(),)),
        "mark_dirty, used again": (written_and_used, lambda: (x(),)),
        "mark_dirty of a view": (written_view, lambda: (x(),)),
        "mark_dirty, a view of it": (view_of_what_is_written, lambda: (x(),)),
        "mark_dirty and another result": (lambda x, y: of.Scaled.apply(x.sin(), y), both),
        "mark_dirty twice": (written_twice, both),
        "a list written": (lambda x: of.Telling.apply(x.sin()), lambda: (x(),)),
        "print": (lambda x: of.Loud.apply(x.sin()), lambda: (x(),)),
        "gradients of the wrong number": (lambda x: of.Wrong.apply(x.sin()), lambda: (x(),)),
        "a gradient written": (lambda x: of.Writing.apply(x.sin()), lambda: (x(),)),
        "a result twice": (lambda x: of.Twice.apply(x.sin()), lambda: (x(),)),
        "gradients that are None": (lambda x: of.Apart.apply(x.sin())[0], lambda: (x(),)),
        "a branch on a gradient": (lambda x: of.Deciding.apply(x.sin()), lambda: (x(),)),
    }


REFUSED = {
    "a list written": "it changes what existed before",
    "print": "print",
    "gradients of the wrong number": "RuntimeError in its backward",
    "a gradient written": "it writes a tensor that is there before it runs",
    "a result twice": "gives a tensor twice",
    "gradients that are None": r"set_materialize_grads\(False\) with several results",
    "a branch on a gradient": "a branch on a tensor's elements|elements",
}
