"""``hookbus interceptor``: what an author of interceptors runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hookbus_interceptors.scaffold.writing import write_interceptor

app = typer.Typer(help="Write interceptors.", no_args_is_help=True)


@app.callback()
def interceptor() -> None:
    """Write interceptors."""


@app.command()
def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Which agents ask by, such as no-drops.")],
    folder: Annotated[Path, typer.Option("--dir", help="Where to write; made if it is not there.")] = Path(),
) -> None:
    """Write an interceptor that works, its test and its configuration."""
    module, test, configuration = write_interceptor(name, folder)
    for path in (module, test, configuration):
        typer.echo(f"wrote {path}")
    class_name = "".join(part.capitalize() for part in module.stem.split("_"))
    typer.echo(f"\ntest it:  cd {folder} && python -m pytest {test.name}")
    typer.echo(
        f"run it:   cd {folder} && hookbus worker run {module.stem}:{class_name} --name {name} "
        f"--interceptor-config {configuration.name}"
    )
