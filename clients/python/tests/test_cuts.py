"""Whatever the network does, each event comes once, a program gets each byte once, and a request is done once."""

import asyncio

import pytest
import troupe
from cutter import Cutter

COUNT = 40
SCRIPT = "i=0; while [ $i -lt %d ]; do i=$((i+1)); echo line $i; done; echo end >&2; exit 7" % COUNT


async def scenario(url, json):
    """Runs a program that counts and one that echoes. Returns what went wrong."""
    async with troupe.connect(url, json=json, dead_after=0) as client:
        # The program counts itself: started twice, it would say so.
        count = await client.start(["sh", "-c", SCRIPT])
        echo = await client.start(["cat"], stdin=True)
        read = asyncio.ensure_future(echo.stdout.read())
        lines = [b"input %d\n" % i for i in range(12)]
        for line in lines[:6]:
            await echo.write(line)
        await asyncio.gather(*[echo.write(line) for line in lines[6:]])  # in this order
        await echo.close_stdin()
        events = [event async for event in count]
        status = await count.wait()
        echoed = await read
        started = [p["processId"] for p in await client.processes()]
        await client.close_session()
    seqs = [event.seq for event in events]
    assert seqs == list(range(1, len(seqs) + 1))
    assert b"".join(e.data for e in events if isinstance(e, troupe.Output) and e.stream == "stdout") == b"".join(
        b"line %d\n" % i for i in range(1, COUNT + 1)
    )
    assert b"".join(e.data for e in events if isinstance(e, troupe.Output) and e.stream == "stderr") == b"end\n"
    assert [type(e) for e in events[-2:]] == [troupe.Exited, troupe.Closed]
    assert status["exitCode"] == 7
    assert echoed == b"".join(lines)
    assert sorted(started) == sorted([count.id, echo.id])


@pytest.mark.parametrize("json", [True, False], ids=["json", "msgpack"])
@pytest.mark.parametrize("direction", ["up", "down"])
@pytest.mark.parametrize("how", ["before", "after", "within", "reset"])
async def test_cut_at_each_message(server, json, direction, how):
    """A connection is cut at one message, at each in turn, until a run has no such message."""
    at = 0
    while True:
        at += 1
        async with Cutter(server.url, lambda n, way, k: how if (n, way, k) == (1, direction, at) else None) as cutter:
            await scenario(cutter.url, json)
            if not cutter.cuts:
                break
    assert at > 10


@pytest.mark.parametrize("every", [4, 7])
async def test_cuts_all_along(server, every):
    """Each connection is cut after a few messages of the server."""
    hows = ["before", "after", "within"]

    def plan(connection, direction, message):
        # The first two messages of a connection, up to initialized, always pass: otherwise a session may never begin.
        return hows[connection % 3] if direction == "down" and message == every + connection % 3 else None

    async with Cutter(server.url, plan) as cutter:
        await scenario(cutter.url, False)
        assert cutter.cuts >= 3


async def test_start_is_done_once(server, tmp_path):
    """A start whose answer is lost starts one program."""
    mark = tmp_path / "mark"
    async with Cutter(server.url, lambda n, way, k: "before" if (n, way) == (1, "down") and k == 2 else None) as cutter:
        async with troupe.connect(cutter.url) as client:
            process = await client.start(["sh", "-c", "echo x >> '%s'" % mark])
            assert (await process.wait())["exitCode"] == 0
            assert cutter.cuts == 1
            await client.close_session()
    assert mark.read_text() == "x\n"


async def test_ended_program_is_not_sent_again(server):
    """A cut loses the acknowledgement of a program that has ended. The next connection has nothing of the program, and acknowledges it."""
    messages, lose = [], False

    def plan(connection, direction, _):
        messages.append((connection, direction))
        return "before" if lose and (connection, direction) == (1, "up") else None

    async with Cutter(server.url, plan) as cutter, troupe.connect(cutter.url) as client:
        await client.start(["cat"], stdin=True)
        process = await client.start(["sh", "-c", "echo one; echo two"])
        assert len([event async for event in process]) >= 3
        lose = True
        client._ack_now()
        await client.processes()
        _, info = await client.processes()
        assert messages.count((2, "down")) <= 4  # the answers to initialize and to process/list, once of the client itself
        assert info["unackedBytes"] == 0
        await client.processes()
        assert not client._over and not client._last_acks
        await client.close_session()


async def test_id_of_an_ended_program_is_used_again(own_server):
    """Another client starts a program with the id of one that has ended for this client, and has fewer events. The server
    refuses to resume after an event that the new program does not have. The client resumes without naming the old one."""
    server = own_server("--max-processes", "4")
    async with troupe.connect(server.url) as client:
        old = await client.start(["sh", "-c", "echo one; echo two >&2"], id="same")
        assert [event.data async for event in old if isinstance(event, troupe.Output)] == [b"one\n", b"two\n"]
        client._ack_now()
        # From here on the client sends no request, so no answer confirms the acknowledgement.
        async with troupe.connect(server.url, session=client.session_id, role="controller") as other:
            for _ in range(3):  # there are four places: the program that ended first makes room
                await (await other.start(["true"])).closed()
            while "same" in [process["processId"] for process in await other.processes()]:
                await asyncio.sleep(0.01)
            new = await other.start(["cat"], id="same", stdin=True)
            assert client._over["same"] > 1
            client._link.abort()
            while client._link_n < 3:  # the server has refused the second one
                assert client.state.state != "ended", client.state.error
                await asyncio.sleep(0.01)
            await client.processes()
            await new.write(b"typed\n")
            assert await new.stdout.readline() == b"typed\n"
        await client.close_session()


@pytest.mark.parametrize(
    "code, reason, error",
    [
        (1001, "shutting down", None), (1002, "unknown notification", troupe.TroupeError), (1002, "resumeFrom: x", troupe.ProcessGoneError),
        (1008, "too many requests", None), (1009, "too large", None), (1011, "internal", None), (1013, "busy", None),
        (4001, "taken over", troupe.SessionGoneError), (4002, "the connection broke", None),
    ],
)  # fmt: skip
def test_close_codes(code, reason, error):
    """The client gives up where section 22.2 of PROTOCOL.md says so, also if the Close comes in place of the answer to initialize."""
    from troupe._client import _final
    from websockets.exceptions import ConnectionClosedError
    from websockets.frames import Close

    lost = troupe.ConnectError("initialize: the connection was lost")
    lost.__cause__ = ConnectionClosedError(Close(code, reason), None, None)
    final = _final(lost)
    assert type(final) is (error or type(None))
    assert error is None or reason in str(final)
