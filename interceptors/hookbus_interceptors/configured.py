"""An interceptor that a file configures: reloaded without a restart, each question answered by one version alone.

    class RefuseTools(Configured[RefusedTools]):
        @pre_tool_call
        def judge(self, context: PreToolCallContext) -> Verdict: ...

    interceptor = RefuseTools.from_config("refuse-tools.toml")

``hookbus worker run module:RefuseTools --interceptor-config refuse-tools.toml`` makes the same object.
"""

from __future__ import annotations

import contextvars
import inspect
import logging
import os
import threading
import weakref
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, ClassVar, Final, Generic, Self, TypeVar, get_args

import anyio.to_thread
import msgspec

import hookbus
from hookbus.codec import Json
from hookbus_interceptors.authoring.decorators import Interceptor
from hookbus_interceptors.configuration import Configuration, Source, version_of
from hookbus_interceptors.current import CURRENT, CurrentQuestion

logger = logging.getLogger("hookbus.configuration")

#: How often the files are looked at.
WATCH_INTERVAL_S: Final = 1.0

C = TypeVar("C", bound=Configuration)


class Configured(Interceptor, Generic[C]):
    """An interceptor with one configuration for life; a reload makes another one.

    A subclass names its model, ``Configured[Model]``, and decorates a method for each point. It may make what is
    expensive in ``__init__``, which runs beside the questions, not between them.
    """

    #: The model that a file is checked by.
    model: ClassVar[type[Configuration]]

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        for base in getattr(cls, "__orig_bases__", ()):
            for argument in get_args(base):
                if inspect.isclass(argument) and issubclass(argument, Configuration):
                    cls.model = argument

    def __init__(self, configuration: C) -> None:
        super().__init__(policy_version=version_of(configuration))
        self.configuration = configuration

    def take_over(self, previous: Self) -> None:
        """Take from *previous*, which this one replaces, what must outlive a reload: a window, a connection.

        Called before the first question. *previous* still answers what it began.
        """

    @classmethod
    def from_config(cls, path: str | os.PathLike[str], table: str = "") -> Reloading[Self]:
        """Return the interceptor that the file at *path* describes, made anew whenever the file changes.

        Raises :class:`ConfigurationInvalid` and whatever ``__init__`` raises.
        """
        return Reloading(cls, Source(path, table))


I = TypeVar("I", bound=Configured[Any])  # noqa: E741  # as in Interceptor


class _Chosen(msgspec.Struct, frozen=True):
    """Which interceptors answer one question: for each that reloads, the one that was current when it started."""

    question: CurrentQuestion
    interceptors: dict[object, Any]


_CHOSEN: Final = contextvars.ContextVar[_Chosen]("hookbus_chosen")


class Reloading(Generic[I]):
    """The newest interceptor that the files make; whole questions are answered by one and the same.

    The files are looked at every ``WATCH_INTERVAL_S`` seconds for as long as this object is in use. When what they
    say cannot be used, the old interceptor stays, ``problem`` says why, and so does the log.
    """

    def __init__(self, kind: type[I], source: Source) -> None:
        self._kind = kind
        self._source = source
        #: Why what the files say now is not in use; None when it is.
        self.problem: str | None = None
        self._reload = threading.Lock()
        self._newest = self._make()
        self.points = self._newest.points
        self.repeat_aware = getattr(self._newest, "repeat_aware", False) is True
        if inspect.iscoroutinefunction(self._newest.intercept):
            self.intercept = self._intercept_async  # type: ignore[method-assign]  # a worker looks at which it is
        threading.Thread(
            target=_watch, args=(weakref.ref(self),), name="hookbus configuration", daemon=True
        ).start()

    @property
    def current(self) -> I:
        """The interceptor of the question that is being answered here; outside of one, the newest."""
        asked = CURRENT.get(None)
        if asked is None:
            return self._newest
        chosen = _CHOSEN.get(None)
        if chosen is None or chosen.question is not asked:
            chosen = _Chosen(asked, {})
            _CHOSEN.set(chosen)
        found: I = chosen.interceptors.setdefault(self, self._newest)
        return found

    @property
    def policy_version(self) -> str:
        """The version of :attr:`current`."""
        return self.current.policy_version or ""

    def intercept(self, context: dict[str, Json], /) -> Any:
        """Return what :attr:`current` makes of *context*."""
        return self.current.intercept(context)

    async def _intercept_async(self, context: dict[str, Json], /) -> Any:
        return await self.current.intercept(context)

    def reload(self) -> bool:
        """Look at the files now; return whether another version answers from now on. Never raises.

        From any thread. What cannot be used is logged once and tried again when it changes.
        """
        with self._reload:
            if not self._source.changed():
                return False
            try:
                made = self._make()
                made.take_over(self._newest)
            except Exception as error:  # noqa: BLE001  # whatever a new configuration breaks, the old one goes on
                # Only our own messages are known to quote nothing.
                known = isinstance(error, hookbus.HookbusError)
                self.problem = (
                    str(error) if known else f"{type(error).__name__} while {self._kind.__name__} was made"
                )
                logger.error("NOT RELOADED, %s still answers: %s", self._newest.policy_version, self.problem)
                return False
            self.problem = None
            before, self._newest = self._newest, made
            logger.warning("reloaded: %s answers instead of %s", made.policy_version, before.policy_version)
            return made.policy_version != before.policy_version

    def _make(self) -> I:
        return self._kind(self._source.read(self._kind.model).configuration)

    @asynccontextmanager
    async def lifespan(self, bus: hookbus.Connection) -> AsyncIterator[None]:
        """Hold open what the interceptor's own ``lifespan(bus)`` holds, where it has one.

        It is entered once: later versions take over from the one before.
        """
        first = self._newest
        async with AsyncExitStack() as stack:
            held = getattr(first, "lifespan", None)
            if held is not None:
                await stack.enter_async_context(held(bus))
                await anyio.to_thread.run_sync(self._hand_on, first)
            yield

    def _hand_on(self, first: I) -> None:
        # A reload while the lifespan was entered took over before there was anything to take.
        with self._reload:
            if self._newest is not first:
                self._newest.take_over(first)


def _watch(reference: weakref.ref[Reloading[Any]]) -> None:
    pause = threading.Event()
    while not pause.wait(WATCH_INTERVAL_S):
        reloading = reference()
        if reloading is None:
            return
        reloading.reload()
        del reloading
