"""L-BFGS: quasi-Newton steps from the last gradients (Nocedal and Wright, Numerical Optimization, algorithms 7.4,
7.5), with a search along the line for the strong Wolfe conditions (3.5, 3.6)."""

from .. import _C
from ..autograd.grad_mode import enable_grad, no_grad
from .optimizer import Optimizer, check_options


def _cubic_interpolate(x1, f1, g1, x2, f2, g2, bounds=None) -> float:
    """Where the cubic through two values and slopes is least, within `bounds`, or between x1 and x2."""
    low, high = bounds if bounds is not None else (min(x1, x2), max(x1, x2))
    d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2)
    under = d1 * d1 - g1 * g2
    if not under >= 0:
        return (low + high) / 2.0
    d2 = under**0.5
    least = (
        x2 - (x2 - x1) * ((g2 + d2 - d1) / (g2 - g1 + 2 * d2))
        if x1 <= x2
        else x1 - (x1 - x2) * ((g1 + d2 - d1) / (g1 - g2 + 2 * d2))
    )
    return min(max(least, low), high)


class _Point:
    """A place on the line: how far, the value, the gradient, the slope."""

    def __init__(self, at, value, grad, slope) -> None:
        self.at, self.value, self.grad, self.slope = at, value, grad, slope


def _search(evaluate, step, value, grad, slope, length, most, c1=1e-4, c2=0.9, tolerance=1e-9) -> tuple:
    """A point where the value has fallen by c1 of the slope and the slope by 1 - c2: (value, gradient, step, calls).
    `length`: the largest element of the direction; `most`: so many further points are tried."""
    start = value, slope

    def too_high(p, other) -> bool:
        return p.value > start[0] + c1 * p.at * start[1] or (other is not None and p.value >= other.value)

    grad = grad.clone(memory_format=_C.contiguous_format)
    before, now, calls = _Point(0, value, grad, slope), _Point(step, *evaluate(step)), 1
    bracket, done, tried = None, False, 0
    while tried < most:
        if too_high(now, before if tried > 1 else None):
            bracket = [before, now]
            break
        if abs(now.slope) <= -c2 * start[1]:
            bracket, done = [now], True
            break
        if now.slope >= 0:
            bracket = [before, now]
            break
        bounds = (now.at + 0.01 * (now.at - before.at), now.at * 10)
        at = _cubic_interpolate(before.at, before.value, before.slope, now.at, now.value, now.slope, bounds)
        before, now = now, _Point(at, *evaluate(at))
        calls, tried = calls + 1, tried + 1
    if bracket is None:
        bracket = [_Point(0, value, grad, slope), now]
    stuck = False
    low, high = (0, 1) if bracket[0].value <= bracket[-1].value else (1, 0)
    while not done and tried < most:
        a, b = bracket
        if abs(b.at - a.at) * length < tolerance:
            break
        at = _cubic_interpolate(a.at, a.value, a.slope, b.at, b.value, b.slope)
        far, near = max(a.at, b.at), min(a.at, b.at)
        margin = 0.1 * (far - near)
        if min(far - at, at - near) < margin:
            if stuck or at >= far or at <= near:
                at = far - margin if abs(at - far) < abs(at - near) else near + margin
                stuck = False
            else:
                stuck = True
        else:
            stuck = False
        new = _Point(at, *evaluate(at))
        calls, tried = calls + 1, tried + 1
        if too_high(new, bracket[low]):
            bracket[high] = new
            low, high = (0, 1) if bracket[0].value <= bracket[1].value else (1, 0)
            continue
        if abs(new.slope) <= -c2 * start[1]:
            done = True
        elif new.slope * (bracket[high].at - bracket[low].at) >= 0:
            bracket[high] = bracket[low]
        bracket[low] = new
    best = bracket[low if len(bracket) > 1 else 0]
    return best.value, best.grad, best.at, calls


def _strong_wolfe(
    obj_func, x, t, d, f, g, gtd, c1: float = 1e-4, c2: float = 0.9, tolerance_change: float = 1e-9, max_ls: int = 25
) -> tuple:
    """The search from `x` along `d`, for packages that bring a function (x, step, direction) -> (value, gradient) of
    their own: (value, gradient, step, calls). `t` is the first step; `f`, `g` and `gtd` are value, gradient and slope
    at `x`."""

    def evaluate(step) -> tuple:
        value, grad = obj_func(x, step, d)
        return value, grad, grad.dot(d)

    return _search(evaluate, t, f, g, gtd, d.abs().max(), max_ls, c1, c2, tolerance_change)


class LBFGS(Optimizer):
    """L-BFGS with PyTorch's arguments; one group, all parameters on one device, `step` needs a closure."""

    def __init__(
        self, params, lr=1, max_iter: int = 20, max_eval: int | None = None, tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9, history_size: int = 100, line_search_fn: str | None = None,
    ) -> None:  # fmt: skip
        check_options(lr)
        if not 0.0 <= lr:
            raise ValueError(f"Invalid learning rate: {lr}")
        super().__init__(params, {
            "lr": lr, "max_iter": max_iter, "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change, "history_size": history_size,
            "line_search_fn": line_search_fn,
        })  # fmt: skip
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params = self.param_groups[0]["params"]

    def _gradient(self):
        """All gradients as one row, complex ones as pairs."""
        rows = [_C.zeros(p.numel(), dtype=p.dtype) if p.grad is None else p.grad.reshape(-1) for p in self._params]
        return _C.cat([_C.view_as_real(row).view(-1) if row.is_complex() else row for row in rows], 0)

    def _move(self, step: float, direction) -> None:
        at = 0
        for parameter in self._params:
            parameter = _C.view_as_real(parameter) if parameter.is_complex() else parameter
            n = parameter.numel()
            parameter.add_(direction[at : at + n].view_as(parameter), alpha=step)
            at += n

    def _evaluate(self, closure, kept: list, direction):
        """A function of the step: (value, gradient, slope) there; the parameters are put back."""

        def evaluate(step: float) -> tuple:
            self._move(step, direction)
            value = float(closure())
            grad = self._gradient()
            for parameter, before in zip(self._params, kept):
                parameter.copy_(before)
            return value, grad, float(grad.dot(direction))

        return evaluate

    def _direction(self, state: dict, grad, history: int):
        """The next direction, from the newest change of gradient and the last ones."""
        if state["n_iter"] == 1:
            state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1)
            return grad.neg()
        y, s = grad.sub(state["prev_flat_grad"]), state["d"].mul(state["t"])
        ys = float(y.dot(s))
        if ys > 1e-10:
            if len(state["old_dirs"]) == history:
                for name in ("old_dirs", "old_stps", "ro"):
                    state[name].pop(0)
            state["old_dirs"].append(y)
            state["old_stps"].append(s)
            state["ro"].append(1.0 / ys)
            state["H_diag"] = ys / float(y.dot(y))
        dirs, steps, ro = state["old_dirs"], state["old_stps"], state["ro"]
        alphas, q = [0.0] * len(dirs), grad.neg()
        for k in range(len(dirs) - 1, -1, -1):
            alphas[k] = float(steps[k].dot(q)) * ro[k]
            q.add_(dirs[k], alpha=-alphas[k])
        direction = q.mul(state["H_diag"])
        for k in range(len(dirs)):
            direction.add_(steps[k], alpha=alphas[k] - float(dirs[k].dot(direction)) * ro[k])
        return direction

    def step(self, closure):
        """Up to max_iter steps; `closure` clears the gradients, computes the loss and its gradients and returns it. The
        first loss is returned."""
        with no_grad():
            return self._step(enable_grad()(closure))

    def _step(self, closure):
        group, state = self.param_groups[0], self.state[self._params[0]]
        search, most = group["line_search_fn"], group["max_eval"]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first = closure()
        loss, calls, iterations = float(first), 1, 0
        state["func_evals"] += 1
        grad = self._gradient()
        if float(grad.abs().max()) <= group["tolerance_grad"]:
            return first
        while iterations < group["max_iter"]:
            iterations += 1
            state["n_iter"] += 1
            direction = self._direction(state, grad, group["history_size"])
            before, state["prev_flat_grad"], state["prev_loss"] = loss, grad.clone(), loss
            rate = float(group["lr"])
            start = min(1.0, 1.0 / float(grad.abs().sum())) * rate if state["n_iter"] == 1 else rate
            slope, state["d"], state["t"] = float(grad.dot(direction)), direction, start
            if slope > -group["tolerance_change"]:
                break
            used = 0
            if search is not None:
                if search != "strong_wolfe":
                    raise RuntimeError("only 'strong_wolfe' is supported")
                kept = [p.clone(memory_format=_C.contiguous_format) for p in self._params]
                evaluate = self._evaluate(closure, kept, direction)
                length = float(direction.abs().max())
                left = most - calls
                loss, grad, state["t"], used = _search(evaluate, start, loss, grad, slope, length, left)
                self._move(state["t"], direction)
            else:
                self._move(start, direction)
                if iterations != group["max_iter"]:
                    loss, used = float(closure()), 1
                    grad = self._gradient()
            calls += used
            state["func_evals"] += used
            if iterations == group["max_iter"] or calls >= most:
                break
            if float(grad.abs().max()) <= group["tolerance_grad"]:
                break
            if float(direction.mul(state["t"]).abs().max()) <= group["tolerance_change"]:
                break
            if abs(loss - before) < group["tolerance_change"]:
                break
        return first
