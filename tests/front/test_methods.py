"""Methods that are made of others, beside PyTorch's: what its table of operators has no samples of."""

import narthex as nt
import pytest
import torch

from tests.front.both import over, same

CALLS = {
    "fill_diagonal_": lambda x: x.fill_diagonal_(7),
    "fill_diagonal_, wrapped": lambda x: x.fill_diagonal_(7, wrap=True),
    "fill_diagonal_, cube": lambda x: x[:2, :2].clone().fill_diagonal_(3),
    "apply_": lambda x: x.apply_(lambda value: value * 2 + 1),
    "map_": lambda x: x.map_(x * 3, lambda a, b: a - b),
    "resize_, smaller": lambda x: x.resize_(2, 2),
    "resize_as_": lambda x: x.resize_as_(x[0]),
    "set_": lambda x: x.set_(x[1]),
    "unsafe_chunk": lambda x: x.unsafe_chunk(2)[1],
    "unsafe_split": lambda x: x.unsafe_split(2)[0],
    "to_dense": lambda x: x.to_dense(),
    "broadcast_to": lambda x: x[:1].broadcast_to((4, 3)), "broadcast_to_sizes": lambda x: x[:1].broadcast_to(4, 3),
}


@pytest.mark.parametrize("name", CALLS)
def test_method(name):
    x = torch.arange(21.0).view(7, 3) / 4
    same(CALLS[name](over(x)), CALLS[name](x.clone()))


@pytest.mark.parametrize("name", ["is_shared", "is_signed", "is_distributed", "sparse_dim", "dense_dim", "dim_order"])
def test_answer(name):
    x = torch.arange(6.0).view(2, 3).t()
    assert getattr(nt.arange(6.0).view(2, 3).t(), name)() == getattr(x, name)()


def test_resize_keeps_the_first_elements():
    x = nt.arange(4.0)
    x.resize_(2, 3)
    assert x.shape == (2, 3) and x.view(-1)[:4].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("name", ["coalesce", "indices", "values", "crow_indices", "col_indices", "row_indices"])
def test_parts_of_a_sparse_tensor(name):
    with pytest.raises(RuntimeError) as theirs:
        getattr(torch.ones(2), name)()
    with pytest.raises(RuntimeError) as ours:
        getattr(nt.ones(2), name)()
    assert str(ours.value) == str(theirs.value)


def test_functions_that_write_have_every_form_of_their_methods():
    names = [name for name in dir(nt) if name.endswith("_") and name[0] != "_" and hasattr(nt.Tensor, name)]
    for name in names:
        forms = [(getattr(of, name).__doc__ or "").count("(Tensor") for of in (nt, nt.Tensor)]
        assert forms[0] == forms[1], f"torch.{name} has {forms[0]} of the {forms[1]} forms of Tensor.{name}"
    x = nt.arange(4.0)
    assert nt.clamp_(x, min=0.5) is x and nt.clip_(x, 0, nt.tensor(2.0).item()).tolist() == [0.5, 1.0, 2.0, 2.0]
