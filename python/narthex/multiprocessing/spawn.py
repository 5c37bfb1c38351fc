"""torch.multiprocessing.spawn: processes that run one function, joined together, whose errors are the caller's."""

import multiprocessing
import os
import signal
import sys
import tempfile
import time
import warnings
from multiprocessing.connection import wait
from types import ModuleType

__all__ = ["ProcessContext", "ProcessException", "ProcessExitedException", "ProcessRaisedException", "SpawnContext",
           "spawn", "start_processes"]  # fmt: skip


class ProcessException(Exception):
    """A process failed: `error_index` is its number among those that were started, `error_pid` the system's."""

    __slots__ = ["error_index", "error_pid"]

    def __init__(self, msg: str, error_index: int, error_pid: int) -> None:
        super().__init__(msg)
        self.msg, self.error_index, self.error_pid = msg, error_index, error_pid

    def __reduce__(self):
        return type(self), (self.msg, self.error_index, self.error_pid)


class ProcessRaisedException(ProcessException):
    """Its function raised; the message ends with the traceback."""


class ProcessExitedException(ProcessException):
    """It left with an `exit_code` other than 0, or by a signal."""

    __slots__ = ["exit_code"]

    def __init__(self, msg, error_index, error_pid, exit_code: int, signal_name: str | None = None) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name

    def __reduce__(self):
        return type(self), (self.msg, self.error_index, self.error_pid, self.exit_code, self.signal_name)


def _call(fn, i: int, args: tuple, error_file: str) -> None:
    """In the process: what fn raises goes to the file, and is status 1."""
    try:
        fn(i, *args)
    except KeyboardInterrupt:
        pass  # the parent hears of it itself
    except Exception:
        from traceback import format_exc

        with open(error_file, "w") as file:
            file.write(format_exc())
        sys.exit(1)


class ProcessContext:
    """The processes of one start_processes()."""

    def __init__(self, processes: list, error_files: list) -> None:
        self.processes, self.error_files = processes, error_files
        self.sentinels = {process.sentinel: i for i, process in enumerate(processes)}

    def pids(self) -> list:
        """Their numbers."""
        return [process.pid for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Waits until one process at least has ended, or `timeout` seconds; True when all have. A failure ends the
        others, by SIGKILL if they have not heeded SIGTERM in `grace_period` seconds (30), and is raised."""
        if not self.sentinels:
            return True
        failed = None
        for sentinel in wait(self.sentinels, timeout=timeout):
            i = self.sentinels.pop(sentinel)
            process = self.processes[i]
            process.join()
            if process.exitcode != 0 and failed is None:
                failed = i
        if failed is None:
            if not self.sentinels:
                self._forget()
            return not self.sentinels
        self._end_the_others(30.0 if grace_period is None else grace_period)
        try:
            raise self._error(failed)
        finally:
            self._forget()

    def _end_the_others(self, grace_period: float) -> None:
        until = time.monotonic() + grace_period
        for process in self.processes:
            if process.is_alive():
                process.terminate()
        for process in self.processes:
            process.join(max(0.0, until - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()
        self.sentinels.clear()

    def _error(self, i: int) -> ProcessException:
        process = self.processes[i]
        told = os.path.getsize(self.error_files[i]) > 0
        if told:
            with open(self.error_files[i]) as file:
                text = f"\n\n-- Process {i} terminated with the following error:\n{file.read()}"
            return ProcessRaisedException(text, i, process.pid)
        if process.exitcode < 0:
            try:
                name = signal.Signals(-process.exitcode).name
            except ValueError:
                name = f"<Unknown signal {-process.exitcode}>"
            text = f"process {i} terminated with signal {name}"
            return ProcessExitedException(text, i, process.pid, process.exitcode, name)
        text = f"process {i} terminated with exit code {process.exitcode}"
        return ProcessExitedException(text, i, process.pid, process.exitcode)

    def _forget(self) -> None:
        for path in self.error_files:
            if os.path.exists(path):
                os.unlink(path)


class SpawnContext(ProcessContext):
    """An older name."""


def start_processes(fn, args: tuple = (), nprocs: int = 1, join: bool = True, daemon: bool = False,
                    start_method: str = "spawn"):  # fmt: skip
    """Starts `nprocs` processes that call fn(i, *args). With `join` it waits for all and returns None; a failure ends
    all and is raised here. Else it returns their ProcessContext."""
    context = multiprocessing.get_context(start_method)
    processes, error_files = [], []
    for i in range(nprocs):
        number, path = tempfile.mkstemp(prefix="narthex-error-")
        os.close(number)
        error_files.append(path)
        process = context.Process(target=_call, args=(fn, i, args, path), daemon=daemon)
        process.start()
        processes.append(process)
    started = ProcessContext(processes, error_files)
    if not join:
        return started
    while not started.join():
        pass
    return None


def spawn(fn, args: tuple = (), nprocs: int = 1, join: bool = True, daemon: bool = False, start_method: str = "spawn"):
    """start_processes() by new interpreters."""
    if start_method != "spawn":
        warnings.warn(
            f"This method only supports start_method=spawn (got: {start_method}).\n"
            "To use a different start_method use:\n\t\t torch.multiprocessing.start_processes(...)",
            FutureWarning,
            stacklevel=2,
        )
    return start_processes(fn, args, nprocs, join, daemon, start_method)


class _Called(ModuleType):
    """Who imports this module by its full name finds it where the function of its name was: it may be called, too."""

    __call__ = staticmethod(spawn)


sys.modules[__name__].__class__ = _Called
