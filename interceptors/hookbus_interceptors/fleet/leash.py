"""Runs a command that is told to end when whoever holds the leash is gone, however that happened.

The leash is standard input: it ends when its holder does, and then the command gets SIGTERM, once, so that
workers drain and none stays behind with a policy that nobody looks after. (The kernel's own signal for the death
of a parent comes once for each of its threads, and a worker ends at once at the second.) It is run by its path,
and imports nothing of ours.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading


def leashed(command: list[str]) -> list[str]:
    """Return the command line that runs *command* on a leash."""
    return [sys.executable, "-I", "-S", __file__, *command]


def _main(*command: str) -> None:
    # Held back until there is somebody to hand it on to.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    no_input = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
    child = os.posix_spawn(command[0], command, os.environ, file_actions=[no_input], setsigmask=[])

    def tell_to_end() -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGTERM)

    def wait_for_the_end_of_the_leash() -> None:
        while os.read(0, 1024):
            pass
        tell_to_end()

    signal.signal(signal.SIGTERM, lambda _number, _frame: tell_to_end())
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    threading.Thread(target=wait_for_the_end_of_the_leash, daemon=True).start()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status < 0:
        # End as it ended, so that whoever looks sees the signal.
        if -status != signal.SIGKILL:
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


if __name__ == "__main__":
    _main(*sys.argv[1:])
