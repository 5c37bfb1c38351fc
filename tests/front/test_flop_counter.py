"""torch.utils.flop_counter and module_tracker, beside PyTorch."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest


def network(torch: Any) -> Any:
    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = torch.nn.Linear(8, 8)
            self.rest = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 8))

        def forward(self, x: Any) -> Any:
            return x + self.rest(self.first(x))

    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.down, self.up = torch.nn.Conv2d(4, 8, 3, groups=2), torch.nn.ConvTranspose2d(8, 4, 2)
            self.one, self.two = Block(), Block()

        def forward(self, x: Any) -> Any:
            y = self.two(self.one(self.up(self.down(x)).flatten(2)[..., :8]))
            q = y[:, None]
            y = y + torch.nn.functional.scaled_dot_product_attention(q, q, q)[:, 0]
            return torch.bmm(y, y.transpose(1, 2))

    return Network()


def seen(module: str, case: str) -> tuple:
    torch, flops = import_module(module), import_module(f"{module}.utils.flop_counter")
    net, x = network(torch), torch.randn(2, 4, 6, 6, requires_grad=True)
    own = {torch.ops.aten.sin: lambda x, out_shape=None: x.numel()} if case == "own" else None
    depth = {"depth 1": 1, "all": None}.get(case, 2)
    with flops.FlopCounterMode(depth=depth, display=case == "displayed", custom_mapping=own) as counter:
        if case == "forward alone":
            net(x.detach())
        elif case == "no grad":
            with torch.no_grad():
                net(x)
        elif case == "outside of modules":
            net(x)
            torch.mm(torch.ones(2, 3), torch.ones(3, 4))
            torch.nn.functional.conv1d(torch.ones(1, 2, 9), torch.ones(3, 2, 3))
        elif case == "small":
            torch.einsum("bij,jk->bik", torch.ones(2, 3, 4), torch.ones(4, 5))
        elif case == "own":
            torch.ones(40).sin()
        elif case == "twice":
            for _ in range(2):
                net(x).sum().backward()
        elif case != "nothing":
            net(x).sum().backward()
    counts = {name: {str(op): n for op, n in of.items()} for name, of in counter.get_flop_counts().items()}
    return counts, counter.get_total_flops(), counter.get_table(), counter.get_table(3)


CASES = [
    "both ways", "depth 1", "all", "displayed", "forward alone", "no grad", "outside of modules", "small", "own",
    "twice", "nothing",
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_counts_and_table(case: str, capsys: Any) -> None:
    theirs, their_text = seen("torch", case), capsys.readouterr().out
    mine, my_text = seen("narthex", case), capsys.readouterr().out
    assert mine == theirs
    assert my_text == their_text and (case == "displayed") == bool(my_text)


def test_formulas() -> None:
    found = []
    for module in ("torch", "narthex"):
        f = import_module(f"{module}.utils.flop_counter")
        x, w, out = [2, 6, 9, 9], [4, 3, 3, 3], [2, 4, 7, 7]
        found.append([
            f.mm_flop([2, 3], [3, 4]), f.addmm_flop([4], [2, 3], [3, 4]), f.bmm_flop([5, 2, 3], [5, 3, 4]),
            f.baddbmm_flop([4], [5, 2, 3], [5, 3, 4]), f.conv_flop_count(x, w, out), f.conv_flop_count(out, w, x, True),
            f.sdpa_flop_count((2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 4)),
            f.sdpa_backward_flop_count((2, 3, 5, 4), (2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 4)),
            *[f.conv_backward_flop(out, x, w, None, 1, 0, 1, turned, 0, 2, [True, True, True], out_val=[x, w, [4]])
              for turned in (False, True)],
            *[f.convert_num_with_suffix(n, f.get_suffix_str(n)) for n in (0, 999, 12345, 10**7, 10**17)],
            f.convert_to_percent_str(1, 3), f.convert_to_percent_str(0, 0),
        ])  # fmt: skip
    assert found[0] == found[1]


def test_registering() -> None:
    texts = []
    for module in ("torch", "narthex"):
        torch, f = import_module(module), import_module(f"{module}.utils.flop_counter")
        for target in (torch.ops.aten.mm.default, torch.ops.aten.mm):
            with pytest.raises((ValueError, RuntimeError)) as caught:
                f.register_flop_formula(target)(lambda *args, **kwargs: 0)
            texts.append((caught.type, str(caught.value).split(" which is")[0]))

        @f.register_flop_formula([torch.ops.aten.cos], get_raw=True)
        def counted(x: Any, out_val: Any = None) -> int:
            return x.numel() * 3 + out_val.dim()

        try:
            with f.FlopCounterMode(display=False) as counter:
                torch.ones(4, 5).cos()
            texts.append(counter.get_total_flops())
        finally:
            del f.flop_registry[torch.ops.aten.cos]
    assert texts[:3] == texts[3:]


def modules_that_run(module: str) -> list[Any]:
    torch, names = import_module(module), []
    tracker = import_module(f"{module}.utils.module_tracker").ModuleTracker()
    net = network(torch)
    net.one.first.register_forward_hook(lambda m, a, r: names.append(sorted(tracker.parents)))
    net.two.rest[0].weight.register_hook(lambda g: names.append((tracker.is_bw, sorted(tracker.parents))))
    with tracker:
        net(torch.randn(2, 4, 6, 6, requires_grad=True)).sum().backward()
        names.append((tracker.is_bw, sorted(tracker.parents)))
    return names


def test_modules_of_a_backward() -> None:
    assert modules_that_run("narthex") == modules_that_run("torch")
