"""torchair's capture-and-replay graph: src/replay in Narthex."""

from . import fx2acl_converter as fx2acl_converter
