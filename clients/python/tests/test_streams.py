"""The programs of the load test write streams that can be computed: what arrives is compared with them, over cuts."""

import asyncio
import os
import signal

import pytest
import streams
import troupe
from cutter import Cutter

KEY = 0xABCDEF012345


def cutting(every, most):
    """Cuts each connection after so many messages of the server."""
    return lambda n, way, k: ["before", "after", "within"][n % 3] if n <= most and (way, k) == ("down", every) else None


@pytest.mark.parametrize("json", [True, False], ids=["json", "msgpack"])
async def test_burst_over_cuts(server, json):
    size, errors = 700_000, 100_000
    async with Cutter(server.url, cutting(6, 12)) as cutter, troupe.connect(cutter.url, json=json) as client:
        argv = [server.binary, "load-program", "burst", "key=%x" % KEY, "bytes=%d" % size, "stderr=%d" % errors, "code=5"]
        # Little is kept, so the output takes many messages.
        process = await client.start(argv, retention={"bytes": 32768})
        out, err = await process.communicate()
        assert (await process.wait())["exitCode"] == 5
        assert cutter.cuts >= 3
        await client.close_session()
    streams.check(KEY, out, size)
    streams.check(KEY, err, errors, "stderr")


async def test_upload_over_cuts(server):
    """The program says what it has read from stdin: each byte once, in order."""
    size = 300_000
    data = streams.content(streams.run_key(KEY, 0, "stdin"), size)
    async with Cutter(server.url, lambda n, way, k: "within" if n <= 5 and (way, k) == ("up", 6) else None) as cutter:
        async with troupe.connect(cutter.url) as client:
            argv = [server.binary, "load-program", "upload", "key=%x" % KEY, "size=65536"]
            process = await client.start(argv, stdin=True)
            out, _ = await process.communicate(data)
            assert (await process.wait())["exitCode"] == 0
            assert cutter.cuts >= 3
            await client.close_session()
    lines = out.splitlines(True)
    body = streams.parse_line(streams.run_key(KEY, 1, "stdout"), lines[-3])[1]
    assert body[:1] == b"z" and int(body[1:17], 16) == size
    assert int(body[17:33], 16) == streams.digest(data)
    assert int(body[33:], 16) == 2**63 - 1


async def test_on_a_terminal(server):
    async with troupe.connect(server.url) as client:
        argv = [server.binary, "load-program", "burst", "key=%x" % KEY, "bytes=200000"]
        process = await client.start(argv, tty=(24, 80))
        out = await process.stdout.read()
        await client.close_session()
    streams.check(KEY, out, 200_000)


async def test_server_is_killed(own_server):
    """The server is killed with SIGKILL, the next one goes on from the holder: each byte comes once."""
    server = own_server()
    size = 3_000_000
    async with troupe.connect(server.url) as client:
        if not (await client.server_info())["holder"]["available"]:
            pytest.skip("this machine has no holder")
        argv = [server.binary, "load-program", "flood", "key=%x" % KEY, "size=1000", "bytes=%d" % size]
        flood = await client.start(argv, retention={"bytes": 65536})
        echo = await client.start(["cat"], stdin=True)
        out, killed = [], 0
        while True:
            some = await flood.stdout.read(40_000)
            if not some:
                break
            out.append(some)
            if sum(map(len, out)) > (killed + 1) * size // 4:
                killed += 1
                os.kill(the_server(server.process.pid), signal.SIGKILL)
                await echo.write(b"after %d\n" % killed)
        await echo.close_stdin()
        assert killed >= 3
        assert await echo.stdout.read() == b"".join(b"after %d\n" % n for n in range(1, killed + 1))
        assert (await flood.wait())["exitCode"] == 0
        await client.close_session()
    streams.check(KEY, b"".join(out), size)


def the_server(holder):
    """Returns the pid of the server that a holder has started."""
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open("/proc/%s/stat" % name) as stat:
                command, _, rest = stat.read().partition(" (")[2].rpartition(") ")
        except OSError:
            continue
        if int(rest.split()[1]) == holder and command == "troupe-server":
            return int(name)
    raise AssertionError("the holder has no server")


async def test_session_is_resumed_by_another_client(server):
    """A client that has left comes back by the session id, and goes on after the last event."""
    async with troupe.connect(server.url) as client:
        process = await client.start(["sh", "-c", "echo one; read x; echo two"], stdin=True)
        events = process.events()
        first = await events.__anext__()
        session = client.session_id
    async with troupe.connect(server.url, session=session, wait_for_owner=30) as client:
        process = await client.attach(process.id, first.seq)
        await process.write(b"\n")
        rest = [event async for event in process]
        assert [e.data for e in rest if isinstance(e, troupe.Output)] == [b"two\n"]
        assert [e.seq for e in rest] == [first.seq + 1 + i for i in range(len(rest))]
        await client.close_session()


async def test_takeover(server):
    """The client whose session is taken over ends, and does not come back."""
    async with troupe.connect(server.url) as old:
        process = await old.start(["cat"], stdin=True)
        with pytest.raises(troupe.AttachedError):
            await troupe.connect(server.url, session=old.session_id)
        async with troupe.connect(server.url, session=old.session_id, takeover=True) as new:
            with pytest.raises(troupe.SessionGoneError):
                async for _ in process:
                    pass
            with pytest.raises(troupe.SessionGoneError):
                await old.processes()
            assert old.state.state == "ended"
            assert len(await new.processes()) == 1
            await new.close_session()


async def test_state_of_the_link(server):
    """States are told to a function and to an iteration, and an attempt that fails is followed by another."""
    told = []

    def plan(connection, direction, message):
        return "before" if connection in (2, 3) and direction == "down" else "after" if connection == 1 and message == 2 else None

    async with Cutter(server.url, plan) as cutter:
        async with troupe.connect(cutter.url, on_state=told.append) as client:
            seen = []

            async def follow():
                async for state in client.states():
                    seen.append(state.state)

            following = asyncio.ensure_future(follow())
            await client.processes()
            await client.processes()
            await client.close_session()
            await following
    states = [state.state for state in told]
    assert states[0] == "connected" and states[-2:] == ["connected", "ended"]
    assert [state.attempt for state in told if state.state == "lost"] == [1, 2, 3]
    assert all(state.error is not None for state in told if state.state != "connected")
    assert seen[-1] == "ended"
