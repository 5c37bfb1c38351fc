"""torch.func.functionalize: a function whose writes a trace does not see."""

from functools import wraps

_REMOVES = """functionalize(f, remove='mutations'): received invalid argument for remove={}. Valid options are:
     remove='mutations': all inplace and out= operators will be removed from the program, and replaced with their \
out-of-place equivalents.
     remove='mutations_and_views': In addition to the above, all aliasing operators {{view}} will be replaced with
     their \\ non-aliasing counterparts, {{view}}_copy.
"""


def functionalize(func, *, remove: str = "mutations"):
    """`func`, which gives the same results and writes its arguments as before. Where make_fx traces it, each write
    becomes a new value, and what is written into an argument is one copy_ at the end.
    remove="mutations_and_views" is not there."""

    @wraps(func)
    def wrapped(*args, **kwargs):
        from ..fx.experimental.proxy_tensor import _module, _record, is_fx_tracing

        if remove == "mutations_and_views":
            raise NotImplementedError(
                "functionalize: remove='mutations_and_views' is not there: views stay as they are"
            )
        if remove != "mutations":
            raise RuntimeError(_REMOVES.format(remove))
        if not is_fx_tracing():
            return func(*args, **kwargs)
        if any(isinstance(arg, (list, tuple, dict)) for arg in args):
            raise NotImplementedError("functionalize: nested arguments are not there yet; give the tensors one by one")
        names = [f"arg{k}" for k in range(len(args))]
        graph, result = _record(lambda *given: func(*given, **kwargs), args, tuple(names), "real")
        graph.functionalise()
        return _module(graph, result, args, names, "functionalized")(*args)

    return wrapped
