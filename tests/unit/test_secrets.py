"""The store itself: whose files they are, and several writers at once."""

from __future__ import annotations

import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rlark import secrets
from rlark.errors import UsageError
from rlark.secrets import SecretStore, check_names


@pytest.fixture
def store(tmp_path: Path) -> SecretStore:
    return SecretStore(tmp_path / "home" / "secrets")


def test_it_is_its_owners_whatever_the_umask(store: SecretStore) -> None:
    before = os.umask(0)
    try:
        store.put("hub", "token", "a-value")
        store.put("hub", "other", "a-value")
        store.delete("hub", "other")
    finally:
        os.umask(before)
    assert stat.S_IMODE(store.folder.stat().st_mode) == 0o700
    assert [(file.name, stat.S_IMODE(file.stat().st_mode)) for file in store.folder.iterdir()] == [("hub.json", 0o600)]


def test_of_many_writers_none_undoes_what_another_did(store: SecretStore) -> None:
    keys = [f"key-{n}" for n in range(24)]
    with ThreadPoolExecutor(8) as pool:  # each with a store of its own, as every process has
        list(pool.map(lambda key: SecretStore(store.folder).put("hub", key, f"value-of-{key}"), keys))
    assert [store.get("hub", key) for key in keys] == [f"value-of-{key}" for key in keys]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: SecretStore(store.folder).delete("hub", key), keys[1:]))
    assert json.loads((store.folder / "hub.json").read_text()) == {"key-0": "value-of-key-0"}


def test_one_that_may_not_be_read_hides_no_other(store: SecretStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put("hub", "token", "a-value")
    store.put("theirs", "token", "a-value")
    read = secrets.read_json

    def refuse(path: Path) -> dict[str, object] | None:
        if path.stem == "theirs":
            raise PermissionError(13, "Permission denied", str(path))
        return read(path)

    monkeypatch.setattr(secrets, "read_json", refuse)
    assert [(entry.name, entry.keys) for entry in store.entries()] == [("hub", ("token",)), ("theirs", ())]
    assert ("hub", "token") in store
    assert ("theirs", "token") not in store


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "a\0", "a\n", "ü", "x" * 64])
def test_what_cannot_be_a_name(store: SecretStore, name: str) -> None:
    for names in ((name, "key"), ("name", name), (name,)):
        with pytest.raises(UsageError, match="cannot be the"):
            check_names(*names)
    assert store.get(name, "key") is None
    assert (name, "key") not in store
