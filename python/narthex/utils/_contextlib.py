"""Context managers that are decorators, too: around a function for each of its calls, around a generator for each of
its steps."""

import functools
import inspect
import warnings


def _wrap_generator(ctx_factory, func):
    """A generator function whose steps run inside of a context of their own each."""

    @functools.wraps(func)
    def steps(*args, **kwargs):
        generator = func(*args, **kwargs)
        step, given = generator.send, None
        try:
            while True:
                with ctx_factory():
                    made = step(given)
                try:
                    step, given = generator.send, (yield made)
                except GeneratorExit:
                    with ctx_factory():
                        generator.close()
                    raise
                except BaseException as error:  # noqa: BLE001 (the generator's to handle)
                    step, given = generator.throw, error
        except StopIteration as end:
            return end.value

    return steps


def context_decorator(ctx, func):
    """`func` inside of a context at each call: `ctx` itself, or what it gives where it is a function or a class."""
    if callable(ctx) and hasattr(ctx, "__enter__"):
        raise AssertionError(f"{ctx} is a context manager that can be called, too: pass lambda: ctx or lambda: ctx()")
    factory = ctx if callable(ctx) else lambda: ctx
    if inspect.isclass(func):
        raise RuntimeError("Cannot decorate classes: decorate the methods that are to run inside of the context")
    if inspect.isgeneratorfunction(func):
        return _wrap_generator(factory, func)

    @functools.wraps(func)
    def inside(*args, **kwargs):
        with factory():
            return func(*args, **kwargs)

    return inside


class _DecoratorContextManager:
    """A context manager that decorates functions; each call has a clone of it."""

    def __call__(self, orig_func):
        if inspect.isclass(orig_func):
            text = "Decorating classes is deprecated: decorate __init__, which is what this does"
            warnings.warn(text, FutureWarning, stacklevel=2)
            func = lambda *args, **kwargs: orig_func(*args, **kwargs)  # noqa: E731
        else:
            func = orig_func
        return context_decorator(self.clone, func)

    def __enter__(self):
        raise NotImplementedError

    def __exit__(self, exc_type, exc_value, traceback):
        raise NotImplementedError

    def clone(self):
        """One like it, with no arguments; a class that has some overrides this."""
        return self.__class__()


class _NoParamDecoratorContextManager(_DecoratorContextManager):
    """One without arguments: the class itself decorates."""

    def __new__(cls, orig_func=None):
        if orig_func is None:
            return super().__new__(cls)
        return cls()(orig_func)
