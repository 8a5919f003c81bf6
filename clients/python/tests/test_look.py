"""Look at programs: the screen of a terminal, and the watch of a server."""

import asyncio

import pytest
import troupe
from cutter import Cutter


async def test_screen(server):
    """A program in a terminal is driven by its screen, also over a cut."""
    async with Cutter(server.url, lambda n, way, k: "before" if n < 3 and (way, k) == ("down", 5) else None) as cutter:
        async with troupe.connect(cutter.url) as client:
            shell = await client.start(["sh"], tty=(10, 40), env={"PS1": "ready> ", "PATH": "/usr/bin:/bin", "TERM": "xterm"})
            shell.discard()
            screen = await shell.screen(wait_for=r"ready> ?$", timeout=60)
            assert screen["matched"] and (screen["rows"], screen["cols"]) == (10, 40)
            for n in range(3):
                await shell.write(b"echo answer $((6 * %d))\n" % (n + 7))
                screen = await shell.screen(wait_for=r"answer %d\nready> ?$" % (6 * (n + 7)), timeout=60)
                assert screen["matched"], screen["lines"]
            assert "answer 42" in screen["lines"]
            screen = await shell.screen(wait_for="never", timeout=0.05)
            assert screen["matched"] is False
            screen = await shell.screen(restore=True, spans=True, scrollback=10)
            assert isinstance(screen["restore"], bytes) and b"answer 54" in screen["restore"]
            assert "".join(span["text"] for span in screen["spans"][0]) == screen["lines"][0]
            with pytest.raises(troupe.RequestError) as refused:
                await shell.screen(wait_for="(")
            assert refused.value.kind == "params"
            pipe = await client.start(["cat"], stdin=True)
            with pytest.raises(troupe.RequestError) as refused:
                await pipe.screen()
            assert refused.value.kind == "noTTY"
            await client.close_session()


class Mirror:
    """The state that the pieces of a watch tell."""

    def __init__(self):
        self.sessions = {}
        self.begun = 0

    def take(self, piece):
        if piece.get("anew"):
            self.sessions, self.begun = {}, self.begun + 1
        for gone in piece.get("gone", []):
            self.sessions.pop(gone, None)
        for change in piece.get("sessions", []):
            processes = self.sessions.setdefault(change["sessionId"], {})
            for forgotten in change.get("forgotten", []):
                processes.pop(forgotten, None)
            for info in change.get("list", []):
                processes[info["processId"]] = info["state"]


async def test_watch(server):
    """A watch tells of what there is and what changes; after a cut it begins anew."""
    async with Cutter(server.url, lambda n, way, k: None) as cutter:
        async with troupe.connect(cutter.url) as looking, troupe.connect(server.url) as working:
            sleeper = await working.start(["sleep", "1000"], id="sleeper")
            watch = await looking.watch(0.2)
            with pytest.raises(RuntimeError, match="watches already"):
                await looking.watch()
            mirror = Mirror()

            async def until(fact):
                while not fact():
                    mirror.take(await watch.__anext__())

            mine = lambda: mirror.sessions.get(working.session_id, {})  # noqa: E731
            await until(lambda: mine().get("sleeper") == "running")
            await working.start(["sleep", "1000"], id="other")
            await until(lambda: mine().get("other") == "running")
            looking._link.abort()
            await until(lambda: mirror.begun == 2 and mine() == {"sleeper": "running", "other": "running"})
            await sleeper.kill()
            await until(lambda: mine().get("sleeper") == "closed")
            await working.close_session()
            await until(lambda: working.session_id not in mirror.sessions)
            await watch.aclose()
            with pytest.raises(troupe.ClosedError):
                await watch.__anext__()
            await (await looking.watch(0.2)).__anext__()  # a second one, after the first
            waiting = asyncio.ensure_future((looking._watch).__anext__())
            await asyncio.sleep(0)
            await looking.close_session()
            await asyncio.wait([waiting])
            assert isinstance(waiting.exception(), (troupe.ClosedError, type(None)))


async def test_watch_that_falls_behind(server, monkeypatch):
    """Pieces that nobody takes are dropped, and the state begins anew."""
    from troupe import _client

    monkeypatch.setattr(_client, "MOST_PIECES", 3)
    async with troupe.connect(server.url) as looking, troupe.connect(server.url) as working:
        watch = await looking.watch(0.2)
        begun_anew = []
        call = watch._call
        monkeypatch.setattr(watch, "_call", lambda: begun_anew.append(True) or call())
        for n in range(8):
            await working.start(["true"], id="p%d" % n)
            begun = looking._heard
            while looking._heard == begun:
                await asyncio.sleep(0.01)
        mirror = Mirror()
        while len(mirror.sessions.get(working.session_id, {})) < 8 or "closed" != mirror.sessions[working.session_id]["p7"]:
            assert len(watch._pieces) <= 3
            mirror.take(await watch.__anext__())
        assert begun_anew
        await working.close_session()
        await looking.close_session()
