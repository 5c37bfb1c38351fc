"""torch.package's names by the place where PyTorch defines them."""

from . import PackageImporter as PackageImporter
