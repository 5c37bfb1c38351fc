"""Spectral norm as a hook (Miyato et al. 2018): a weight over its largest singular value, found by power iteration."""

from ... import _C
from ...autograd.grad_mode import no_grad
from ..parameter import Parameter, UninitializedParameter
from ._norms import as_matrix, iterate, unit

__all__ = ["SpectralNorm", "remove_spectral_norm", "spectral_norm"]


class SpectralNorm:
    """The hook that makes the weight `name` from `name`_orig before each forward; `name`_u and `name`_v: the singular
    vectors, which a forward in training improves."""

    _version = 1  # of state_dicts: 0 had no `name`_v

    def __init__(self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.name, self.dim, self.n_power_iterations, self.eps = name, dim, n_power_iterations, eps

    def reshape_weight_to_matrix(self, weight):
        """The weight as a matrix."""
        return as_matrix(weight, self.dim)

    def compute_weight(self, module, do_power_iteration: bool):
        """The weight over its largest singular value."""
        weight = getattr(module, self.name + "_orig")
        u, v = getattr(module, self.name + "_u"), getattr(module, self.name + "_v")
        matrix = self.reshape_weight_to_matrix(weight)
        if do_power_iteration:
            with no_grad():
                iterate(matrix.t(), v, u, self.n_power_iterations, self.eps)
                u, v = u.clone(), v.clone()  # the next forward writes them, and this one's backward reads them
        return weight / _C.dot(u, _C.mv(matrix, v))

    def remove(self, module) -> None:
        """Makes the weight a parameter again."""
        with no_grad():
            weight = self.compute_weight(module, do_power_iteration=False)
        delattr(module, self.name)
        for part in ("_u", "_v", "_orig"):
            delattr(module, self.name + part)
        module.register_parameter(self.name, Parameter(weight.detach()))

    def __call__(self, module, inputs) -> None:
        setattr(module, self.name, self.compute_weight(module, do_power_iteration=module.training))

    def _solve_v_and_rescale(self, matrix, u, sigma):
        """The `v` of an old state_dict, which held u and the weight over its singular value."""
        inverse = _C.mm(matrix.t(), matrix).pinverse()
        v = _C.mm(_C.mm(inverse, matrix.t()), u.unsqueeze(1)).squeeze(1)
        return v.mul_(sigma / _C.dot(u, _C.mv(matrix, v)))

    @staticmethod
    def apply(module, name: str, n_power_iterations: int, dim: int, eps: float) -> "SpectralNorm":
        """Puts such a hook on `module`."""
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, SpectralNorm) and hook.name == name:
                raise RuntimeError(f"Cannot register two spectral_norm hooks on the same parameter {name}")
        made = SpectralNorm(name, n_power_iterations, dim, eps)
        weight = module._parameters[name]
        if weight is None:
            raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
        if isinstance(weight, UninitializedParameter):
            raise ValueError(
                "The module passed to `SpectralNorm` can't have uninitialized parameters. "
                "Make sure to run the dummy forward before applying spectral normalization"
            )
        with no_grad():
            height, width = made.reshape_weight_to_matrix(weight).size()
            u = unit(weight.new_empty(height).normal_(0, 1), eps)
            v = unit(weight.new_empty(width).normal_(0, 1), eps)
        delattr(module, made.name)
        module.register_parameter(made.name + "_orig", weight)
        setattr(module, made.name, weight.data)
        module.register_buffer(made.name + "_u", u)
        module.register_buffer(made.name + "_v", v)
        module.register_forward_pre_hook(made)
        module._register_state_dict_hook(_NoteVersion(made))
        module._register_load_state_dict_pre_hook(_ReadOld(made))
        return made


class _ReadOld:
    """Before a load: makes the `name`_v of a state_dict that was saved without it."""

    def __init__(self, norm: SpectralNorm) -> None:
        self.norm = norm

    def __call__(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs) -> None:
        norm, key = self.norm, prefix + self.norm.name
        version = local_metadata.get("spectral_norm", {}).get(norm.name + ".version")
        if version is not None and version >= 1:
            return
        whole = all(key + part in state_dict for part in ("_orig", "_u", "_v")) and key not in state_dict
        if version is None and whole:  # a new one, put together by hand
            return
        missing = [key + part for part in ("_orig", "", "_u") if key + part not in state_dict]
        if missing:
            if strict:
                missing_keys.extend(missing)
            return
        with no_grad():
            original = state_dict[key + "_orig"]
            sigma = (original / state_dict.pop(key)).mean()
            matrix = norm.reshape_weight_to_matrix(original)
            state_dict[key + "_v"] = norm._solve_v_and_rescale(matrix, state_dict[key + "_u"], sigma)


class _NoteVersion:
    """After a save: the version goes into the metadata."""

    def __init__(self, norm: SpectralNorm) -> None:
        self.norm = norm

    def __call__(self, module, state_dict, prefix, local_metadata) -> None:
        versions, key = local_metadata.setdefault("spectral_norm", {}), self.norm.name + ".version"
        if key in versions:
            raise RuntimeError(f"Unexpected key in metadata['spectral_norm']: {key}")
        versions[key] = self.norm._version


def _usual_dim(module) -> int:
    from ..modules import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d

    return int(isinstance(module, (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)))


def spectral_norm(module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim=None):
    """Divides the weight `name` by its largest singular value before each forward; returns the module.

    `dim`: that of the outputs; None: 0, of transposed convolutions 1.
    """
    SpectralNorm.apply(module, name, n_power_iterations, _usual_dim(module) if dim is None else dim, eps)
    return module


def remove_spectral_norm(module, name: str = "weight"):
    """Undoes spectral_norm; returns the module."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, SpectralNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            break
    else:
        raise ValueError(f"spectral_norm of '{name}' not found in {module}")
    module._hooks_changed()
    for hooks in (module._state_dict_hooks, module._load_state_dict_pre_hooks):
        for key, hook in hooks.items():
            if isinstance(hook, (_NoteVersion, _ReadOld)) and hook.norm.name == name:
                del hooks[key]
                break
    return module
