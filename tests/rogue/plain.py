"""A generated deployment whose line and server anybody may sit on: everything but TLS."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, Self

from tests.authority.deployment import Deployment

_TLS: Final = re.compile(r"tls \{[^}]*\}\n")


class PlainDeployment(Deployment):
    """Accounts, permissions and signatures as they are generated; the server and its clients speak plainly."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        config = self.layout.server_config
        text, taken_out = _TLS.subn("", config.read_text("utf-8"))
        assert taken_out == 1
        config.write_text(text, "utf-8")

    def __enter__(self) -> Self:
        super().__enter__()
        for path in (self.layout.clients, *self.layout.folder.glob("tenants/*/*/*.toml")):
            lines = path.read_text("utf-8").replace("tls://", "nats://").splitlines(keepends=True)
            path.write_text("".join(line for line in lines if not line.startswith("tls_ca")), "utf-8")
        return self
