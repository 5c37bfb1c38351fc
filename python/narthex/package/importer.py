"""torch.package's names by the place where PyTorch defines them."""

from . import Importer as Importer
from . import ObjMismatchError as ObjMismatchError
from . import ObjNotFoundError as ObjNotFoundError
from . import OrderedImporter as OrderedImporter
from . import sys_importer as sys_importer
