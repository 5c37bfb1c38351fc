"""torch.package's names by the place where PyTorch defines them."""

from . import EmptyMatchError as EmptyMatchError
from . import PackageExporter as PackageExporter
from . import PackagingError as PackagingError
