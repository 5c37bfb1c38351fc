"""aot_export_module beside PyTorch: the same graphs and signatures."""

from typing import Any

import narthex as nt
import pytest
import torch
from narthex._functorch import aot_autograd as ours
from torch._functorch import aot_autograd as theirs

BOTH = ((nt, ours), (torch, theirs))


def module(m: Any) -> Any:
    class Counting(m.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = m.nn.Parameter(m.full((3, 4), 0.5))
            self.register_buffer("calls", m.zeros(1))

        def forward(self, x: Any) -> Any:
            self.calls.add_(1)
            y = (x @ self.scale).sin()
            return y.sum(), (y * 2).detach()

    return Counting()


def about(signature: Any) -> dict:
    kept = vars(signature).copy()
    kept.pop("in_spec"), kept.pop("out_spec")
    if kept["backward_signature"] is not None:
        kept["backward_signature"] = vars(kept["backward_signature"]).copy()
        kept["backward_signature"].pop("loss_output")
    return kept


@pytest.mark.parametrize("joint", [False, True])
def test_modules(joint: bool) -> None:
    def exported(m: Any, aot: Any) -> tuple:
        keywords = {"trace_joint": joint, "output_loss_index": 0 if joint else None}
        gm, signature = aot.aot_export_module(module(m), (m.ones(2, 3),), **keywords)
        return gm.code.replace("pin_memory = False, ", ""), about(signature)

    assert exported(nt, ours) == exported(torch, theirs)


def test_the_graph_computes_gradients() -> None:
    m, x = module(nt), nt.randn(2, 3)
    gm, signature = ours.aot_export_module(m, (nt.ones(2, 3),), trace_joint=True, output_loss_index=0)
    results = gm(m.scale, m.calls, x)
    loss, y = m(x)
    loss.backward()
    nt.testing.assert_close(list(results), [m.calls, loss, y, m.scale.grad])
    names = [node.name for node in gm.graph.output_node().args[0]]
    assert signature.backward_signature.loss_output == names[1]


def test_what_is_refused_reads_as_in_pytorch() -> None:
    for m, aot in BOTH:
        with pytest.raises(RuntimeError, match="is required that one of your forward outputs must be a scalar loss"):
            aot.aot_export_module(module(m), (m.ones(2, 3),), trace_joint=True)
        with pytest.raises(RuntimeError, match=r"Graph output must be a \(\)"):
            aot.aot_export_module(m.nn.Linear(3, 4), (m.ones(2, 3),), trace_joint=False)
        with pytest.raises(RuntimeError, match="does not support input mutations"):
            aot.aot_export_joint_simple(lambda a: (a.add_(1) * 2,), (m.ones(2),), trace_joint=False)
        with pytest.raises(RuntimeError, match="does not support outputs that alias inputs"):
            aot.aot_export_joint_simple(lambda a: (a.t(),), (m.ones(2, 2),), trace_joint=False)
        with pytest.raises(RuntimeError, match="an output of the forward that requires gradients, that was not the"):
            outputs = type("Two", (m.nn.Linear,), {"forward": lambda self, x: ((x @ self.weight).sum(), self.bias * 1)})
            aot.aot_export_module(outputs(3, 3), (m.ones(2, 3),), trace_joint=True, output_loss_index=0)


def test_simple() -> None:
    def exported(m: Any, aot: Any) -> str:
        return aot.aot_export_joint_simple(lambda a, b: (a * b, a.t() + 1), (m.ones(2, 2),) * 2, trace_joint=False).code

    assert exported(nt, ours) == exported(torch, theirs)
    with pytest.raises(NotImplementedError, match="trace_joint"):
        ours.aot_export_joint_simple(lambda a: (a,), (nt.ones(2),), trace_joint=True)
