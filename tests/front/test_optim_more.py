"""The optimizers that step one parameter after the other, and L-BFGS: PyTorch's numbers, states and messages."""

from collections import OrderedDict

import narthex as nt
import pytest
import torch
from test_optim import check

MORE = {
    "Adagrad": [{}, {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.5},
                {"maximize": True}],
    "Adadelta": [{}, {"lr": 0.5, "rho": 0.8, "weight_decay": 0.1, "maximize": True}],
    "Adamax": [{}, {"lr": 0.1, "betas": (0.8, 0.95), "eps": 1e-6, "weight_decay": 0.1}],
    "NAdam": [{}, {"lr": 0.1, "weight_decay": 0.1, "momentum_decay": 0.1},
              {"weight_decay": 0.1, "decoupled_weight_decay": True}],
    "RAdam": [{}, {"lr": 0.1, "weight_decay": 0.1}, {"weight_decay": 0.1, "decoupled_weight_decay": True}],
    "ASGD": [{}, {"lr": 0.1, "lambd": 0.01, "t0": 3, "weight_decay": 0.1}],
    "Rprop": [{}, {"lr": 0.1, "etas": (0.3, 1.5), "step_sizes": (1e-3, 0.2)}],
    "Adafactor": [{}, {"lr": 0.1, "weight_decay": 0.1, "d": 2.0}, {"maximize": True}],
}  # fmt: skip


@pytest.mark.parametrize(("name", "options"), [(name, o) for name, several in MORE.items() for o in several], ids=str)
def test_numbers(name, options):
    def again(step, parameters, optimizer):
        """Half way the state goes through a state_dict into a new optimizer."""
        if step != 9:
            return optimizer
        other = type(optimizer)(parameters, **options)
        other.load_state_dict(optimizer.state_dict())
        return other

    check(lambda optim, params: getattr(optim, name)(params, **options), after=again)


@pytest.mark.parametrize(
    "options", [{}, {"nesterov": False, "momentum": 0.5}, {"adjust_lr_fn": "match_rms_adamw"}], ids=str
)
@pytest.mark.parametrize("shape", [(4, 6), (6, 4)])
def test_muon(options, shape):
    ends = []
    for t in (torch, nt):
        t.manual_seed(0)
        w = t.nn.Parameter(t.randn(shape))
        optimizer = t.optim.Muon([w], lr=0.05, **options)
        for _ in range(5):
            optimizer.zero_grad()
            (w * w).sum().backward()
            optimizer.step()
        ends.append(w.detach().numpy())
    assert abs(ends[0] - ends[1]).max() < 2e-2 * 0.05  # products in bfloat16
    with pytest.raises(ValueError, match="only supports 2D"):
        nt.optim.Muon([nt.nn.Parameter(nt.ones(3))])


@pytest.mark.parametrize(
    "options",
    [{}, {"lr": 0.5, "history_size": 3}, {"line_search_fn": "strong_wolfe"},
     {"line_search_fn": "strong_wolfe", "max_iter": 4, "lr": 2.0}],
    ids=str,
)  # fmt: skip
def test_lbfgs(options):
    """Rosenbrock's valley in four dimensions."""
    traces = []
    for t in (torch, nt):
        x = t.nn.Parameter(t.tensor([-1.2, 1.0, 0.5, -0.3], dtype=t.float64))
        optimizer, trace = t.optim.LBFGS([x], **options), []

        def closure(t=t, x=x, optimizer=optimizer):
            optimizer.zero_grad()
            loss = (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum() * 0.01
            loss.backward()
            return loss

        for _ in range(6):
            trace.append(optimizer.step(closure).item())
        state = optimizer.state[x]
        traces.append((trace, x.tolist(), state["n_iter"], state["func_evals"]))
    assert traces[0][2:] == traces[1][2:]
    for k in (0, 1):
        assert traces[1][k] == pytest.approx(traces[0][k], rel=1e-6)


@pytest.mark.parametrize(
    ("name", "options"),
    [("Adagrad", {"lr": -1}), ("Adagrad", {"eps": -1}), ("Adadelta", {"rho": 2}), ("Adamax", {"betas": (1.0, 0.9)}),
     ("NAdam", {"momentum_decay": -1}), ("RAdam", {"betas": (0.9, 1.0)}), ("ASGD", {"weight_decay": -1}),
     ("Rprop", {"etas": (1.5, 1.2)}), ("Adafactor", {"d": 0.5}), ("Adafactor", {"beta2_decay": 1}),
     ("LBFGS", {"lr": -1}), ("Muon", {"adjust_lr_fn": "no"})],
)  # fmt: skip
def test_errors(name, options):
    said = []
    for t in (torch, nt):
        with pytest.raises(ValueError) as error:
            getattr(t.optim, name)([t.nn.Parameter(t.ones(2, 2))], **options)
        said.append(str(error.value))
    assert said[0] == said[1]


def test_a_wrapper_that_leaves_out_init_patches_its_step() -> None:
    for lib in (nt, torch):
        calls: list = []

        class Wrapper(lib.optim.Optimizer):
            def __init__(self, inner) -> None:
                self._optimizer_step_pre_hooks = OrderedDict()
                self._optimizer_step_post_hooks = OrderedDict()
                self.inner = inner
                self._patch_step_function()

            def step(self, closure=None):
                calls.append("step")  # noqa: B023
                return self.inner.step(closure)

        wrapper = Wrapper(lib.optim.SGD([lib.nn.Parameter(lib.ones(2))], lr=0.1))
        wrapper.register_step_pre_hook(lambda *_: calls.append("before"))  # noqa: B023
        wrapper.step()
        assert calls == ["before", "step"] and Wrapper.step.hooked
