"""Credentials: read, read again, and never shown."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from trimtab.kube.credentials import ANONYMOUS, FileMaterial, Grant, InlineMaterial, StaticCredentials
from trimtab.kube.errors import CredentialsError
from trimtab.testing.clocks import VirtualClock


async def test_a_token_file_is_read_again_after_a_minute(tmp_path: Path) -> None:
    """A kubelet replaces the file without notice."""
    clock, file = VirtualClock(), tmp_path / "token"
    file.write_text("first\n")
    credentials = StaticCredentials(token=FileMaterial(file, clock))
    assert (await credentials.grant()).token == "first"
    file.write_text("second\n")
    await clock.advance(59)
    assert (await credentials.grant()).token == "first"
    await clock.advance(1)
    assert (await credentials.grant()).token == "second"


async def test_a_refused_token_is_reread_immediately(tmp_path: Path) -> None:
    """After a 401 it is worth looking whether the file has changed, and only then worth trying again."""
    clock, file = VirtualClock(), tmp_path / "token"
    file.write_text("first")
    credentials = StaticCredentials(token=FileMaterial(file, clock))
    refused = await credentials.grant()
    assert not await credentials.renew(refused)
    file.write_text("second")
    assert await credentials.renew(refused)
    assert (await credentials.grant()).token == "second"


async def test_a_certificate_in_files_is_read_again_too(tmp_path: Path) -> None:
    """Certificates are rotated like tokens."""
    clock = VirtualClock()
    certificate, key = tmp_path / "crt", tmp_path / "key"
    certificate.write_text("c1")
    key.write_text("k1")
    credentials = StaticCredentials(certificate=FileMaterial(certificate, clock), key=FileMaterial(key, clock))
    assert await credentials.grant() == Grant(certificate=b"c1", key=b"k1")
    certificate.write_text("c2")
    key.write_text("k2")
    await clock.advance(60)
    assert await credentials.grant() == Grant(certificate=b"c2", key=b"k2")


async def test_a_file_that_disappears_keeps_its_last_content(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """While a file is being replaced, its previous content is used; the log does not show it."""
    clock, file = VirtualClock(), tmp_path / "token"
    file.write_text("hunter2")
    credentials = StaticCredentials(token=FileMaterial(file, clock))
    await credentials.grant()
    file.unlink()
    await clock.advance(60)
    with caplog.at_level(logging.WARNING):
        assert (await credentials.grant()).token == "hunter2"
    assert "cannot be read" in caplog.text
    assert "hunter2" not in caplog.text
    file.write_text("")
    await clock.advance(60)
    assert (await credentials.grant()).token == "hunter2"


@pytest.mark.parametrize(("content", "why"), [(None, "cannot be read: No such file"), (" \n", "is empty")])
async def test_a_missing_or_empty_file_is_an_error(tmp_path: Path, content: str | None, why: str) -> None:
    """There is nothing to go on with, so the failure names the file."""
    file = tmp_path / "token"
    if content is not None:
        file.write_text(content)
    with pytest.raises(CredentialsError, match=why) as caught:
        await StaticCredentials(token=FileMaterial(file, VirtualClock())).grant()
    assert str(file) in str(caught.value)


async def test_inline_material_cannot_be_renewed() -> None:
    """A token in a kubeconfig stays what it is."""
    credentials = StaticCredentials(token=InlineMaterial(b"hunter2"))
    assert not await credentials.renew(await credentials.grant())
    assert await ANONYMOUS.grant() == Grant()


async def test_secrets_are_not_shown(tmp_path: Path) -> None:
    """The repr shows that there is a secret, but not the secret."""
    file = tmp_path / "token"
    file.write_text("hunter2")
    shown = [
        InlineMaterial(b"hunter2"),
        Grant("hunter2", b"hunter2", b"hunter2"),
        StaticCredentials(token=InlineMaterial(b"hunter2")),
        StaticCredentials(token=FileMaterial(file, VirtualClock())),
    ]
    for thing in shown:
        assert "hunter2" not in repr(thing) + str(thing)
    assert repr(Grant()) == "Grant(anonymous)"
    assert repr(Grant("t")) == "Grant(token)"
