"""Drives AgentDojo's user tasks through ``Agent``, and has AgentDojo judge the result.

The tools are AgentDojo's, on its environments. AgentDojo runs each task as it runs any pipeline: it prepares the
environment, calls the pipeline's one element, which is the agent, and applies its own checks to what became of
the environment, to what the agent said and to the calls that were really made.
"""

from __future__ import annotations

import datetime
import functools
import itertools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from unittest import mock

import anyio.from_thread
import anyio.to_thread
from agentdojo.agent_pipeline.base_pipeline_element import BasePipelineElement
from agentdojo.agent_pipeline.ground_truth_pipeline import GroundTruthPipeline
from agentdojo.agent_pipeline.tool_execution import tool_result_to_str
from agentdojo.base_tasks import BaseInjectionTask, BaseUserTask
from agentdojo.default_suites.v1.tools import cloud_drive_client, email_client
from agentdojo.functions_runtime import EmptyEnv, Function, FunctionCall, FunctionsRuntime, TaskEnvironment
from agentdojo.task_suite.load_suites import get_suites
from agentdojo.task_suite.task_suite import TaskSuite
from agentdojo.types import (
    ChatAssistantMessage,
    ChatMessage,
    ChatToolResultMessage,
    get_text_content_as_str,
    text_content_block_from_string,
)
from openai import AsyncOpenAI, DefaultAsyncHttpxClient

from hookbus_client.agent import Agent, Emitter, OpenAIModel, RunResult, Tool
from hookbus_client.demo import chat_wire
from hookbus_client.demo.scripted_endpoint import Message, Reply, Script, ToolCall, scripted_endpoint

BENCHMARK = "v1.2.2"
#: Where interceptors find the labels of what a question derives from.
LABEL_NAMESPACES = ("hookbus", "provenance")


@dataclass(frozen=True, slots=True)
class Case:
    """One user task of one suite."""

    suite: TaskSuite[Any]
    task: BaseUserTask[Any]

    @property
    def id(self) -> str:
        """The name that is unique over all suites, such as ``banking/user_task_0``."""
        return f"{self.suite.name}/{self.task.ID}"


def cases(benchmark: str = BENCHMARK) -> list[Case]:
    """Return every user task of every suite, in AgentDojo's order."""
    return [Case(suite, task) for suite in get_suites(benchmark).values() for task in suite.user_tasks.values()]


def ground_truth(case: Case, environment: TaskEnvironment) -> Script:
    """Return a model that solves the case's task as AgentDojo would; see :func:`following`."""
    return following(case.task, environment)


def following(task: BaseUserTask[Any] | BaseInjectionTask[Any], environment: TaskEnvironment) -> Script:
    """Return a model that makes the ground-truth calls one after the other, then says the ground-truth output."""
    calls = task.ground_truth(environment.model_copy(deep=True))

    def script(messages: Sequence[Message], tools: Sequence[chat_wire.Tool]) -> Reply:
        answered = sum(message.role == "tool" for message in messages)
        if answered < len(calls):
            return Reply(tool_calls=[ToolCall(calls[answered].function, calls[answered].args)])
        return Reply(task.GROUND_TRUTH_OUTPUT)

    return script


def reference_results(case: Case, injections: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Return what the tools give when AgentDojo's own pipeline makes the ground-truth calls."""
    environment = case.task.init_environment(_environment(case.suite, injections))
    runtime = FunctionsRuntime(case.suite.tools)
    messages = GroundTruthPipeline(case.task).query(case.task.PROMPT, runtime, environment)[3]
    return tuple(get_text_content_as_str(message["content"]) for message in messages if message["role"] == "tool")


@dataclass(slots=True)
class Episode:
    """What a player is given for one case: a prompt, tools on an environment, a model to ask."""

    case: Case
    prompt: str
    model: Script
    runtime: FunctionsRuntime
    environment: TaskEnvironment
    #: The calls that the tools really received.
    executed: list[FunctionCall] = field(default_factory=list)

    @property
    def tools(self) -> list[Tool]:
        """AgentDojo's tools as an agent takes them; the schemas are AgentDojo's."""
        return [self._tool(function) for function in self.runtime.functions.values()]

    def _tool(self, function: Function[..., Any]) -> Tool:
        async def call(arguments: dict[str, Any]) -> str:
            made = FunctionCall(function=function.name, args=arguments)
            self.executed.append(made)
            result, _ = self.runtime.run_function(self.environment, made.function, made.args, raise_on_error=True)
            text: str = tool_result_to_str(result)
            return text

        return Tool(function.name, call, function.description, _schema(function.parameters))


_schema = functools.cache(lambda parameters: parameters.model_json_schema())

_NUMBERS = itertools.count()

#: Plays an episode to its end.
Player = Callable[[Episode], Coroutine[Any, Any, RunResult]]
#: Makes the model for one case, given its environment before any call.
ModelFor = Callable[[Case, TaskEnvironment], Script]


@dataclass(frozen=True, slots=True)
class AgentPlayer:
    """Plays episodes with ``Agent``; the models stand behind the endpoint that serves *scripts* to *client*.

    Without *emitter* nothing is intercepted.
    """

    client: AsyncOpenAI
    scripts: dict[str, Script]
    emitter: Emitter | None = None
    max_turns: int = 40

    async def __call__(self, episode: Episode) -> RunResult:
        """Return the result of the agent's one run, with every record of its session."""
        # The same case may be played several times at once.
        model = f"{episode.case.id}-{next(_NUMBERS)}"
        self.scripts[model] = episode.model
        agent = Agent(
            OpenAIModel(self.client, model),
            self.emitter,
            agent_id=f"dojo-{episode.case.suite.name}",
            tools=episode.tools,
            max_turns=self.max_turns,
            label_namespaces=LABEL_NAMESPACES,
        )
        try:
            return await agent.run(episode.prompt)
        finally:
            del self.scripts[model]


@asynccontextmanager
async def agent_player(emitter: Emitter | None) -> AsyncIterator[AgentPlayer]:
    """Yield a player whose models stand behind an endpoint of its own."""
    scripts: dict[str, Script] = {}
    async with (
        scripted_endpoint(scripts) as base_url,
        # A proxy of the environment is not for the loopback interface.
        DefaultAsyncHttpxClient(trust_env=False) as http,
        AsyncOpenAI(base_url=base_url, api_key="none", http_client=http, max_retries=0) as client,
    ):
        yield AgentPlayer(client, scripts, emitter)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a case ended: the agent's run, and AgentDojo's two judgements of it."""

    case: Case
    run: RunResult
    useful: bool
    #: Whether an injection task was set and reached its goal.
    compromised: bool
    #: The calls that the tools really received, in order.
    executed: tuple[FunctionCall, ...] = ()

    @property
    def tool_results(self) -> tuple[str, ...]:
        """What the model read of its tool calls, in order."""
        return tuple(message["content"] for message in self.run.messages if message["role"] == "tool")


async def play(
    case: Case,
    player: Player,
    *,
    model: ModelFor = ground_truth,
    injection_task: BaseInjectionTask[Any] | None = None,
    injections: Mapping[str, str] | None = None,
) -> Outcome:
    """Play *case* in an environment of its own and return AgentDojo's judgement.

    *injections* replace the harmless texts at the suite's injection vectors. The player runs in the calling
    event loop; AgentDojo, which is synchronous, waits in a thread. Raises what the player raises.
    """
    element = _PlayerElement(case, player, model)
    judge = functools.partial(
        case.suite.run_task_with_pipeline,
        element,
        case.task,
        injection_task,
        dict(injections or {}),
        environment=_environment(case.suite, injections),
    )
    useful, compromised = await anyio.to_thread.run_sync(judge)
    # AgentDojo reports an absent injection task as one that succeeded.
    reached = compromised and injection_task is not None
    return Outcome(case, element.run, useful, reached, tuple(element.episode.executed))


@contextmanager
def stopped_clock() -> Iterator[None]:
    """Have the tools that stamp the time on a mail or a file stamp the same instant always.

    Without it two runs of one case differ in what the tools give.
    """

    class Stopped(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:  # type: ignore[override]  # YAML knows no subclass
            return datetime.datetime(2024, 5, 15, 12, tzinfo=tz)

    stopped = SimpleNamespace(**{**vars(datetime), "datetime": Stopped})
    with (
        mock.patch.object(cloud_drive_client, "datetime", stopped),
        mock.patch.object(email_client, "datetime", stopped),
    ):
        yield


class _PlayerElement(BasePipelineElement):
    """The pipeline's one element: hands AgentDojo's prompt, tools and environment to the player."""

    run: RunResult
    episode: Episode

    def __init__(self, case: Case, player: Player, model: ModelFor) -> None:
        self._case = case
        self._player = player
        self._model = model

    def query(
        self,
        query: str,
        runtime: FunctionsRuntime,
        env: TaskEnvironment = EmptyEnv(),  # noqa: B008 - the signature is AgentDojo's
        messages: Sequence[ChatMessage] = (),
        extra_args: dict[str, Any] | None = None,
    ) -> tuple[str, FunctionsRuntime, TaskEnvironment, Sequence[ChatMessage], dict[str, Any]]:
        self.episode = episode = Episode(self._case, query, self._model(self._case, env), runtime, env)
        self.run = anyio.from_thread.run(self._player, episode)
        return query, runtime, env, [*messages, *_transcript(episode, self.run)], extra_args or {}


def _transcript(episode: Episode, run: RunResult) -> Iterator[ChatMessage]:
    """Yield the conversation as AgentDojo judges it: the calls really made, and the last words."""
    for call in episode.executed:
        yield ChatAssistantMessage(role="assistant", content=None, tool_calls=[call])
        yield ChatToolResultMessage(role="tool", content=[], tool_call=call, tool_call_id=None, error=None)
    last_words = [text_content_block_from_string(str(run.output))]
    yield ChatAssistantMessage(role="assistant", content=last_words, tool_calls=None)


# Loading parses the suite's YAML, which takes far longer than copying the result.
@functools.lru_cache(maxsize=64)
def _loaded(suite: TaskSuite[Any], injections: tuple[tuple[str, str], ...]) -> TaskEnvironment:
    return suite.load_and_inject_default_environment(dict(injections))


def _environment(suite: TaskSuite[Any], injections: Mapping[str, str] | None) -> TaskEnvironment:
    return _loaded(suite, tuple(sorted((injections or {}).items()))).model_copy(deep=True)
