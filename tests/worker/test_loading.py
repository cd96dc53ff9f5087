"""``package.module:attr`` on a command line: what it finds, and what it says when it does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from hookbus_interceptors import InterceptorNotFound
from hookbus_interceptors.loading import load
from tests.worker import interceptors


def test_a_target_is_the_attribute_of_its_module() -> None:
    assert load("tests.worker.interceptors:Deny") is interceptors.Deny
    assert load("tests.worker.interceptors:Deny.intercept") is interceptors.Deny.intercept


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("tests.worker.interceptors", "not of the form package.module:attr"),
        (":allow", "not of the form package.module:attr"),
        ("tests.worker.interceptors:", "not of the form package.module:attr"),
        ("nowhere:allow", "there is no module 'nowhere'"),
        ("tests.nowhere:allow", "there is no module 'tests.nowhere'"),
        ("tests.worker.interceptors:allows", "has no 'allows'"),
    ],
)
def test_what_is_not_there_is_named(target: str, why: str) -> None:
    with pytest.raises(InterceptorNotFound, match=why):
        load(target)


def test_what_a_module_lacks_itself_is_not_mistaken_for_the_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "needs_something.py").write_text("import something_that_is_not_installed\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="something_that_is_not_installed") as caught:
        load("needs_something:policy")
    assert not isinstance(caught.value, InterceptorNotFound)
