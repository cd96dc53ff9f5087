"""One judgement for all interception points."""

from __future__ import annotations

from abc import abstractmethod
from typing import Generic, TypeVar

from hookbus_interceptors.authoring import (
    Context,
    Verdict,
    agent_shutdown,
    agent_startup,
    input,
    output,
    post_model_call,
    post_tool_call,
    pre_model_call,
    pre_tool_call,
)
from hookbus_interceptors.configuration import Configuration
from hookbus_interceptors.configured import Configured

C = TypeVar("C", bound=Configuration)


class EveryPoint(Configured[C], Generic[C]):
    """An interceptor that answers at every point with :meth:`judge`. A fleet narrows it with ``points``."""

    @abstractmethod
    def judge(self, context: Context) -> Verdict:
        """Return the verdict for *context*."""

    def _judge(self, context: Context) -> Verdict:
        return self.judge(context)

    _at_agent_startup = agent_startup(_judge)
    _at_input = input(_judge)
    _at_pre_model_call = pre_model_call(_judge)
    _at_post_model_call = post_model_call(_judge)
    _at_pre_tool_call = pre_tool_call(_judge)
    _at_post_tool_call = post_tool_call(_judge)
    _at_output = output(_judge)
    _at_agent_shutdown = agent_shutdown(_judge)
