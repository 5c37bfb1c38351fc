"""Names that PyTorch's functions share with TorchScript, which programs find in torch.nn.functional."""


class BroadcastingListCls:
    """BroadcastingList2[int] in an annotation: a number, or a list of two. It means nothing when it is run."""

    def __getitem__(self, types) -> None:
        return None


BroadcastingList1, BroadcastingList2, BroadcastingList3 = (BroadcastingListCls() for _ in range(3))


def assert_int_or_pair(arg, arg_name: str, message: str) -> None:
    """An AssertionError with the message unless it is a number or has two entries."""
    if not (isinstance(arg, int) or len(arg) == 2):
        raise AssertionError(message.format(arg_name))


def boolean_dispatch(arg_name, arg_index, default, if_true, if_false, module_name, func_name):
    """A function that calls one of two, as one of its arguments says."""
    if if_true.__doc__ is not None and if_false.__doc__ is not None:
        raise RuntimeError("only one function can have a docstring")

    def chosen(*args, **kwargs):
        says = kwargs.get(arg_name, args[arg_index] if arg_index < len(args) else default)
        return (if_true if says else if_false)(*args, **kwargs)

    chosen.__doc__ = if_true.__doc__ or if_false.__doc__
    if module_name is not None:
        chosen.__module__ = module_name
    if func_name is not None:
        chosen.__name__ = func_name
    return chosen
