"""torch.testing: assert_close passes and fails as PyTorch's, with its texts; make_tensor gives its elements."""

import narthex as nt
import pytest
import torch

COMPARISONS = """
torch.tensor([1., 2, 3]), torch.tensor([1., 2, 4])
torch.tensor(1.), torch.tensor(2.)
torch.tensor([[1, 2], [3, 4]]), torch.tensor([[1, 2], [3, 5]])
torch.tensor([1., 2, 3]), torch.tensor([1., 2, 3, 4])
torch.tensor([1., 2, 3]), torch.tensor([1, 2, 3])
torch.tensor([1., 2, 3]), torch.tensor([1., 2, 3.000001])
[torch.tensor([1., 2, 3]), 1.0], [torch.tensor([1., 2, 3]), 2.0]
[torch.tensor([1., 2, 3]), 1.0], [torch.tensor([1., 2, 3])]
{'a': torch.tensor([1., 2, 3])}, {'a': torch.tensor([1., 2, 7])}
{'a': torch.tensor([1., 2, 3])}, {'b': torch.tensor([1., 2, 7])}
{'a': {'c': 1}}, {'a': {'c': 2}}
torch.tensor([1., float('nan')]), torch.tensor([1., float('nan')])
torch.tensor([1., float('nan')]), torch.tensor([1., float('nan')]), equal_nan=True
1, 2
1.0, 2
1.0, 2, check_dtype=False
'a', 'b'
None, 1
None, None
True, False
1 + 1j, 2 + 1j
torch.tensor([1.]), torch.tensor([2.]), rtol=0.1
torch.tensor([1.]), torch.tensor([2.]), rtol=0, atol=0
torch.tensor([1.]), torch.tensor([2.]), rtol=0.1, atol=0.1
torch.tensor([1.]), torch.tensor([2.]), msg='hi'
torch.tensor([1.]), torch.tensor([2.]), msg=lambda m: 'hi ' + m
torch.ones(2, 3), torch.ones(3, 2).t(), check_stride=True
torch.ones(2, 3), torch.ones(3, 2).t()
torch.tensor([True, False]), torch.tensor([True, True])
(1, 2), [1, 2]
torch.tensor([float('inf')]), torch.tensor([2.])
torch.tensor([1., 2.]), torch.tensor([0., 3.])
torch.tensor([1 + 1j]), torch.tensor([1 + 2j])
torch.ones(2, dtype=torch.uint8), torch.zeros(2, dtype=torch.uint8)
[1, [2, 3]], [1, [2, 4]]
{'a': 1, 'b': 2, 'c': 2}, {'b': 1, 'd': 2}
torch.tensor([1.]).half(), torch.tensor([2.]).bfloat16(), check_dtype=False
float('nan'), float('nan')
float('nan'), float('nan'), equal_nan=True
torch.tensor(float('nan')), torch.tensor(1.)
torch.zeros(0), torch.zeros(0)
torch.nn.Parameter(torch.ones(2)), torch.ones(2)
"""
MADE = """
(3, 4), dtype=torch.float32
(3, 4), dtype=torch.bool
(3, 4), dtype=torch.uint8
(3, 4), dtype=torch.int8
5, dtype=torch.int64, low=-3, high=77
(3, 4), dtype=torch.float16
(3, 4), dtype=torch.bfloat16, low=0, high=1
3, 4, dtype=torch.float64, requires_grad=True
[3, 4], dtype=torch.complex64
(3, 4), dtype=torch.float8_e4m3fn
(3, 4), dtype=torch.float32, noncontiguous=True
(3, 4), dtype=torch.int32, low=0, high=2, exclude_zero=True
(2, 3, 4, 5), dtype=torch.float32, memory_format=torch.channels_last
2, dtype=torch.float32, low=3, high=2
2, dtype=torch.int32, requires_grad=True
2, dtype=torch.float32, low=float('nan')
2, dtype=torch.float32, noncontiguous=True, memory_format=torch.channels_last
2, dtype=torch.uint8, low=300, high=1000
20, dtype=torch.int32, low=1.5, high=3.5
20, dtype=torch.float16, low=-1e6, high=1
"""


def told(run, *args):
    """What a call gives, or its error: type and text, in which the modules have one name."""
    try:
        return str(run(*args))
    except Exception as error:
        return f"{type(error).__name__}: {str(error).replace('narthex', 'torch')}"


@pytest.mark.parametrize("arguments", COMPARISONS.strip().split("\n"))
def test_assert_close(arguments):
    run = eval(f"lambda torch: torch.testing.assert_close({arguments})")
    assert told(run, nt) == told(run, torch)


@pytest.mark.parametrize("arguments", MADE.strip().split("\n"))
def test_make_tensor(arguments):
    make = eval(f"lambda torch: torch.testing.make_tensor({arguments}, device='cpu')")

    def described(t):
        t.manual_seed(1)
        made = make(t)
        whole = made.detach().clone()
        elements = t.view_as_real(whole) if whole.is_complex() else whole.to(t.float64)
        return made.stride(), made.requires_grad, made.dtype, made.shape, elements.tolist()

    assert told(described, nt) == told(described, torch)


def test_assert_allclose():
    with pytest.warns(FutureWarning):
        nt.testing.assert_allclose(nt.tensor([1.0]), [1.000001])
    with pytest.warns(FutureWarning), pytest.raises(AssertionError, match="Tensor-likes are not close"):
        nt.testing.assert_allclose(nt.tensor([1.0]), [1.1])
