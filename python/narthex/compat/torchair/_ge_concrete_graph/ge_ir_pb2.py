"""ModelDef in Python: not there yet; C programs save and load model files with nx_session_save and nx_session_load."""

from ...._later import names

globals().update(
    names("torchair._ge_concrete_graph.ge_ir_pb2", "use nx_session_save and nx_session_load", ("ModelDef",))
)
