"""torch.package: archives that hold code are not written and not read. Questions are answered."""

from .._absent import getter
from .._later import names

__all__ = [
    "Directory", "EmptyMatchError", "GlobGroup", "Importer", "ObjMismatchError", "ObjNotFoundError", "OrderedImporter",
    "PackageExporter", "PackageImporter", "PackagingError", "is_from_package", "sys_importer",
]  # fmt: skip
globals().update(names("torch.package", "torch.save writes modules, torch.jit.save modules with their code", (
    "Directory", "GlobGroup", "Importer", "OrderedImporter", "PackageExporter", "PackageImporter", "sys_importer",
)))  # fmt: skip


class PackagingError(Exception):
    """A package cannot be written."""


class EmptyMatchError(Exception):
    """A pattern that has to match something matches nothing."""


class ObjNotFoundError(Exception):
    """An importer does not find an object."""


class ObjMismatchError(Exception):
    """An importer finds another object of the same name."""


def is_from_package(obj) -> bool:
    """False: nothing is read from a package."""
    return False


__getattr__ = getter("torch.package")
