"""torch.cpu beside PyTorch's."""

from __future__ import annotations

import narthex as nt
from both import LIBS


def test_names_and_answers() -> None:
    ours, theirs = (
        (lib.cpu.is_available(), lib.cpu.is_initialized(), lib.cpu.device_count(), lib.cpu.current_device(),
         lib.cpu.synchronize(), lib.cpu.set_device("cpu"))
        for lib in LIBS
    )  # fmt: skip
    assert ours == theirs
    for lib in LIBS:
        stream, before = lib.cpu.Stream(), lib.cpu.current_stream()
        with lib.cpu.stream(stream):
            assert lib.cpu.current_stream() is stream
        assert lib.cpu.current_stream() is before
        stream.wait_stream(before)
        event = lib.cpu.Event()
        event.record()
        assert event.query()


def test_autocast_by_its_older_name() -> None:
    for lib in LIBS:
        with lib.cpu.amp.autocast():
            assert (lib.ones(2, 2) @ lib.ones(2, 2)).dtype == lib.bfloat16
    for lib in LIBS:
        assert issubclass(lib.cpu.amp.GradScaler, lib.amp.GradScaler)


def test_memory() -> None:
    before = nt.cpu.memory_allocated()
    x = nt.zeros(1 << 20)
    assert nt.cpu.memory_allocated() - before == 4 << 20 <= nt.cpu.max_memory_allocated()
    assert nt.cpu.memory_reserved() >= nt.cpu.memory_allocated()
    del x
    nt.cpu.reset_peak_memory_stats()
    assert nt.cpu.max_memory_allocated() == nt.cpu.memory_allocated() == before
