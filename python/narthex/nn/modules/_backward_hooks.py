"""What full backward hooks of a module see: two identities round its forward, whose backwards call the hooks."""

from ... import _C
from ...autograd.function import Function
from . import _global_hooks


def _tuple(value) -> tuple:
    return value if isinstance(value, tuple) else (value,)


class _Identity(Function):
    """The tensors as they are; their gradients go through `watch(gradients)`."""

    @staticmethod
    def forward(ctx, watch, *tensors):
        ctx.watch = watch
        ctx.set_materialize_grads(False)
        return tuple(tensor.view_as(tensor) for tensor in tensors)

    @staticmethod
    def backward(ctx, *grads):
        return None, *ctx.watch(grads)


def _hooks(module, kind: str) -> list:
    """Those of all modules, then those of this one."""
    return [*_global_hooks.HOOKS[kind].values(), *module.__dict__.get(f"_{kind}_hooks", {}).values()]


def watched_call(module, args: tuple):
    """The BackwardHooks of a call of the module; None where it has no such hooks."""
    hooks, pre_hooks = _hooks(module, "backward"), _hooks(module, "backward_pre")
    return BackwardHooks(module, args, hooks, pre_hooks) if hooks or pre_hooks else None


class BackwardHooks:
    """One call of a module. `args`: what forward gets; `watch(result)`: what the caller gets."""

    def __init__(self, module, args: tuple, hooks: list, pre_hooks: list) -> None:
        self.module, self.n_args, self.hooks, self.pre_hooks = module, len(args), hooks, pre_hooks
        self.grad_output: tuple = ()
        self.watched = [k for k, arg in enumerate(args) if isinstance(arg, _C.TensorBase)]
        self.reached = _C.is_grad_enabled() and any(args[k].requires_grad for k in self.watched)
        self.args = args
        if self.reached and self.hooks:
            new = list(args)
            for k, tensor in zip(self.watched, _Identity.apply(self._inputs, *(args[k] for k in self.watched))):
                new[k] = tensor
            self.args = tuple(new)

    def watch(self, result):
        """The result with its gradients watched: of a tensor or a tuple of them; others are not."""
        if not _C.is_grad_enabled():
            return result
        values = _tuple(result)
        where = [k for k, value in enumerate(values) if isinstance(value, _C.TensorBase)]
        if not any(values[k].requires_grad for k in where):
            return result
        self.n_results, self.where = len(values), where
        new = list(values)
        for k, tensor in zip(where, _Identity.apply(self._results, *(values[k] for k in where))):
            new[k] = tensor
        if not isinstance(result, tuple):
            return new[0]
        return type(result)(*new) if hasattr(result, "_fields") else tuple(new)

    def _results(self, grads: tuple) -> tuple:
        whole = [None] * self.n_results
        for k, grad in zip(self.where, grads):
            whole[k] = grad
        self.grad_output = tuple(whole)
        for hook in self.pre_hooks:
            changed = hook(self.module, self.grad_output)
            if changed is not None:
                self._check(_tuple(changed), self.n_results, "Backward pre hook")
                self.grad_output = _tuple(changed)
        if not self.reached:  # no input has a gradient: nobody else will call
            for hook in self.hooks:
                if hook(self.module, (None,) * self.n_args, self.grad_output) is not None:
                    raise RuntimeError(
                        "Backward hook for Modules where no input requires gradient should always return None or None "
                        "for all gradients."
                    )
        return tuple(self.grad_output[k] for k in self.where)

    def _inputs(self, grads: tuple) -> tuple:
        whole = [None] * self.n_args
        for k, grad in zip(self.watched, grads):
            whole[k] = grad
        grad_input = tuple(whole)
        for hook in self.hooks:
            changed = hook(self.module, grad_input, self.grad_output)
            if changed is not None:
                self._check(_tuple(changed), self.n_args, "Backward hook")
                grad_input = _tuple(changed)
        return tuple(grad_input[k] for k in self.watched)

    @staticmethod
    def _check(values: tuple, n: int, what: str) -> None:
        if len(values) != n:
            raise RuntimeError(f"{what} returned an invalid number of grad_input, got {len(values)}, but expected {n}")
