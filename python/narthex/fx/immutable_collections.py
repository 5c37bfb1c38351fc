"""Lists and dicts that a node's arguments consist of: what would change them raises."""

from ..utils import _pytree

_TEXT = (
    "Object of type '{}' does not support mutation. You can create a new object with the change instead, or wrap it."
)


def _refuse(self, *args, **kwargs):
    raise NotImplementedError(_TEXT.format(type(self).__name__))


class immutable_list(list):
    """A list that stays as it is."""

    append = clear = extend = insert = pop = remove = reverse = sort = _refuse
    __delitem__ = __iadd__ = __imul__ = __setitem__ = _refuse

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __reduce__(self):
        return immutable_list, (tuple(self),)


class immutable_dict(dict):
    """A dict that stays as it is."""

    clear = pop = popitem = setdefault = update = _refuse
    __delitem__ = __ior__ = __setitem__ = _refuse

    def __hash__(self) -> int:
        return hash(frozenset(self.items()))

    def __reduce__(self):
        return immutable_dict, (tuple(self.items()),)


_pytree.register_pytree_node(
    immutable_list, lambda value: (list(value), None), lambda values, context: immutable_list(values)
)
_pytree.register_pytree_node(
    immutable_dict,
    lambda value: (list(value.values()), list(value.keys())),
    lambda values, context: immutable_dict(zip(context, values)),
)
