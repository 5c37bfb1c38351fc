"""CompilerConfig: torchair's options by name. The table below is all of them.

An unknown name raises AttributeError and a value that the option does not allow raises ValueError. Of the known options
some act (USED), some are wishes about how to compile that change no result and are not needed here (NO_EFFECT: setting
one warns), some ask for something that is not there yet (LATER: setting one to anything but its default raises).
An option that belongs to the other mode warns when the backend is made.
"""

USED, NO_EFFECT, LATER = "used", "no effect", "later"
REPLAY, ENGINE, BOTH = "reduce-overhead", "max-autotune", None
_BOOL, _TEXT, _COUNT, _FUNCTION = (True, False), str, int, "function"

# path: (default, allowed values or type, state, mode that it belongs to)
OPTIONS = {
    "mode": ("max-autotune", ("max-autotune", "reduce-overhead"), USED, BOTH),
    "post_grad_custom_pre_pass": (None, _FUNCTION, LATER, BOTH),
    "post_grad_custom_post_pass": (None, _FUNCTION, LATER, BOTH),
    "debug.graph_dump.type": (None, ("py", "txt", "pbtxt"), USED, BOTH),
    "debug.graph_dump.path": ("./", _TEXT, USED, BOTH),
    "debug.data_dump.type": (None, ("npy",), LATER, BOTH),
    "debug.data_dump.path": ("./", _TEXT, LATER, BOTH),
    "debug.fx_summary.type": (None, ("csv",), LATER, BOTH),
    "debug.run_eagerly": (False, _BOOL, USED, BOTH),
    "debug.aclgraph.disable_reinplace_inplaceable_ops_pass": (False, _BOOL, NO_EFFECT, REPLAY),
    "debug.aclgraph.disable_reinplace_input_mutated_ops_pass": (False, _BOOL, NO_EFFECT, REPLAY),
    "debug.aclgraph.disable_mempool_reuse_in_same_fx": (False, _BOOL, NO_EFFECT, REPLAY),
    "debug.aclgraph.enable_output_clone": (False, _BOOL, NO_EFFECT, REPLAY),
    "debug.aclgraph.static_capture_size_limit": (64, _COUNT, NO_EFFECT, REPLAY),
    "debug.aclgraph.clone_input": (True, _BOOL, NO_EFFECT, REPLAY),
    "debug.aclgraph.remove_cat_ops": (True, _BOOL, NO_EFFECT, REPLAY),
    "export.export_mode": (False, _BOOL, LATER, ENGINE),
    "export.export_path_dir": (None, _TEXT, LATER, ENGINE),
    "export.export_name": ("", _TEXT, LATER, ENGINE),
    "export.weight_name": (None, _TEXT, LATER, ENGINE),
    "dump_config.enable_dump": (False, _BOOL, LATER, ENGINE),
    "dump_config.dump_path": ("./", _TEXT, LATER, ENGINE),
    "dump_config.dump_mode": ("all", ("input", "output", "all"), LATER, ENGINE),
    "dump_config.dump_step": ("", _TEXT, LATER, ENGINE),
    "dump_config.dump_layer": ("", _TEXT, LATER, ENGINE),
    "dump_config.dump_data": ("tensor", ("tensor", "stats"), LATER, ENGINE),
    "fusion_config.fusion_switch_file": (None, _TEXT, LATER, ENGINE),
    "inference_config.dynamic_gears_merge_policy": ("zip", ("zip", "product"), LATER, ENGINE),
    "ge_config.enable_single_stream": (False, _BOOL, NO_EFFECT, ENGINE),
    "ge_config.oo_level": ("O3", ("O1", "O3"), NO_EFFECT, ENGINE),
    "ge_config.oo_constant_folding": (None, _BOOL, NO_EFFECT, ENGINE),
    "ge_config.oo_dead_code_elimination": (None, _BOOL, NO_EFFECT, ENGINE),
    "ge_config.export_compile_stat": (None, ("0", "1", "2"), LATER, ENGINE),
    "ge_config.optimization_switch": (None, _TEXT, LATER, ENGINE),
    "experimental_config.cc_parallel_enable": (False, _BOOL, NO_EFFECT, ENGINE),
    "experimental_config.keep_inference_input_mutations": (True, _BOOL, NO_EFFECT, BOTH),
    "experimental_config.memory_efficiency": (False, _BOOL, NO_EFFECT, ENGINE),
    "experimental_config.frozen_parameter": (False, _BOOL, NO_EFFECT, ENGINE),
    "experimental_config.static_model_ops_lower_limit": (None, _COUNT, NO_EFFECT, ENGINE),
    "experimental_config.jit_compile": ("auto", ("auto",), NO_EFFECT, ENGINE),
    "experimental_config.npu_fx_pass": (False, _BOOL, NO_EFFECT, BOTH),
    "experimental_config.aot_config_enable_joint_graph": (False, _BOOL, LATER, BOTH),
    "experimental_config.aot_config_output_loss_index": (0, _COUNT, LATER, BOTH),
    "experimental_config.topology_sorting_strategy": ("DFS", ("BFS", "DFS", "RDFS", "StableRDFS"), NO_EFFECT, ENGINE),
    "experimental_config.enable_ref_data": (False, _BOOL, NO_EFFECT, ENGINE),
    "experimental_config.enable_view_optimize": (True, _BOOL, NO_EFFECT, BOTH),
    "experimental_config.remove_noop_ops": (True, _BOOL, NO_EFFECT, BOTH),
    "experimental_config.tiling_schedule_optimize": (False, _BOOL, NO_EFFECT, ENGINE),
    "experimental_config.pattern_fusion_pass": (True, _BOOL, NO_EFFECT, BOTH),
    "aclgraph_config.use_custom_pool": (None, object, LATER, REPLAY),
    "aoe_config.aoe_mode": (None, ("1", "2"), LATER, ENGINE),
    "aoe_config.work_path": ("./", _TEXT, LATER, ENGINE),
    "aoe_config.aoe_config_file": (None, _TEXT, LATER, ENGINE),
}  # fmt: skip


def _check(path: str, value) -> None:
    default, allowed, state, _ = OPTIONS[path]
    if value is None and default is None:
        return
    if isinstance(allowed, tuple):
        fits = any(value == choice and type(value) is type(choice) for choice in allowed)
        expected = "one of " + ", ".join(map(repr, allowed))
    elif allowed is _FUNCTION:
        fits, expected = callable(value), "a function"
    else:
        fits, expected = (
            isinstance(value, allowed) and not (allowed is int and isinstance(value, bool)),
            f"a {allowed.__name__}",
        )
    if not fits:
        raise ValueError(f"CompilerConfig.{path} is {value!r}; it must be {expected}")
    if state == LATER and value != default:
        raise NotImplementedError(f"CompilerConfig.{path} = {value!r} is not there yet; leave it at {default!r}")
    if path == "debug.graph_dump.type" and value == "pbtxt":
        raise NotImplementedError("CompilerConfig.debug.graph_dump.type = 'pbtxt' is not there yet; use 'py' or 'txt'")
    if state == NO_EFFECT and value != default:
        from warnings import warn

        warn(f"CompilerConfig.{path} = {value!r} changes nothing in Narthex", stacklevel=4)


class Options:
    """A group of options. Reading gives values or groups; only names of the table can be set."""

    def __init__(self, prefix: str = "", values=None) -> None:
        object.__setattr__(self, "_prefix", prefix)
        object.__setattr__(self, "_values", {} if values is None else values)

    def __getattr__(self, name: str):
        path = self._prefix + name
        if path in OPTIONS:
            return self._values.get(path, OPTIONS[path][0])
        if not name.startswith("__") and any(known.startswith(path + ".") for known in OPTIONS):
            return Options(path + ".", self._values)
        raise AttributeError(self._unknown(name))

    def __setattr__(self, name: str, value) -> None:
        path = self._prefix + name
        if path not in OPTIONS:
            raise AttributeError(self._unknown(name))
        _check(path, value)
        self._values[path] = value

    def _unknown(self, name: str) -> str:
        near = sorted(
            {known[len(self._prefix) :].partition(".")[0] for known in OPTIONS if known.startswith(self._prefix)}
        )
        return f"CompilerConfig has no option '{self._prefix}{name}'; there are {', '.join(near)}"

    def __dir__(self) -> list:
        return sorted(
            {known[len(self._prefix) :].partition(".")[0] for known in OPTIONS if known.startswith(self._prefix)}
        )

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{path}={value!r}" for path, value in sorted(self._values.items()) if path.startswith(self._prefix)
        )
        return f"{type(self).__name__}({shown})"


class CompilerConfig(Options):
    """All options at their defaults; set them by attribute: `config.mode = "reduce-overhead"`."""

    def __init__(self) -> None:
        super().__init__()

    def warn_about_mode(self) -> None:
        """Warns about options that were set and belong to the other mode."""
        from warnings import warn

        for path, value in self._values.items():
            mode = OPTIONS[path][3]
            if mode is not None and mode != self.mode and value != OPTIONS[path][0]:
                warn(
                    f"CompilerConfig.{path} belongs to mode '{mode}' and is ignored in mode '{self.mode}'", stacklevel=3
                )
