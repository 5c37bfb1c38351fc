"""Passes that packages build of parts (pass_base, pass_manager, tools_common, operator_support), beside PyTorch's."""

import importlib
import operator
import re
from typing import Any

import pytest

from tests.front.both import LIBS


def module(lib: Any, name: str) -> Any:
    return importlib.import_module(f"{lib.__name__}.fx.passes.{name}")


def traced(lib: Any) -> Any:
    class Net(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = lib.nn.Linear(2, 2)
            self.rest = lib.nn.Sequential(lib.nn.ReLU())

        def forward(self, x):
            return self.rest(self.linear(x)).add(1) + lib.sin(x) * self.linear.weight

    return lib.fx.symbolic_trace(Net())


def said(call: Any) -> Any:
    try:
        return call()
    except Exception as error:
        return re.sub(r"0x\w+", "", f"{type(error).__name__}: {error} / {type(error.__cause__).__name__}")


def managed(lib: Any) -> list:
    base, manager = module(lib, "infra.pass_base"), module(lib, "infra.pass_manager")
    log: list = []

    class Counted(base.PassBase):
        def __init__(self, n):
            self.n = n

        def requires(self, graph_module):
            log.append("requires")

        def call(self, graph_module):
            self.n -= 1
            log.append("call")
            return base.PassResult(graph_module, self.n >= 0)

        def ensures(self, graph_module):
            log.append("ensures")

    def first(gm):
        log.append("first")
        return base.PassResult(gm, False)

    def second(gm):
        log.append("second")
        return base.PassResult(gm, False)

    def failing(gm):
        raise ValueError("no")

    def check(gm):
        log.append("check")

    gm, before = traced(lib), manager.this_before_that_pass_constraint
    several = manager.PassManager([Counted(9), Counted(1)], steps=3)
    ordered = manager.PassManager([first, second], constraints=[before(second, first)])
    checked = manager.PassManager([first, second], run_checks_after_each_pass=True)
    checked.add_checks(check)
    circle = manager.PassManager([first, second], constraints=[before(first, second), before(second, first)])
    found = [
        Counted(1)(gm).modified,
        several(gm).modified,
        manager.PassManager([Counted(0)], steps=3)(gm).modified,
        ordered(gm).modified,
        checked(gm).modified,
        said(lambda: base.PassBase()),
        said(circle.solve_constraints),
        said(lambda: manager.PassManager([lambda gm: None])(gm)),
        said(lambda: manager.PassManager([first, failing])(gm)),
        said(lambda: checked.add_checks(lambda a, b: None)),
        manager.PassManager([manager.pass_result_wrapper(lambda gm: None)])(gm).modified,
        manager.pass_result_wrapper(None),
        manager.pass_result_wrapper(check).__name__,
        [before(first, second)(a, b) for a in (first, second) for b in (first, second)],
    ]
    return found + log


def test_pass_managers() -> None:
    found, wanted = (managed(lib) for lib in LIBS)
    assert found == wanted


def supported(lib: Any, propagates: bool) -> list:
    support, gm = module(lib, "operator_support"), traced(lib)
    if propagates:
        module(lib, "shape_prop").ShapeProp(gm).propagate(lib.ones(2, 2))
    modules, single = dict(gm.named_modules()), lib.float32
    functions = support.create_op_support(lambda modules, node: node.op == "call_function")
    named = support.create_op_support(lambda modules, node: node.name.startswith("a"))
    asked = [functions, support.chain(functions, named), support.any_chain(functions, named), support.chain()]
    asked += [support.any_chain(), support.OperatorSupport({"torch.sin": None, "_operator.add": None})]
    asked += [support.OperatorSupport({"torch.nn.modules.linear.Linear": None, "add": None})]
    asked += [support.OpSupports.decline_if_node_in_names({"sin"})]
    if propagates:
        one, two = ([single],), ([single], [single])
        for name, dtypes in (("torch.sin", one), ("torch.sin", ([lib.int32],)), ("_operator.add", two)):
            asked.append(support.OperatorSupport({name: (dtypes, {})}))
        asked.append(support.OperatorSupport({"_operator.mul": (([single], [lib.int64]), {})}))
        asked += [support.OpSupports.decline_if_input_dtype(dtype) for dtype in (single, lib.int32)]
    return [[bool(one.is_node_supported(modules, node)) for node in gm.graph.nodes] for one in asked]


@pytest.mark.parametrize("propagates", (False, True))
def test_operator_support(propagates: bool) -> None:
    found, wanted = (supported(lib, propagates) for lib in LIBS)
    assert found == wanted


def tools(lib: Any) -> list:
    tools, gm = module(lib, "tools_common"), traced(lib)
    modules, nodes = dict(gm.named_modules()), list(gm.graph.nodes)
    found = [tools.get_node_target(modules, node) for node in nodes if node.op.startswith("call")]
    found += [tools.get_acc_ops_name(of) for of in (lib.add, "x", operator.add, lib.nn.functional.relu)]
    nodes[0].append(nodes[-2])
    found.append([node.name for node in tools.stable_topological_sort(gm).graph.nodes])
    gm.graph.lint()
    gm.recompile()
    found.append(tuple(gm(lib.ones(2, 2)).shape))
    circle = traced(lib)
    nodes = list(circle.graph.nodes)
    nodes[1].args = (nodes[2],)
    return [*found, said(lambda: tools.legalize_graph(circle)), said(lambda: tools.stable_topological_sort(circle))]


def test_tools() -> None:
    found, wanted = (tools(lib) for lib in LIBS)
    assert found == wanted


def relabelled(lib: Any) -> list:
    """What a pass puts into a graph is in the code that the next one sees; a new order reads inputs first."""
    base, manager = module(lib, "infra.pass_base"), module(lib, "infra.pass_manager")

    def edit(gm):
        for node in gm.graph.find_nodes(op="call_function", target=lib.sin):
            node.target = lib.cos
        return base.PassResult(gm, True)

    codes: list = []

    def look(gm):
        codes.append("torch.cos" in gm.code)
        return base.PassResult(gm, False)

    gm = manager.PassManager([edit, look])(traced(lib)).graph_module
    tools_ = module(lib, "tools_common")
    orders = [[node.name for node in sort(gm).graph.nodes] for sort in (tools_.legalize_graph,)]
    module(lib, "shape_prop").ShapeProp(gm).propagate(lib.ones(2, 2))
    kinds = [str(each).replace("narthex", "torch") for each in (tools_.CALLABLE_NODE_OPS == set(), tools_.Names)]
    return [*codes, orders, kinds, gm.print_readable(print_output=False).split("class ")[-1].split()]


def declined(lib: Any) -> list:
    support = module(lib, "operator_support").OpSupports.decline_if_input_dtype(lib.int64)
    gm = lib.fx.symbolic_trace(lambda x, n: lib.cat([x * n, x], 0))
    module(lib, "shape_prop").ShapeProp(gm).propagate(lib.ones(2), 3)
    return [support.is_node_supported({}, node) for node in gm.graph.nodes if node.op == "call_function"]


def test_numbers_have_a_type() -> None:
    found, wanted = (declined(lib) for lib in LIBS)
    assert found == wanted


def test_what_passes_leave() -> None:
    found, wanted = (relabelled(lib) for lib in LIBS)
    assert found == wanted


@pytest.mark.parametrize("lib", LIBS)
def test_an_order_is_found(lib: Any) -> None:
    gm = traced(lib)
    nodes = list(gm.graph.nodes)
    nodes[0].append(nodes[-2])
    assert module(lib, "tools_common").legalize_graph(gm) is gm
    gm.graph.lint()
