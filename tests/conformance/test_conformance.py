"""The conformance kit of AGENT-HOOKS-0.1, run by its own fixture: one test a vector."""


def test_the_vector_holds_over_the_bus(agent_hooks_assert: None) -> None:
    pass
