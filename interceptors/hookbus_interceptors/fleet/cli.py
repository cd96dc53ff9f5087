"""``hookbus up``: a server and a whole fleet on this machine, until SIGTERM or Ctrl-C."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final

import anyio
import typer
from rich.console import Console

from hookbus import HookbusError
from hookbus_interceptors.fleet.leash import leashed
from hookbus_interceptors.fleet.plan import FleetPlan, read_fleet, server_command, worker_command
from hookbus_interceptors.fleet.process import Supervised
from hookbus_interceptors.fleet.rollcall import call_roll
from hookbus_interceptors.fleet.view import View

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

SERVER_READY: Final = re.compile(r"ready at (?P<url>nats://\S+:(?P<port>\d+))")
WORKER_READY: Final = re.compile(r"^ready: .*, worker (?P<worker>[0-9a-f]+), on ")


class ServerDied(HookbusError):
    """The fleet's own server did not come up; what it wrote stands above."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port
        super().__init__(f"no server on {host}:{port}; is another one there? Set port or url under [server]")


@app.callback(invoke_without_command=True)
def up(
    fleet: Annotated[Path, typer.Option(help="The file that describes the fleet.")] = Path("deploy/fleet.toml"),
) -> None:
    """Run a server and every interceptor of a fleet; a process that dies is started again.

    The first SIGTERM or Ctrl-C drains: the workers finish what they have begun, then the server ends. The second
    kills. The exit status is 0 after a drain.
    """
    anyio.run(Fleet(fleet.absolute(), read_fleet(fleet)).run)


class Fleet:
    """The fleet that *plan*, read from *path*, describes."""

    def __init__(self, path: Path, plan: FleetPlan, console: Console | None = None) -> None:
        self._path = path
        self._plan = plan
        self._port = plan.server.port
        self._url = plan.server.url
        self._draining = False
        #: None where the fleet joins a server that runs already.
        self._server = None
        if plan.server.url is None:
            self._server = self._supervised(
                "server", lambda: server_command(plan.server, self._port), SERVER_READY
            )
        self._workers = [
            self._supervised(f"{name}/{number}", self._command(name), WORKER_READY)
            for name, interceptor in plan.interceptors.items()
            for number in range(1, interceptor.workers + 1)
        ]
        self._view = View(console or Console(), [*([self._server] if self._server else []), *self._workers])

    async def run(self) -> None:
        """Run until a signal has drained or killed everything. Raises :class:`ServerDied` at the beginning."""
        with self._view.live():
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._obey_signals)
                async with anyio.create_task_group() as serving:
                    if self._server is not None:
                        serving.start_soon(self._server.run)
                        await self._join(self._server)
                    if self._url is not None:
                        await self._work(self._url)
                    # Only now: an answer that is on its way needs the server.
                    if self._server is not None:
                        self._server.drain()
                tasks.cancel_scope.cancel()
        if self._url is None and not self._draining:
            raise ServerDied(self._plan.server.host, self._port)

    async def _join(self, server: Supervised) -> None:
        if await server.settled() and server.found is not None:
            self._url = server.found["url"]
            # Whatever port it took, it takes again: the workers come back to it.
            self._port = int(server.found["port"])

    async def _work(self, url: str) -> None:
        async with anyio.create_task_group() as tasks:
            ended = anyio.Event()
            tasks.start_soon(call_roll, url, self._plan.tenant, self._view.note_policy, ended)
            async with anyio.create_task_group() as working:
                for worker in self._workers:
                    working.start_soon(worker.run)
            ended.set()

    async def _obey_signals(self) -> None:
        # SIGHUP, too: a terminal that is closed.
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
            async for _ in signals:
                for worker in self._workers:
                    worker.kill() if self._draining else worker.drain()
                if self._server is not None and (self._draining or self._url is None):
                    self._server.kill() if self._draining else self._server.drain()
                self._draining = True

    def _command(self, name: str) -> Callable[[], list[str]]:
        plan = self._plan.interceptors[name]
        return lambda: worker_command(self._path, name, plan, url=self._url, tenant=self._plan.tenant)

    def _supervised(self, name: str, command: Callable[[], list[str]], ready: re.Pattern[str]) -> Supervised:
        return Supervised(
            name,
            lambda: leashed(command()),
            ready,
            on_change=lambda process: self._view.show_change(process),
            on_line=lambda process, line: self._view.show_line(process, line),
        )
