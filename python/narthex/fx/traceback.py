"""What new nodes are told of the program that they come from."""

from contextlib import contextmanager

_meta: dict = {}


@contextmanager
def preserve_node_meta(enable: bool = True):
    """with preserve_node_meta(): what set_current_meta says holds for what is traced."""
    yield


@contextmanager
def set_current_meta(node, pass_name: str = ""):
    """with set_current_meta(node): its meta is the current one."""
    global _meta
    before, _meta = _meta, dict(node.meta)
    try:
        yield
    finally:
        _meta = before


def get_current_meta() -> dict:
    """The current meta."""
    return _meta


def has_preserved_node_meta() -> bool:
    """Whether a meta is set."""
    return bool(_meta)


def format_stack() -> list:
    """The lines of the place that the current node comes from, else of this call."""
    import traceback

    return [_meta["stack_trace"]] if "stack_trace" in _meta else traceback.format_list(traceback.extract_stack()[:-1])
