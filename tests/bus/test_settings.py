"""Settings: keywords, then the environment, then a file; errors name the setting and what would be right."""

from __future__ import annotations

from pathlib import Path

import pytest

import hookbus
from hookbus.settings import read_settings


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOOKBUS_URL", "HOOKBUS_TENANT", "HOOKBUS_CREDS", "HOOKBUS_CONFIG"):
        monkeypatch.delenv(name, raising=False)


def test_a_keyword_beats_the_environment_which_beats_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "hookbus.toml"
    file.write_text('url = "nats://file:1"\ntenant = "file"\nname = "file"\n')
    monkeypatch.setenv("HOOKBUS_CONFIG", str(file))
    monkeypatch.setenv("HOOKBUS_URL", "nats://environment:1")
    monkeypatch.setenv("HOOKBUS_TENANT", "environment")
    read = read_settings(url="nats://keyword:1")
    assert (read.url, read.tenant, read.name) == ("nats://keyword:1", "environment", "file")


def test_without_any_the_defaults_are_those_of_a_local_server() -> None:
    read = read_settings()
    assert read.urls == ("nats://127.0.0.1:4222",)
    assert read.tenant == "default"


def test_several_servers_are_written_with_commas() -> None:
    assert read_settings(url="nats://a:1, nats://b:2").urls == ("nats://a:1", "nats://b:2")


def test_connect_takes_every_setting_as_a_keyword() -> None:
    bus = hookbus.connect("nats://a:1", tenant="acme", max_in_flight=7)
    assert (bus.settings.tenant, bus.settings.max_in_flight) == ("acme", 7)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"url": "http://a"}, "HOOKBUS_URL"),
        ({"url": " , "}, "name at least one server"),
        ({"tenant": "Not A Token"}, "HOOKBUS_TENANT"),
        ({"creds": "/no/such/file"}, "names a file that does not exist"),
        ({"max_in_flight": 0}, "max_in_flight"),
        ({"no_such_setting": 1}, "no_such_setting"),
    ],
)
def test_a_wrong_setting_is_named_and_its_value_is_not_told(wrong: dict[str, object], says: str) -> None:
    with pytest.raises(hookbus.SettingsInvalid) as raised:
        read_settings(**wrong)
    assert says in str(raised.value)
    assert "Not A Token" not in str(raised.value)


def test_a_file_that_is_missing_or_not_toml_is_named(tmp_path: Path) -> None:
    with pytest.raises(hookbus.SettingsInvalid, match="cannot be read"):
        read_settings(tmp_path / "missing.toml")
    (tmp_path / "bad.toml").write_text("{json}")
    with pytest.raises(hookbus.SettingsInvalid, match="is not TOML"):
        read_settings(tmp_path / "bad.toml")


def test_settings_from_a_file_are_checked_like_all_others(tmp_path: Path) -> None:
    file = tmp_path / "hookbus.toml"
    file.write_text("tenant = 5\n")
    with pytest.raises(hookbus.SettingsInvalid, match="tenant"):
        read_settings(file)


def test_a_relative_path_in_a_file_starts_from_the_files_folder(tmp_path: Path) -> None:
    (tmp_path / "agent.nk").write_text("seed")
    (tmp_path / "hookbus.toml").write_text('creds = "agent.nk"\n')
    assert read_settings(tmp_path / "hookbus.toml").creds == tmp_path / "agent.nk"
