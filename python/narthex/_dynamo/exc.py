"""torch._dynamo.exc: what capture raises. It has one class; what a backend raises comes through as it is."""

from .. import _C

Unsupported = _C.Unsupported
TorchDynamoException = Unsupported
