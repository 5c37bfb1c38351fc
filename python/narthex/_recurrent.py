"""torch.lstm, gru, rnn_tanh and rnn_relu: layers and directions of a recurrent network, each an operator of its own.

`steps` is None for (steps, batch, n) tensors, else how many rows each step of packed data has. float64, and everything
while torch.backends.mkldnn.enabled is False, goes step by step through the cells: gradients have gradients then.
"""

from . import _C
from ._shells import shells_of_module
from .backends import mkldnn

_RELU, _TANH, _LSTM, _GRU = range(4)
_CELLS = {_RELU: _C.rnn_relu_cell, _TANH: _C.rnn_tanh_cell, _GRU: _C.gru_cell}


def _at_once(mode: int, x, steps, h, c, weights, projection, reverse: bool):
    """A layer in one direction as one operator: its results, the state and the cell after them."""
    w_ih, w_hh, *biases = weights
    if not biases:
        biases = [_C.empty(0, dtype=x.dtype, device=x.device)] * 2
    hidden = w_ih.size(0) // (1, 1, 4, 3)[mode]
    if projection is not None:
        biases = [biases[0] + biases[1] if len(weights) > 2 else biases[0], projection]
    used = (x, h, *weights) if c is None else (x, h, c, *weights)
    train = _C.is_grad_enabled() and any(t.requires_grad for t in used)
    return _C.mkldnn_rnn_layer(
        x, w_ih, w_hh, *biases, h, h if c is None else c, reverse, steps or [], mode, hidden, 1, len(weights) > 2,
        False, False, train,
    )[:3]  # fmt: skip


def _step_by_step(mode: int, x, steps, h, c, weights, projection, reverse: bool):
    rows = x.unbind(0) if steps is None else x.split(steps)
    results = [None] * len(rows)
    for t in reversed(range(len(rows))) if reverse else range(len(rows)):
        n = rows[t].size(0)
        state, cell = h[:n], None
        if mode == _LSTM:
            state, cell = _C.lstm_cell(rows[t], [state, c[:n]], *weights)
            state = state if projection is None else _C.functions["torch._C._nn.linear"](state, projection)
        else:
            state = _CELLS[mode](rows[t], state, *weights)
        results[t] = state
        whole = n == h.size(0)  # else some rows have ended, or have not begun
        h = state if whole else _C.cat([state, h[n:]])
        if cell is not None:
            c = cell if whole else _C.cat([cell, c[n:]])
    return _C.stack(results) if steps is None else _C.cat(results), h, c


def _run(mode: int, x, steps, hx, cx, params, has_biases: bool, num_layers: int, dropout: float, train: bool,
         bidirectional: bool):  # fmt: skip
    """All layers: the results and, of all layers and directions, the states and the cells after them."""
    if x.size(0) == 0:
        raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
    directions = 2 if bidirectional else 1
    each = (4 if has_biases else 2) + (1 if mode == _LSTM and cx.size(-1) != hx.size(-1) else 0)
    if len(params) != each * num_layers * directions:
        raise RuntimeError(f"expected {each * num_layers * directions} weights for the layers, got {len(params)}")
    layer = _step_by_step if x.dtype == _C.float64 or not mkldnn.enabled else _at_once
    states, cells = [], []
    for number in range(num_layers):
        results = []
        for direction in range(directions):
            k = number * directions + direction
            weights = params[k * each : (k + 1) * each]
            projection = weights[-1] if each % 2 else None
            weights = weights[:-1] if each % 2 else weights
            cell = None if cx is None else cx[k]
            result, state, cell = layer(mode, x, steps, hx[k], cell, weights, projection, direction == 1)
            results.append(result)
            states.append(state)
            cells.append(cell)
        x = results[0] if directions == 1 else _C.cat(results, -1)
        if dropout != 0 and train and number < num_layers - 1:
            x = _C.dropout(x, dropout, True)
    return x, _C.stack(states), _C.stack(cells) if mode == _LSTM else None


def _given(mode: int, x, second, *rest):
    """The overload for packed data has the sizes of its steps behind the data."""
    packed = isinstance(second, _C.TensorBase) and (mode == _LSTM or isinstance(rest[0], _C.TensorBase))
    if packed:
        hx, params, has_biases, num_layers, dropout, train, bidirectional = rest
        return x, second.tolist(), hx, params, has_biases, num_layers, dropout, train, bidirectional, False
    params, has_biases, num_layers, dropout, train, bidirectional, batch_first = rest
    x = x.transpose(0, 1) if batch_first else x
    return x, None, second, params, has_biases, num_layers, dropout, train, bidirectional, batch_first


def lstm(input, *args):
    """`lstm(input, (h, c), params, has_biases, num_layers, dropout, train, bidirectional, batch_first)`; packed:
    `lstm(data, batch_sizes, (h, c), params, has_biases, num_layers, dropout, train, bidirectional)`."""
    x, steps, hx, params, *rest, batch_first = _given(_LSTM, input, *args)
    if len(hx) != 2:
        raise RuntimeError("lstm expects two hidden states")
    x, h, c = _run(_LSTM, x, steps, hx[0], hx[1], params, *rest)
    return (x.transpose(0, 1) if batch_first else x), h, c


def _plain(mode: int, name: str):
    def run(input, *args):
        x, steps, hx, params, *rest, batch_first = _given(mode, input, *args)
        x, h, _ = _run(mode, x, steps, hx, None, params, *rest)
        return (x.transpose(0, 1) if batch_first else x), h

    run.__name__ = run.__qualname__ = name
    run.__doc__ = f"{name}, as `lstm` with one state `h` in place of two."
    return run


gru, rnn_tanh, rnn_relu = _plain(_GRU, "gru"), _plain(_TANH, "rnn_tanh"), _plain(_RELU, "rnn_relu")
shells_of_module(globals())
