"""Sparse tensors beside PyTorch's: what functions and methods give, errors included, gradients, files, optimizers."""

import copy
import io
import re
import warnings

import narthex as nt
import numpy as np
import pytest
import torch

# Expressions over what operands() makes: S and T with repeated places, c without, H with a dense dimension, C of rows.
CASES = [
    "S.coalesce()", "S.is_coalesced()", "c.indices()", "c.values()", "S._nnz()",
    "S.sparse_dim(), S.dense_dim(), H.sparse_dim(), H.dense_dim()", "S.to_dense()", "H.to_dense()", "E.to_sparse()",
    "E.to_sparse(1)", "E.to_sparse_coo()", "E.to_sparse_csr()", "E.to_sparse_csc()",
    "E.to_sparse(layout=m.sparse_csr)", "c.to_sparse_csr()", "S.to_sparse_csr()", "C.to_sparse()",
    "C.to_sparse_coo()", "C.to_dense()", "C.to_sparse_csc()", "c+T", "S*2", "2*S", "S/2", "-S", "S*E", "E*S", "E+S",
    "S+E", "S+1", "E.add(S,alpha=2)", "S@D", "c@D", "S@q", "m.mm(S,D)", "m.sparse.mm(S,D)", "m.sparse.mm(S,T.t())",
    "S@T.t()", "m.matmul(S,D)", "m.mv(S,q)", "m.spmm(S,D)", "m.smm(S,D)", "m.hspmm(c,D)", "E.t()@S", "m.mm(E.t(),S)",
    "m.sparse.mm(E.t(),S)", "m.addmm(m.ones(2,4),S,D,beta=2,alpha=3)", "m.sparse.addmm(m.ones(2,4),S,D)",
    "m.bmm(m.stack([S,S]),m.stack([D,D]))", "m.dot(S,S)", "S.t()", "S.T", "c.t()", "S.transpose(0,1)",
    "S.permute(1,0)", "S.sum()", "S.sum(0)", "m.sparse.sum(S)", "m.sparse.sum(S,0)", "m.sparse.sum(S,1)",
    "m.sparse.sum(S,[0,1])", "m.sparse.sum(S,dtype=m.float64)", "m.sparse.sum(H,1)", "m.sparse.softmax(S,1)",
    "m.sparse.softmax(S,0)", "m.sparse.log_softmax(S,1)", "m.sparse.softmax(H,0)", "S.softmax(1)", "m.softmax(S,1)",
    "S.abs()", "S.neg()", "S.sqrt()", "S.pow(2)", "S**2", "S.sin()", "S.exp()", "S.relu()", "m.relu(S)", "S.sign()",
    "S.log1p()", "S.clone()", "S.detach()", "S.double()", "S.to(m.float64)", "S.to('cpu')", "S.int()", "S.bool()",
    "S.half()", "S.long()", "S[0]", "S[0,2]", "S[1][0]", "S[:, 0]", "S[0:1]", "S[None]", "S[m.tensor([0,1])]", "H[0]",
    "S.select(0,1)", "S.index_select(0,m.tensor([1,0,1]))", "S.index_select(1,m.tensor([2]))", "S.narrow(1,1,2)",
    "S.narrow_copy(1,1,2)", "m.cat([S,T])", "m.cat([S,T],1)", "m.stack([S,T])", "m.cat([H,H],1)", "S.unsqueeze(0)",
    "S.unsqueeze(2)", "S.squeeze()", "S.norm()", "S.norm(2,0)", "S.mean()", "S.max()",
    "S.size(), S.shape, S.dim(), S.numel(), S.dtype, S.layout, S.device, S.is_sparse, S.is_sparse_csr",
    "C.is_sparse_csr, C.is_sparse",
    "S.stride()", "S.is_contiguous()", "S.data_ptr()", "S.storage()", "S.storage_offset()", "S.numpy()", "S.tolist()",
    "S.item()", "len(S)", "repr(S)", "repr(C)", "repr(H)", "repr(S.to_sparse_csr().to_sparse_csc())", "S.values()",
    "S.indices()", "C.values(), C.crow_indices(), C.col_indices(), C._nnz()", "C.indices()", "S.crow_indices()",
    "C.is_coalesced()", "C.coalesce()", "C@D", "C@q", "m.sparse.mm(C,D)", "m.mm(C,D)", "m.addmm(m.ones(2,4),C,D)",
    "C@C.t()", "C+C", "C*2", "C*C", "C*E", "E*C", "E+C", "C+E", "C-C", "C/2", "-C", "C.t()", "C.transpose(0,1)",
    "C.sum()", "C.sum(1)", "C.sum(1,keepdim=True)", "C.sum(0)", "m.sparse.sum(C)", "C.abs()", "C.sin()", "C.relu()",
    "C.clone()", "C.detach()", "C.double()", "C[0]", "C[0,0]", "C.select(0,0)", "C.norm()", "C.numel()",
    "C.to_sparse_csr()", "C.stride()", "m.sparse.sampled_addmm(C,E@K,K)",
    "m.sparse.sampled_addmm(C,m.ones(2,2),m.ones(2,3),beta=0.5,alpha=2.)",
    "m.sparse.spdiags(m.arange(6.).reshape(2,3),m.tensor([0,1]),(3,3))",
    "m.sparse.spdiags(m.arange(6.).reshape(2,3),m.tensor([0,-1]),(3,3),layout=m.sparse_csr)", "E.sparse_mask(S)",
    "E.sparse_mask(c)", "E.sparse_mask(C)", "S.sparse_mask(c)", "m.sparse_coo_tensor([[0,1],[1,2]],[1,2])",
    "m.sparse_coo_tensor([[0,1],[1,2]],[1.,2],(3,4),dtype=m.float64)", "m.sparse_coo_tensor((2,3))",
    "m.sparse_coo_tensor(size=(2,3))", "m.sparse_coo_tensor(m.tensor([[0,1]]),m.tensor([1.,2,3]),(3,))",
    "m.sparse_coo_tensor(m.tensor([0,1]),m.tensor([1.,2]),(3,))",
    "m.sparse_coo_tensor(m.tensor([[0.,1]]),m.tensor([1.,2]),(3,))",
    "m.sparse_coo_tensor(m.tensor([[0,1]]),m.tensor([1.,2]),(3,3))",
    "m.sparse_coo_tensor(m.empty(2,0,dtype=m.int64),m.empty(0),(2,3))",
    "m.sparse_coo_tensor(m.tensor([[0,1]]),m.tensor([1.,2]),(3,),is_coalesced=True)",
    "m.sparse_coo_tensor(m.tensor([[1,0]]),m.tensor([1.,2]),(3,),check_invariants=True)",
    "m.sparse_csr_tensor([0,1,2],[0,1],[1.,2])", "m.sparse_csr_tensor([0,1,2],[0,1],[1.,2],(2,2),dtype=m.float64)",
    "m.sparse_csc_tensor([0,1,2],[0,1],[1.,2],(2,2))",
    "m.sparse_compressed_tensor([0,1,2],[0,1],[1.,2],(2,2),layout=m.sparse_csr)", "m.zeros_like(S)",
    "m.zeros_like(S, layout=m.strided)", "m.ones_like(S)", "m.empty_like(S)", "m.randn_like(S)", "S.new_zeros(2)",
    "S.zero_()", "S.mul_(2)", "S.div_(2)", "E.add_(S)", "E.copy_(S)", "S.copy_(T)", "S.neg_()",
    "S.resize_as_sparse_(T)", "S.sparse_resize_((4,4),2,0)", "S.sparse_resize_and_clear_((4,4),2,0)", "S==S",
    "m.equal(S,S)", "S.is_same_size(T)", "S.isnan()", "m.allclose(S,S)", "m.is_tensor(S)",
    "S.requires_grad, S.is_leaf, S.grad, S.grad_fn", "S.is_floating_point(), S.is_complex(), S.element_size()",
    "S.coalesce().is_coalesced(), S.clone().is_coalesced(), (c*2).is_coalesced()",
    "m.sparse.FloatTensor(m.tensor([[0,1]]),m.tensor([1.,2.]),m.Size([3]))",
    "m.nn.functional.linear(D.t(),E.to_sparse())", "m.nn.functional.dropout(S,0.)", "m.where(S>0,S,S)", "S>0",
    "S.cpu()", "S.float()", "S.type(m.float64)", "S.any()", "S.argmax()", "S.nonzero()", "m.nonzero(S)",
    "S.view(3,2)", "S.reshape(3,2)", "S.flatten()", "S.expand(2,2,3)", "S.repeat(2,1)", "S.to_dense(dtype=m.float64)",
    "m.Tensor.to_dense(E)", "S.conj()", "S.real", "S.diag()", "S.trace()", "m.triu(S)",
    "m._convert_indices_from_coo_to_csr(m.tensor([0,0,2]),4)",
    "m._convert_indices_from_csr_to_coo(m.tensor([0,2,2,3]),m.tensor([1,2,0]))", "S.log_softmax(1)", "S.unbind()",
    "list(S)", "S.fill_(1)", "S.gather(0,m.tensor([[0]]))", "S.floor()", "S.trunc()", "S.round()", "S.tanh()",
    "S.erf()", "S.sgn()", "S.nan_to_num()", "S.floor_divide(2)", "S//2", "S%2", "E/S", "S/S", "S/E",
    "S.div(2,rounding_mode='floor')", "m.sparse.check_sparse_tensor_invariants.is_enabled()", "(S + T).to_dense()",
    "(S - T).to_dense()", "(S * T).to_dense()", "(c * T).to_dense()", "S.add(T, alpha=2).to_dense()",
    "S.add_(T).to_dense()", "(c + c)", "(c * c)", "m.sspaddmm(c, m.eye(2).to_sparse(), m.ones(2, 3))",
]  # fmt: skip


def operands(m) -> dict:
    places = m.tensor([[0, 1, 1, 0], [2, 0, 2, 2]])
    names = {
        "S": m.sparse_coo_tensor(places, m.tensor([3.0, 4.0, 5.0, 7.0]), (2, 3)),
        "T": m.sparse_coo_tensor(m.tensor([[0, 1, 1], [0, 0, 2]]), m.tensor([1.0, 2.0, 3.0]), (2, 3)),
        "H": m.sparse_coo_tensor(m.tensor([[0, 1, 1]]), m.arange(6.0).reshape(3, 2), (2, 2)),
        "C": m.sparse_csr_tensor(m.tensor([0, 2, 3]), m.tensor([0, 2, 1]), m.tensor([1.0, 2.0, 3.0]), (2, 3)),
        "D": m.arange(12.0).reshape(3, 4) - 5,
        "E": m.arange(6.0).reshape(2, 3) - 2,
        "K": m.tensor([[0.0, 0, 1], [0, 2, 3], [0, 0, 0]]),
        "q": m.tensor([1.0, 2.0, 3.0]),
        "m": m,
    }
    names["c"] = names["S"].coalesce()
    return names


def shown(m, x) -> str:
    """What is compared: layout, size, places, elements to five digits."""
    if isinstance(x, (tuple, list)):
        return "(" + ", ".join(shown(m, part) for part in x) + ")"
    if not isinstance(x, m.Tensor):
        return repr(x)
    if x.layout == m.sparse_coo:
        parts = [x.is_coalesced(), x._indices().tolist(), x._values()]
    elif x.layout == m.sparse_csr:
        parts = [x.crow_indices().tolist(), x.col_indices().tolist(), x.values()]
    elif x.layout == m.sparse_csc:
        parts = [x.ccol_indices().tolist(), x.row_indices().tolist(), x.values()]
    else:
        parts = [x]
    *places, values = parts
    numbers = [f"{v:.5g}" if isinstance(v, float) else str(v) for v in values.detach().flatten().tolist()]
    return f"{x.layout} {tuple(x.shape)} {places} {numbers} {x.dtype}"


def outcome(m, text: str) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return shown(m, eval(text, operands(m)))
        except NotImplementedError:
            return "NotImplementedError"
        except (RuntimeError, TypeError, IndexError, ValueError, AssertionError) as error:
            said = re.sub(r"\s+", " ", str(error))
            return f"{type(error).__name__}: {said[:45]}"


@pytest.mark.parametrize("text", CASES)
def test_like_pytorch(text: str) -> None:
    assert outcome(nt, text) == outcome(torch, text)


REFUSED = {  # where PyTorch takes what would later read memory that is not there, or has blocks
    "m.sparse_coo_tensor(m.tensor([[0, 5]]), m.tensor([1.0, 2]), (3,))": "size is 3 but found index 5",
    "m.sparse_coo_tensor(m.tensor([[0, -1]]), m.tensor([1.0, 2]), (3,))": "found negative index -1",
    "m.sparse_coo_tensor(m.tensor([[1, 0]]), m.tensor([1.0, 2]), (3,), is_coalesced=True)": "cannot set is_coalesced",
    "m.sparse_csr_tensor(m.tensor([0, 1, 3]), m.tensor([0, 1]), m.tensor([1.0, 2]), (2, 2))": "== nnz",
    "m.sparse_csr_tensor(m.tensor([0, 1, 2]), m.tensor([0, 7]), m.tensor([1.0, 2]), (2, 2))": "0 <= col_indices < 2",
    "m.sparse_csr_tensor(m.tensor([0, 1]), m.tensor([0]), m.tensor([1.0, 2]), (1, 2))": "must be the same",
    "m.sparse_csr_tensor(m.tensor([0, 2, 1]), m.tensor([0]), m.tensor([1.0]), (2, 2))": "== nnz",
    "m.sparse_bsr_tensor([0, 1], [0], [[[1.0]]], (1, 1))": "blocks",
    "m.zeros(2, 3, layout=m.sparse_coo)": "sparse_coo_tensor",
}


@pytest.mark.parametrize("text", REFUSED)
def test_refused(text: str) -> None:
    with pytest.raises((RuntimeError, NotImplementedError), match=re.escape(REFUSED[text])):
        eval(text, operands(nt))


# ---- gradients ----------------------------------------------------------------------------------------------------
GRADIENTS = {
    "mm": lambda m, S, D: m.sparse.mm(S, D),
    "to_dense": lambda m, S, D: S.to_dense() @ D,
    "sum": lambda m, S, D: m.sparse.sum(S) * D,
    "sum of one": lambda m, S, D: m.sparse.sum(S, 0).to_dense() @ D,
    "add": lambda m, S, D: (S + S).to_dense() @ D,
    "mul": lambda m, S, D: (S * 3).to_dense() @ D,
    "softmax": lambda m, S, D: m.sparse.softmax(S, 1).to_dense() @ D,
    "log_softmax": lambda m, S, D: m.sparse.log_softmax(S, 1).to_dense() @ D,
    "addmm": lambda m, S, D: m.sparse.addmm(m.ones(2, 4), S, D),
    "t": lambda m, S, D: m.sparse.mm(S.t(), D[:2]),
    "values": lambda m, S, D: S.coalesce().values().sum() * D,
}


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name: str, whole: bool) -> None:
    def run(m):
        given = operands(m)
        leaf, dense = (given["c"] if whole else given["S"]).requires_grad_(), given["D"].requires_grad_()
        made = GRADIENTS[name](m, leaf, dense)
        (made * made).sum().backward()
        assert leaf.is_leaf and leaf.grad.layout == m.sparse_coo
        return leaf.grad.to_dense().tolist(), None if dense.grad is None else dense.grad.tolist()

    (mine, my_dense), (theirs, their_dense) = run(nt), run(torch)
    assert mine == [pytest.approx(row, rel=1e-4, abs=1e-4) for row in theirs]
    assert my_dense == their_dense or my_dense == [pytest.approx(row, rel=1e-4) for row in their_dense]


def test_history_is_that_of_the_values() -> None:
    def run(m):
        values = m.tensor([3.0, 4.0, 5.0, 7.0], requires_grad=True)
        made = m.sparse_coo_tensor(m.tensor([[0, 1, 1, 0], [2, 0, 2, 2]]), values, (2, 3))
        (m.sparse.mm(made, operands(m)["D"]) ** 2).sum().backward()
        with m.no_grad():
            still = (made * 2).requires_grad
        return values.grad.tolist(), made.requires_grad, made.is_leaf, made.detach().requires_grad, still

    assert run(nt) == run(torch)


def test_gradients_are_right() -> None:
    D = operands(nt)["D"].double()
    places = nt.tensor([[0, 1, 1, 0], [2, 0, 2, 2]])
    values = nt.rand(4, dtype=nt.float64).requires_grad_()
    assert nt.autograd.gradcheck(lambda v: nt.sparse.mm(nt.sparse_coo_tensor(places, v, (2, 3)), D), values)
    leaf = operands(nt)["c"].double().requires_grad_()
    check = nt.sparse.as_sparse_gradcheck(nt.autograd.gradcheck)
    assert check(lambda s: nt.sparse.mm(s, D), leaf, masked=True)
    (found,) = nt.autograd.grad((leaf.to_dense() ** 2).sum(), leaf)
    assert found.values().tolist() == [20.0, 8.0, 10.0]
    with pytest.raises(RuntimeError, match="leaf Variable"):
        leaf.mul_(2)


# ---- tables of rows -----------------------------------------------------------------------------------------------
def trained(m, name: str, steps: int = 4, **options):
    m.manual_seed(0)
    table = m.nn.Embedding(6, 3, sparse=True, padding_idx=5)
    optimizer = getattr(m.optim, name)(table.parameters(), lr=0.1, **options)
    for step in range(steps):
        optimizer.zero_grad()
        (table(m.tensor([1, step, 4, 5, 1])) ** 2).sum().backward()
        assert table.weight.grad.is_sparse
        optimizer.step()
    return table.weight.detach().flatten().tolist()


@pytest.mark.parametrize(
    "name, options",
    [("SGD", {}), ("SGD", {"momentum": 0.9}), ("SparseAdam", {}), ("SparseAdam", {"maximize": True}), ("Adagrad", {})],
)
def test_optimizers(name: str, options: dict) -> None:
    assert trained(nt, name, **options) == pytest.approx(trained(torch, name, **options), rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("name", ["Adam", "AdamW", "RMSprop"])
def test_optimizers_that_refuse(name: str) -> None:
    for m in (nt, torch):
        with pytest.raises(RuntimeError, match="does not support sparse gradients"):
            trained(m, name)


def test_gradients_add_up() -> None:
    def run(m):
        weight = m.arange(12.0).reshape(4, 3).requires_grad_()
        look = m.nn.functional.embedding
        (look(m.tensor([[1, 2], [1, 3]]), weight, sparse=True) ** 2).sum().backward()
        first = weight.grad.coalesce()
        look(m.tensor([0, 2]), weight, sparse=True).sum().backward()
        kinds = [weight.grad.is_sparse]
        said = [first.indices().tolist(), first.values().tolist(), weight.grad.to_dense().tolist()]
        (weight * 2).sum().backward()
        return [*said, kinds, weight.grad.is_sparse, weight.grad.tolist()]

    assert run(nt) == run(torch)


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_bags(mode: str) -> None:
    def run(m):
        m.manual_seed(0)
        bags = m.nn.EmbeddingBag(5, 3, sparse=True, mode=mode)
        bags(m.tensor([1, 1, 4]), m.tensor([0, 2])).sum().backward()
        return bags.weight.grad.is_sparse, bags.weight.grad.to_dense().tolist()

    assert run(nt) == run(torch)


# ---- modules and files --------------------------------------------------------------------------------------------
def graph_network(m):
    class Network(m.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("neighbours", operands(m)["S"])
            self.layer = m.nn.Linear(4, 2)

        def forward(self, x):
            return self.layer(m.sparse.mm(self.neighbours, x)).relu()

    m.manual_seed(0)
    return Network()


def test_modules() -> None:
    def run(m):
        network = graph_network(m).double()
        x = operands(m)["D"].double()
        twin = graph_network(m).double()
        twin.load_state_dict(network.state_dict())
        (copy.deepcopy(twin)(x) ** 2).sum().backward()
        state = network.state_dict()
        return list(state), str(state["neighbours"].dtype)[-7:], twin(x).detach().flatten().tolist()

    mine, theirs = run(nt), run(torch)
    assert mine[:2] == theirs[:2] and mine[2] == pytest.approx(theirs[2])


def test_compiled() -> None:
    given = operands(nt)
    compiled = nt.compile(lambda x: nt.sparse.mm(given["S"], x).relu() * 2)
    for shift in (0, 1):
        x = given["D"] + shift
        assert compiled(x).tolist() == (nt.sparse.mm(given["S"], x).relu() * 2).tolist()


@pytest.mark.parametrize("name", ["S", "c", "C", "H"])
@pytest.mark.parametrize("writer, reader", [(nt, nt), (nt, torch), (torch, nt)])
def test_files(name: str, writer, reader) -> None:
    file = io.BytesIO()
    writer.save({"it": operands(writer)[name]}, file)
    file.seek(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        read = reader.load(file)["it"]
        assert shown(reader, read).replace("torch.", "") == shown(reader, operands(reader)[name]).replace("torch.", "")


def test_a_file_is_checked() -> None:
    file = io.BytesIO()
    bad = operands(nt)["S"]
    bad._parts = (bad._parts[0] + 7, bad._parts[1])
    nt.save(bad, file)
    file.seek(0)
    with pytest.raises((RuntimeError, ValueError), match="size is inconsistent with indices"):
        nt.load(file)


@pytest.mark.parametrize("transposed", [False, True])
def test_sparse_adam_by_places_of_two_dimensions(transposed: bool) -> None:
    found = []
    for m in (nt, torch):
        w = m.arange(12.0).view(4, 3).t() if transposed else m.arange(12.0).view(3, 4)
        w = w.detach().requires_grad_()
        optimizer = m.optim.SparseAdam([w], lr=0.1, maximize=transposed)
        for k in range(3):
            places = m.tensor([[0, 2, 0, 2], [1, 0, 1, 2]])
            w.grad = m.sparse_coo_tensor(places, m.tensor([0.5, -1.0, 2.0, k - 1.0]), w.shape)
            optimizer.step()
        state = optimizer.state[w]
        found.append([w.detach().numpy(), state["exp_avg"].numpy(), state["exp_avg_sq"].numpy()])
    for mine, theirs in zip(*found):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-7)
