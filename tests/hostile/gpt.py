"""Training steps of examples/gpt.py's model, small: eager, compiled in both modes, on the CPU and on npu:0.

A run starts from the same weights every time, so that it gives the same losses whatever happened to the run before it.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

import narthex as torch
from narthex._run import install
from narthex.compat import torch_npu  # noqa: F401  (adds npu:0)

MODES = (None, "max-autotune", "reduce-overhead")
DEVICES = ("cpu", "npu:0")


def example() -> Any:
    """examples/gpt.py with Narthex as its torch."""
    if "examples.gpt" not in sys.modules:
        install()
    return importlib.import_module("examples.gpt")


class Training:
    """A model, an optimizer and a batch. mode None: eager; fresh: every run compiles anew."""

    def __init__(self, device: str, mode: str | None, fresh: bool = True, batch: int = 2, **sizes: int) -> None:
        gpt = example()
        sizes = {"layers": 1, "width": 16, "heads": 2, "block_size": 8, **sizes}
        torch.manual_seed(1)
        self.model = gpt.GPT(gpt.Config(**sizes)).to(device)
        self.optimizer = self.model.configure_optimizer(0.1, 1e-2, (0.9, 0.99), device.split(":")[0])
        self.start = {name: value.clone() for name, value in self.model.state_dict().items()}
        tokens = torch.randint(96, (batch, sizes["block_size"] + 1)).to(device)
        self.x, self.y = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
        self.mode, self.fresh, self.steps = mode, fresh, 2
        self.step = self.make_step()

    def make_step(self) -> Callable[[], Any]:
        model = self.model

        def loss_of(x: Any, y: Any) -> Any:
            return model(x, y)[1]

        function = loss_of
        if self.mode is not None:  # a code object of its own, which nothing has compiled yet
            code = loss_of.__code__.replace()
            own = FunctionType(code, loss_of.__globals__, "loss_of", None, loss_of.__closure__)
            function = torch.compile(own, mode=self.mode)

        def step() -> Any:
            loss = function(self.x, self.y)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
            return loss.detach()

        return step

    def restore(self) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        self.optimizer.state.clear()
        self.model.load_state_dict(self.start)

    def run(self) -> list[float]:
        self.restore()
        step = self.make_step() if self.fresh and self.mode else self.step
        return [step().item() for _ in range(self.steps)]


def scenarios() -> dict[str, Callable[[], Any]]:
    every = [(device, mode, True) for mode in MODES for device in DEVICES]
    every += [(device, mode, False) for mode in MODES[1:] for device in DEVICES]
    return {
        f"gpt, {mode or 'eager'}, {device}{'' if fresh else ', compiled before'}": Training(device, mode, fresh).run
        for device, mode, fresh in every
    }
