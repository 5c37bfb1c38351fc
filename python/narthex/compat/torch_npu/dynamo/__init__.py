"""torch_npu.dynamo: torchair lives here as well."""

from ... import torchair as torchair
