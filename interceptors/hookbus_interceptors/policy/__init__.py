"""``policy``: rules as code. What no rule permits is denied.

``policy.interceptor:Policy`` takes rules in CEL from one file. ``policy.agent_control:AgentControlPolicy`` takes
Rego and Cedar through ``agent-control-spec``, in a worker environment of its own. Neither needs the other's
library, so nothing is imported here.
"""
