"""torchair's engine graph: src/engine in Narthex."""

from . import fx2ge_converter as fx2ge_converter
from . import ge_ir_pb2 as ge_ir_pb2
