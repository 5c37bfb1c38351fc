"""Recurrent layers: RNN, LSTM and GRU over whole sequences, and their cells, which make one step."""

import math
import numbers
import warnings

from ... import _C, _recurrent
from ...amp.autocast_mode import is_autocast_enabled
from .. import init
from ..parameter import Parameter
from ..utils.rnn import PackedSequence
from .module import Module

_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


def _int_above_zero(name: str, value) -> None:
    if not isinstance(value, int):
        raise TypeError(f"{name} should be of type int, got: {type(value).__name__}")
    if value <= 0:
        raise ValueError(f"{name} must be greater than zero")


class RNNBase(Module):
    """What RNN, LSTM and GRU share: weights named weight_ih_l0, weight_hh_l0_reverse, … and the checks of a call."""

    def __init__(
        self, mode: str, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0, device=None,
        dtype=None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.mode, self.input_size, self.hidden_size, self.num_layers = mode, input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, float(dropout)
        self.bidirectional, self.proj_size = bidirectional, proj_size
        self._check_arguments(dropout)
        self._flat_weights_names, self._all_weights = [], []
        for layer in range(num_layers):
            for suffix in ("", "_reverse") if bidirectional else ("",):
                self._add_weights(layer, f"l{layer}{suffix}", device, dtype)
        self.reset_parameters()

    def _check_arguments(self, dropout) -> None:
        if not isinstance(dropout, numbers.Number) or isinstance(dropout, bool) or not 0 <= dropout <= 1:
            raise ValueError(
                "dropout should be a number in range [0, 1] representing the probability of an element being zeroed"
            )
        if dropout > 0 and self.num_layers == 1:
            warnings.warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects "
                f"num_layers greater than 1, but got dropout={dropout} and num_layers={self.num_layers}",
                stacklevel=4,
            )
        for name in ("bias", "batch_first"):
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"{name} should be of type bool, got: {type(getattr(self, name)).__name__}")
        _int_above_zero("input_size", self.input_size)
        _int_above_zero("hidden_size", self.hidden_size)
        if self.num_layers <= 0:
            raise ValueError("num_layers must be greater than zero")
        if self.proj_size < 0:
            raise ValueError("proj_size should be a positive integer or zero to disable projections")
        if self.proj_size >= self.hidden_size:
            raise ValueError("proj_size has to be smaller than hidden_size")
        if self.mode not in _GATES:
            raise ValueError("Unrecognized RNN mode: " + self.mode)

    def _add_weights(self, layer: int, suffix: str, device, dtype) -> None:
        state = self.proj_size or self.hidden_size
        width = self.input_size if layer == 0 else state * (2 if self.bidirectional else 1)
        rows = _GATES[self.mode] * self.hidden_size
        sizes = {"weight_ih": (rows, width), "weight_hh": (rows, state)}
        if self.bias:
            sizes.update(bias_ih=(rows,), bias_hh=(rows,))
        if self.proj_size:
            sizes["weight_hr"] = (self.proj_size, self.hidden_size)
        names = [f"{name}_{suffix}" for name in sizes]
        for name, size in zip(names, sizes.values(), strict=True):
            setattr(self, name, Parameter(_C.empty(size, device=device, dtype=dtype)))
        self._flat_weights_names.extend(names)
        self._all_weights.append(names)

    def reset_parameters(self) -> None:
        """Draws new values: uniform on +-1 / sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def flatten_parameters(self) -> None:
        """Does nothing: weights may lie anywhere."""

    def __getstate__(self) -> dict:
        """With the list that PyTorch's has beside the parameters."""
        return {**super().__getstate__(), "_flat_weights": self._flat_weights}

    def __setstate__(self, state: dict) -> None:
        super().__setstate__({name: value for name, value in state.items() if name != "_flat_weights"})

    @property
    def _flat_weights(self) -> list:
        return [getattr(self, name) for name in self._flat_weights_names]

    @property
    def all_weights(self) -> list:
        """The weights of each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    # ---- checks of a call ------------------------------------------------------------------------------------

    def check_input(self, input, batch_sizes) -> None:
        """Dtype, number of dimensions and width of the input."""
        weight = getattr(self, self._flat_weights_names[0])
        if input.dtype != weight.dtype and not is_autocast_enabled(input.device.type):
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({weight.dtype}). "
                f"Convert input: input.to({weight.dtype}), or convert model: model.to({input.dtype})"
            )
        n_dims = 3 if batch_sizes is None else 2
        if input.dim() != n_dims:
            raise RuntimeError(f"input must have {n_dims} dimensions, got {input.dim()}")
        if self.input_size != input.size(-1):
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.size(-1)}"
            )

    def _expected_size(self, input, batch_sizes, width: int) -> tuple:
        batch = input.size(0 if self.batch_first else 1) if batch_sizes is None else int(batch_sizes[0])
        return self.num_layers * (2 if self.bidirectional else 1), batch, width

    def get_expected_hidden_size(self, input, batch_sizes) -> tuple:
        """The size of the state for an input."""
        return self._expected_size(input, batch_sizes, self.proj_size or self.hidden_size)

    def check_hidden_size(self, hx, expected_hidden_size, msg: str = "Expected hidden size {}, got {}") -> None:
        """Raises unless the state has that size."""
        if hx.size() != expected_hidden_size:
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.size())))

    def check_forward_args(self, input, hidden, batch_sizes) -> None:
        """All checks of a call."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx, permutation):
        """The states in another order of the batch."""
        return hx if permutation is None else hx.index_select(1, permutation)

    # ---- a call ----------------------------------------------------------------------------------------------

    def _zeros(self, input, batch_sizes, width: int):
        return _C.zeros(self._expected_size(input, batch_sizes, width), dtype=input.dtype, device=input.device)

    def _checked_n_dims(self, input) -> None:
        if input.dim() not in (2, 3):
            end = "D tensor instead" if type(self).__name__ == "RNN" else "D instead"
            raise ValueError(f"{self.mode[:3]}: Expected input to be 2D or 3D, got {input.dim()}{end}".replace(
                "LST:", "LSTM:"))  # fmt: skip

    def _run(self, function, input, batch_sizes, hx):
        options = (self.bias, self.num_layers, self.dropout, self.training, self.bidirectional)
        if batch_sizes is None:
            return function(input, hx, self._flat_weights, *options, self.batch_first)
        return function(input, batch_sizes, hx, self._flat_weights, *options)

    def _forward_one_state(self, function, input, hx):
        """forward of RNN and GRU."""
        if isinstance(input, PackedSequence):
            data, batch_sizes, order, back = input
            hx = self._zeros(data, batch_sizes, self.hidden_size) if hx is None else self.permute_hidden(hx, order)
            self.check_forward_args(data, hx, batch_sizes)
            result, hidden = self._run(function, data, batch_sizes, hx)
            return PackedSequence(result, batch_sizes, order, back), self.permute_hidden(hidden, back)
        self._checked_n_dims(input)
        batched, batch_dim = input.dim() == 3, 0 if self.batch_first else 1
        if hx is not None and hx.dim() != input.dim():
            kind = "batched 3-D" if batched else "unbatched 2-D"
            raise RuntimeError(f"For {kind} input, hx should also be {input.dim()}-D but got {hx.dim()}-D tensor")
        if not batched:
            input, hx = input.unsqueeze(batch_dim), None if hx is None else hx.unsqueeze(1)
        hx = self._zeros(input, None, self.hidden_size) if hx is None else hx
        self.check_forward_args(input, hx, None)
        result, hidden = self._run(function, input, None, hx)
        return (result, hidden) if batched else (result.squeeze(batch_dim), hidden.squeeze(1))

    def extra_repr(self) -> str:
        """The sizes, and what is not as usual."""
        text = f"{self.input_size}, {self.hidden_size}"
        usual = {"proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False, "dropout": 0,
                 "bidirectional": False}  # fmt: skip
        for name, value in usual.items():
            if getattr(self, name) != value:
                text += f", {name}={getattr(self, name)}"
        return text


def _no_projection(kwargs: dict) -> None:
    if "proj_size" in kwargs:
        raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")


class RNN(RNNBase):
    """h = tanh(W_ih x + b_ih + W_hh h + b_hh) step by step; `nonlinearity` may be "relu"."""

    def __init__(self, *args, **kwargs) -> None:
        _no_projection(kwargs)
        if len(args) > 3:
            self_nonlinearity, args = args[3], args[:3] + args[4:]
        else:
            self_nonlinearity = kwargs.pop("nonlinearity", "tanh")
        modes = {"tanh": "RNN_TANH", "relu": "RNN_RELU"}
        if self_nonlinearity not in modes:
            raise ValueError(f"Unknown nonlinearity '{self_nonlinearity}'. Select from 'tanh' or 'relu'.")
        super().__init__(modes[self_nonlinearity], *args, **kwargs)
        self.nonlinearity = self_nonlinearity

    def forward(self, input, hx=None):
        function = _recurrent.rnn_tanh if self.mode == "RNN_TANH" else _recurrent.rnn_relu
        return self._forward_one_state(function, input, hx)


class GRU(RNNBase):
    """Gated recurrent units."""

    def __init__(self, *args, **kwargs) -> None:
        _no_projection(kwargs)
        super().__init__("GRU", *args, **kwargs)

    def forward(self, input, hx=None):
        return self._forward_one_state(_recurrent.gru, input, hx)


class LSTM(RNNBase):
    """Long short-term memory; with `proj_size` the state is a product of the hidden units."""

    def __init__(self, *args, **kwargs) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def get_expected_cell_size(self, input, batch_sizes) -> tuple:
        """The size of the cell for an input."""
        return self._expected_size(input, batch_sizes, self.hidden_size)

    def check_forward_args(self, input, hidden, batch_sizes) -> None:
        """All checks of a call."""
        self.check_input(input, batch_sizes)
        sizes = self.get_expected_hidden_size(input, batch_sizes), self.get_expected_cell_size(input, batch_sizes)
        for k in range(2):
            self.check_hidden_size(hidden[k], sizes[k], f"Expected hidden[{k}] size {{}}, got {{}}")

    def permute_hidden(self, hx, permutation):
        """Both states in another order of the batch."""
        if permutation is None:
            return hx
        return hx[0].index_select(1, permutation), hx[1].index_select(1, permutation)

    def _states(self, input, batch_sizes):
        return (
            self._zeros(input, batch_sizes, self.proj_size or self.hidden_size),
            self._zeros(input, batch_sizes, self.hidden_size),
        )

    def forward(self, input, hx=None):
        if isinstance(input, PackedSequence):
            data, batch_sizes, order, back = input
            hx = self._states(data, batch_sizes) if hx is None else self.permute_hidden(hx, order)
            self.check_forward_args(data, hx, batch_sizes)
            result, h, c = self._run(_recurrent.lstm, data, batch_sizes, hx)
            return PackedSequence(result, batch_sizes, order, back), self.permute_hidden((h, c), back)
        self._checked_n_dims(input)
        batched, batch_dim = input.dim() == 3, 0 if self.batch_first else 1
        if hx is not None and (hx[0].dim() != input.dim() or hx[1].dim() != input.dim()):
            kind = "batched 3-D" if batched else "unbatched 2-D"
            raise RuntimeError(
                f"For {kind} input, hx and cx should also be {input.dim()}-D but got "
                f"({hx[0].dim()}-D, {hx[1].dim()}-D) tensors"
            )
        if not batched:
            input = input.unsqueeze(batch_dim)
            hx = None if hx is None else (hx[0].unsqueeze(1), hx[1].unsqueeze(1))
        hx = self._states(input, None) if hx is None else hx
        self.check_forward_args(input, hx, None)
        result, h, c = self._run(_recurrent.lstm, input, None, hx)
        return (result, (h, c)) if batched else (result.squeeze(batch_dim), (h.squeeze(1), c.squeeze(1)))


class RNNCellBase(Module):
    """What the cells share: `num_chunks` gates."""

    def __init__(self, input_size: int, hidden_size: int, bias: bool, num_chunks: int, device=None, dtype=None) -> None:
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        rows = num_chunks * hidden_size
        self.weight_ih = Parameter(_C.empty((rows, input_size), device=device, dtype=dtype))
        self.weight_hh = Parameter(_C.empty((rows, hidden_size), device=device, dtype=dtype))
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, Parameter(_C.empty(rows, device=device, dtype=dtype)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws new values: uniform on +-1 / sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def _check(self, input, *states) -> None:
        name = type(self).__name__
        if input.dim() not in (1, 2):
            raise ValueError(f"{name}: Expected input to be 1D or 2D, got {input.dim()}D instead")
        for k, state in enumerate(states):
            if state.dim() not in (1, 2):
                which = f"hx[{k}]" if len(states) > 1 else "hidden"
                raise ValueError(f"{name}: Expected {which} to be 1D or 2D, got {state.dim()}D instead")

    def _step(self, function, input, hx):
        """forward of the cells with one state."""
        self._check(input, *(() if hx is None else (hx,)))
        batched = input.dim() == 2
        input = input if batched else input.unsqueeze(0)
        if hx is None:
            hx = _C.zeros((input.size(0), self.hidden_size), dtype=input.dtype, device=input.device)
        elif not batched:
            hx = hx.unsqueeze(0)
        result = function(input, hx, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        return result if batched else result.squeeze(0)

    def extra_repr(self) -> str:
        """The sizes, and what is not as usual."""
        text = f"{self.input_size}, {self.hidden_size}" + ("" if self.bias is True else f", bias={self.bias}")
        usual = self.__dict__.get("nonlinearity", "tanh") == "tanh"
        return text if usual else f"{text}, nonlinearity={self.nonlinearity}"


class RNNCell(RNNCellBase):
    """One step of an RNN."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh", device=None, dtype=None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input, hx=None):
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        return self._step(_C.rnn_tanh_cell if self.nonlinearity == "tanh" else _C.rnn_relu_cell, input, hx)


class GRUCell(RNNCellBase):
    """One step of a GRU."""

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device=None, dtype=None) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input, hx=None):
        return self._step(_C.gru_cell, input, hx)


class LSTMCell(RNNCellBase):
    """One step of an LSTM: (h, c) from (h, c)."""

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device=None, dtype=None) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input, hx=None):
        self._check(input, *(() if hx is None else hx))
        batched = input.dim() == 2
        input = input if batched else input.unsqueeze(0)
        if hx is None:
            zeros = _C.zeros((input.size(0), self.hidden_size), dtype=input.dtype, device=input.device)
            hx = (zeros, zeros)
        elif not batched:
            hx = (hx[0].unsqueeze(0), hx[1].unsqueeze(0))
        h, c = _C.lstm_cell(input, list(hx), self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        return (h, c) if batched else (h.squeeze(0), c.squeeze(0))
