"""torch.export.unflatten beside PyTorch's: the same modules, state and numbers; a swapped submodule is called."""

import io

import narthex
import pytest
import torch

SIDES = [narthex, torch]


def layers(t):
    """The modules of these tests, of one side."""

    class Sub(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = t.nn.Linear(3, 3)
            self.register_buffer("b", t.ones(3))
            self.register_buffer("gone", t.full((3,), 0.5), persistent=False)

        def forward(self, x, s=2):
            self.b.add_(1)
            return self.lin(x).relu() + self.b * self.gone, x * s

    class Twice(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = Sub()
            self.blocks = t.nn.ModuleList([t.nn.Linear(3, 4), t.nn.Sequential(t.nn.ReLU(), t.nn.Linear(4, 2))])

        def forward(self, x, y):
            u, v = self.a(x)
            w, _ = self.a(u, s=3)
            for block in self.blocks:
                w = block(w)
            return {"o": w + y[0], "v": v}

    class Pair(t.nn.Module):
        def forward(self, pair, scale=None):
            return {"sum": pair[0] + pair[1], "by": pair[0] * scale["k"]}

    class Nested(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.pair, self.lin = Pair(), t.nn.Linear(3, 3)

        def forward(self, x):
            first = self.pair((x, self.lin(x)), scale={"k": x})
            last = self.pair((first["sum"], first["by"]), scale={"k": x})
            return last["by"] + last["sum"]

    return {"twice": Twice, "nested": Nested}


def arguments(t, name: str) -> tuple:
    x = t.arange(6.0).reshape(2, 3) / 4
    return (x, [t.ones(1)]) if name == "twice" else (x,)


def made(t, name: str, preserved=(), decomposed=False, saved=False):
    """The unflattened module, its original's result, and its own."""
    t.manual_seed(0)
    module = layers(t)[name]()
    args = arguments(t, name)
    program = t.export.export(module, args, preserve_module_call_signature=preserved)
    if decomposed:
        program = program.run_decompositions()
    if saved:
        file = io.BytesIO()
        t.export.save(program, file)
        program = t.export.load(io.BytesIO(file.getvalue()))
    return t.export.unflatten(program), args, module


def plain(value):
    """Numbers in place of tensors."""
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return value.tolist()


WAYS = [
    ("twice", (), False, False), ("twice", ("blocks.1",), False, False), ("nested", (), False, False),
    ("nested", ("pair", "lin"), False, False), ("twice", (), True, False), ("twice", ("blocks.1",), False, True),
    ("nested", ("pair",), False, True),
]  # fmt: skip


@pytest.mark.parametrize(("name", "preserved", "decomposed", "saved"), WAYS)
def test_unflattened_modules_are_pytorchs(name, preserved, decomposed, saved):
    """Names, state, classes and results, of the first call and of a second one (buffers were written)."""
    seen = []
    for t in SIDES:
        module, args, original = made(t, name, preserved, decomposed, saved)
        modules = dict(module.named_modules(remove_duplicate=False))
        modules.pop("blocks", None)  # PyTorch says that it is what it holds first
        types = {path: each.type_name() for path, each in modules.items() if hasattr(each, "type_name")}
        state = {path: value.tolist() for path, value in module.state_dict().items()}
        results = [plain(module(*args)) for _ in range(2)]
        assert results == [plain(original(*args)) for _ in range(2)]
        seen.append((sorted(modules), types, sorted(state), results[0].keys() if name == "twice" else None))
    assert seen[0] == seen[1]


@pytest.mark.parametrize("t", SIDES)
def test_a_swapped_submodule_is_called(t):
    """With its preserved signature, for each of several calls."""
    module, args, original = made(t, "nested", ("pair",))

    class Other(t.nn.Module):
        def forward(self, pair, scale=None):
            return {"sum": pair[0] - pair[1], "by": pair[1] + scale["k"]}

    original.pair = module.pair = Other()
    assert module(*args).tolist() == original(*args).tolist()
    module, args, original = made(t, "twice", ("blocks.1",))
    original.blocks[1] = t.nn.Identity()
    setattr(module.blocks, "1", t.nn.Identity())
    args = (args[0], [t.ones(4)])
    module.check_input_constraints = False
    assert plain(module(*args)) == plain(original(*args))


@pytest.mark.parametrize("t", SIDES)
def test_a_submodule_is_called_on_its_own_and_trained(t):
    """Its parameters are the whole's, and copies of the original's."""
    module, args, original = made(t, "twice", ("blocks.0",))
    block, x = getattr(module.blocks, "0"), t.ones(5, 3)
    assert t.equal(block(x), original.blocks[0](x))
    assert block.weight is not original.blocks[0].weight and block.weight.requires_grad
    module(*args)["o"].sum().backward()
    original(*args)["o"].sum().backward()
    assert t.equal(block.weight.grad, original.blocks[0].weight.grad)
    assert t.equal(module.a.lin.weight.grad, original.a.lin.weight.grad)


@pytest.mark.parametrize("t", SIDES)
def test_arguments_that_nest_otherwise_are_adapted_or_refused(t):
    module, args, original = made(t, "twice")
    with pytest.raises(TypeError, match="no flat args adapter specified"):
        module(args[0], args[1][0])
    with pytest.raises(RuntimeError):
        module(t.ones(2, 4), args[1])

    class Adapter(t.export.FlatArgsAdapter):
        def adapt(self, target_spec, input_spec, input_args, metadata=None, obj=None):
            assert target_spec.num_leaves == 2 and len(obj) == 3
            return input_args[:2]

    program = t.export.export(layers(t)["twice"](), args)
    adapted = t.export.unflatten(program, Adapter())
    assert set(adapted(args[0], args[1][0], t.ones(1))) == {"o", "v"}
    with pytest.raises(TypeError):
        t.export.FlatArgsAdapter()
