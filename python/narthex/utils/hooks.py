"""torch.utils.hooks: what registering a hook returns."""


class RemovableHandle:
    """`remove()` takes the hook out again; also a context manager."""

    next_id = 0

    def __init__(self, hooks_dict: dict) -> None:
        self.hooks_dict = hooks_dict
        self.id = RemovableHandle.next_id
        RemovableHandle.next_id += 1

    @classmethod
    def of(cls, hooks_dict: dict, hook) -> "RemovableHandle":
        """Puts `hook` into the dict; the handle that takes it out."""
        handle = cls(hooks_dict)
        hooks_dict[handle.id] = hook
        return handle

    def remove(self) -> None:
        """Takes the hook out; a second call does nothing."""
        self.hooks_dict.pop(self.id, None)

    def __enter__(self):
        return self

    def __exit__(self, *exception) -> None:
        self.remove()
