"""The address and the token that the environment names, and the user's own server on this machine."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
from typing import Tuple


def token() -> str:
    """Returns TROUPE_TOKEN, or what is in the file that TROUPE_TOKEN_FILE names; empty: neither is set."""
    text = os.environ.get("TROUPE_TOKEN", "").strip()
    path = os.environ.get("TROUPE_TOKEN_FILE", "")
    if text or not path:
        return text
    with open(path, encoding="utf-8") as file:
        text = file.read().strip()
    if not text:
        raise ValueError("TROUPE_TOKEN_FILE: %s is empty" % path)
    return text


async def address() -> Tuple[str, bool]:
    """Returns the URL of the server, and whether it is the user's own."""
    url = os.environ.get("TROUPE_URL", "")
    if url:
        return url, False
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    directory = os.path.join(runtime, "troupe") if os.path.isabs(runtime) else "/tmp/troupe-%d" % os.getuid()
    socket = os.path.join(directory, "server.sock")
    if not await _answers(socket):
        await _start()
    for path in (directory, socket):
        about = os.lstat(path)
        if about.st_uid != os.getuid() or stat.S_IMODE(about.st_mode) & 0o077 and path == directory:
            raise PermissionError("%s is not used, because others own or can enter it: set XDG_RUNTIME_DIR to your own directory" % path)
    return "unix://" + socket, True


async def _answers(socket: str) -> bool:
    try:
        _, writer = await asyncio.open_unix_connection(socket)
    except OSError:
        return False
    writer.close()
    return True


async def _start() -> None:
    """Has the program troupe start the server: each of its commands does."""
    program = shutil.which("troupe")
    if program is None:
        raise FileNotFoundError("your own server does not run, and there is no program troupe in PATH: pass a URL, or install troupe")
    started = await asyncio.create_subprocess_exec(
        program, "sessions", "list", stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
    )
    _, said = await started.communicate()
    if started.returncode != 0:
        raise ConnectionError("troupe could not start your own server: %s" % said.decode(errors="replace").strip())
