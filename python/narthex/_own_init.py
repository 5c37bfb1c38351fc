"""Constructors that classes share, under the name of each: what is wrong with arguments is told of the class called."""


def own_init(*classes: type) -> None:
    """Each of `classes` gets a copy of the `__init__` that it inherits, named as if it stood in the class."""
    for cls in classes:
        given = cls.__init__
        own = type(given)(given.__code__, given.__globals__, given.__name__, given.__defaults__, given.__closure__)
        own.__kwdefaults__, own.__annotations__ = given.__kwdefaults__, given.__annotations__
        own.__qualname__, own.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
        cls.__init__ = own
