import pytest
@pytest.fixture
def nats_url(): return ""
@pytest.fixture
def anyio_backend(): return "asyncio"
