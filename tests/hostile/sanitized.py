"""Every scenario twice, in a process whose libraries carry the sanitizers: a report ends the process."""

from __future__ import annotations

import gc

import narthex

from tests.hostile.gpt import scenarios
from tests.hostile.scenarios import SCENARIOS

print("using", narthex.__file__)
for name, run in {**scenarios(), **SCENARIOS}.items():
    assert run() == run(), name
    gc.collect()
    print(f"{name}: ok", flush=True)
