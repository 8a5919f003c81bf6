"""The client on a server: flow control, cancellation, groups, roles, refusals."""

import asyncio
import gc
import logging
import shutil
import signal
import ssl
import subprocess

import pytest
import troupe
from conftest import skip


async def until(fact):
    """Waits until fact, a function or a coroutine function, holds."""
    while True:
        holds = fact()
        if asyncio.iscoroutine(holds):
            holds = await holds
        if holds:
            return holds
        await asyncio.sleep(0.01)


# Flow control.


async def test_slow_consumer_slows_its_program_alone(server):
    """What nobody takes stays with the server, up to the retention, and no other program waits."""
    async with troupe.connect(server.url) as client:
        flood = await client.start(["sh", "-c", "exec cat /dev/zero"])
        events = flood.events()
        await events.__anext__()

        async def waits():
            info = await flood.info()
            return info if any(w["for"] == "owner" for w in info["waitsFor"]) else None

        info = await until(waits)
        retention = client.server["limits"]["retentionBytes"]
        assert info["outputBytes"] <= 2 * retention + 1_000_000
        assert flood._queued() <= retention + 1_000_000
        # Others go on meanwhile, with more than the window of the connection.
        done = await client.run(["head", "-c", "20000000", "/dev/zero"])
        assert len(done.stdout) == 20_000_000
        assert flood._queued() <= retention + 1_000_000
        # Who consumes goes on where the program was.
        taken = 0
        async for event in events:
            taken += len(event.data)
            if taken > 10 * retention:
                break
        await client.close_session()


async def test_unread_event_is_not_acknowledged(server):
    """An event counts as consumed when the next one is asked for: until then the server keeps it for whoever comes back."""
    async with troupe.connect(server.url) as client:
        process = await client.start(["sh", "-c", "echo one; read x"], stdin=True)
        events = process.events()
        assert (await events.__anext__()).data == b"one\n"
        await until(lambda: _unacked(client, process.id, True))
        await process.close_stdin()
        assert isinstance(await events.__anext__(), troupe.Exited)
        await until(lambda: _unacked(client, process.id, False))
        await client.close_session()


async def _unacked(client, process_id, some):
    (info,) = [p for p in await client.processes() if p["processId"] == process_id]
    return bool(info["unackedBytes"] and info["nextSeq"] > 1) == some or (not some and info["unackedBytes"] < 512)


async def test_observer_that_falls_behind(server):
    """An observer gets a gap in place of what it was too slow for; its memory is bounded; the owner is not slowed down."""
    async with troupe.connect(server.url) as owner:
        flood = await owner.start(["sh", "-c", "head -c 40000000 /dev/zero; read x"], stdin=True)
        async with troupe.connect(server.url, session=owner.session_id, role="observer") as watcher:
            seen = await watcher.attach(flood.id)
            events = seen.events()
            await events.__anext__()
            out = asyncio.ensure_future(flood.stdout.read())
            await until(lambda: seen._last > 1 and seen._queued() and flood._last > 300)
            await until(lambda: _written(flood, 40_000_000))
            assert seen._queued() <= seen._most_queued() + 300_000
            await flood.close_stdin()
            kinds, total = [], 0
            async for event in events:
                kinds.append(type(event))
                total += len(event.data) if isinstance(event, troupe.Output) else 0
            assert troupe.Gap in kinds and total < 10_000_000
            assert kinds[-1] is troupe.Closed
        assert len(await out) == 40_000_000
        await owner.close_session()


async def _written(process, size):
    return (await process.info())["outputBytes"] >= size


def test_shed_keeps_order_and_ends():
    """What a lossy queue loses is a gap in its place; the first event, which the consumer has, stays."""
    from troupe._process import Lane

    lane = Lane()
    for seq in range(1, 6):
        lane.push(troupe.Output(seq, "stdout", b"x" * seq))
    lane.push(troupe.Restarted(6, 2, "exit code 1"))
    lane.push(troupe.Output(7, "stdout", b"abc"))
    lane.given = True
    lane.shed()
    first, gap, restarted, last = lane.events
    assert first.seq == 1 and (gap.from_seq, gap.seq, gap.size) == (2, 5, 14)
    assert restarted.seq == 6 and (last.from_seq, last.seq, last.size) == (7, 7, 3)
    assert lane.size == 4 * 128 + 1
    lane.push(troupe.Output(8, "stdout", b"de"))
    lane.shed()
    assert (lane.events[-1].from_seq, lane.events[-1].seq, lane.events[-1].size) == (7, 8, 5)


def test_shed_of_many_events():
    """Many events without output are lost, too: a queue is bounded whatever a program does."""
    from troupe._process import MOST_EVENTS, Lane

    lane = Lane()
    for seq in range(1, MOST_EVENTS + 3):
        lane.push(troupe.Ready(seq, seq))
    lane.shed()
    (gap,) = lane.events
    assert (gap.from_seq, gap.seq) == (1, MOST_EVENTS + 2)


# Cancellation.


async def test_cancellation_loses_nothing(server, caplog):
    """Tasks are cancelled at random awaits: each line is still read once, and nothing is left behind."""
    async with troupe.connect(server.url) as client:
        process = await client.start(["sh", "-c", "i=0; while [ $i -lt 300 ]; do i=$((i+1)); echo line $i; done"])
        echo = await client.start(["cat"], stdin=True)
        seqs, data, n = [], b"", 0
        events = process.events()
        while True:
            n += 1
            task = asyncio.ensure_future(events.__anext__())
            for _ in range(n % 4):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            if task.cancelled():
                if n > 50:
                    await asyncio.sleep(0.001)
                continue
            try:
                event = task.result()
            except StopAsyncIteration:
                break
            seqs.append(event.seq)
            data += event.data if isinstance(event, troupe.Output) else b""
        assert seqs == list(range(1, len(seqs) + 1))
        assert data == b"".join(b"line %d\n" % i for i in range(1, 301))

        # Requests that are cancelled are forgotten.
        for work in (client.processes, process.info, lambda: client.files.list("/"), lambda: echo.stdout.read(10), client.sessions):
            for steps in range(5):
                task = asyncio.ensure_future(work())
                for _ in range(steps):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.wait([task])
        await client.processes()
        assert not client._pending
        # Lines that a cancelled read has taken come back.
        reading = asyncio.ensure_future(echo.stdout.readline())
        await echo.write(b"a half")
        await until(lambda: echo._last > 0 and not echo._lanes[0].events)
        reading.cancel()
        await asyncio.wait([reading])
        await echo.write(b" and a half\n")
        assert await echo.stdout.readline() == b"a half and a half\n"
        await client.close_session()
    gc.collect()
    assert not [r for r in caplog.records if r.name == "asyncio"], caplog.text


async def test_cancelled_write_takes_no_more(server):
    """A write that waits for a full stdin can be cancelled, and later writes go on."""
    async with troupe.connect(server.url) as client:
        process = await client.start(["sh", "-c", "read x; exec wc -c"], stdin=True)
        await process.write(b"begin\n")
        stuck = await client.start(["sleep", "1000"], stdin=True)
        writing = asyncio.ensure_future(stuck.write(b"x" * 2_000_000))
        await until(lambda: any(c.method == "process/write" and c.sent for c in client._pending.values()))
        await client.processes()
        assert not writing.done()
        writing.cancel()
        await asyncio.wait([writing])
        await process.write(b"12345")
        await process.close_stdin()
        assert (await process.stdout.read()).split() == [b"5"]
        await client.close_session()


async def test_cancelled_start_leaves_no_program(server):
    async with troupe.connect(server.url) as client:
        for steps in range(6):
            task = asyncio.ensure_future(client.start(["sleep", "1000"]))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])

        async def none():
            return all(p["state"] == "closed" for p in await client.processes())

        await until(none)
        await until(lambda: not client._processes)
        await client.close_session()


async def test_cancelled_run_kills_its_program(server):
    async with troupe.connect(server.url) as client:
        with pytest.raises(troupe.TimeoutExpired):
            await client.run(["sleep", "1000"], timeout=0.2)
        running = asyncio.ensure_future(client.run(["sleep", "1000"]))
        await until(client.processes)
        await until(lambda: _running(client, 1))
        running.cancel()
        await asyncio.wait([running])
        await until(lambda: _running(client, 0))
        await client.close_session()


async def _running(client, n):
    return sum(p["state"] == "running" for p in await client.processes()) == n


async def test_close_ends_whatever_waits(server):
    client = await troupe.connect(server.url)
    process = await client.start(["cat"], stdin=True)
    works = (process.wait(), process.stdout.read(), process.closed(), client.files.wait_for(["/nothing"]))
    waiting = [asyncio.ensure_future(work) for work in works]
    await client.processes()
    session = client.session_id
    await client.close()
    await asyncio.wait(waiting)
    assert [type(w.exception()) for w in waiting] == [troupe.ClosedError] * 4
    with pytest.raises(troupe.ClosedError):
        await client.processes()
    async with troupe.connect(server.url, session=session, wait_for_owner=30) as again:
        await again.close_session()
    with pytest.raises(troupe.SessionGoneError):
        await troupe.connect(server.url, session=session)


async def test_nobody_serves():
    with pytest.raises(troupe.ConnectError) as refused:
        await troupe.connect("ws://127.0.0.1:1")
    assert isinstance(refused.value, ConnectionError) and "127.0.0.1:1" in str(refused.value)
    with pytest.raises(ValueError, match="begins neither"):
        await troupe.connect("http://127.0.0.1:1")
    with pytest.raises(ValueError, match="without TLS"):
        await troupe.connect("ws://192.0.2.1:1", token="secret")


async def test_gives_up_after_a_while(own_server):
    server = own_server("--no-holder")
    async with troupe.connect(server.url, reconnect_for=0.5) as client:
        server.process.kill()
        with pytest.raises(troupe.ConnectError, match="not resumed within"):
            await client.processes()


async def test_session_that_has_ended(own_server):
    """After a restart of a server without holder the session is gone, and the client says so."""
    server = own_server("--no-holder")
    async with troupe.connect(server.url) as client:
        process = await client.start(["cat"], stdin=True)
        server.process.kill()
        server.process.wait()
        server.start()
        with pytest.raises(troupe.SessionGoneError):
            async for _ in process:
                pass


async def test_silent_server(server):
    """A connection on which nothing comes is cut, and the session resumed on another."""
    from cutter import Cutter

    class Silent(Cutter):
        async def _copy(self, connection, direction, reader, writer):
            if direction == "down" and connection == 1:
                while not quiet.is_set():
                    try:
                        writer.write(await asyncio.wait_for(reader.read(65536), 0.01))
                    except asyncio.TimeoutError:
                        pass
                await asyncio.sleep(1000)
            while some := await reader.read(65536):
                writer.write(some)

    quiet = asyncio.Event()
    async with Silent(server.url, None) as proxy:
        async with troupe.connect(proxy.url, ping_every=0.1, dead_after=0.3) as client:
            await client.processes()
            quiet.set()
            await client.processes()
            await client.close_session()
            assert proxy.connections >= 2


# Programs.


async def test_restarts_and_ready(server):
    async with troupe.connect(server.url) as client:
        process = await client.start(
            ["sh", "-c", "echo run; exit 1"],
            restart={"policy": "permanent", "backoff": {"initialMs": 1}, "intensity": {"restarts": 2, "periodMs": 60000}},
        )
        events = [event async for event in process]
        runs = [event.run for event in events if isinstance(event, troupe.Output)]
        assert runs == [1, 2, 3]
        assert [e.run for e in events if isinstance(e, troupe.Restarted)] == [2, 3]
        assert [type(e) for e in events[-3:]] == [troupe.Exited, troupe.Evicted, troupe.Closed]
        with pytest.raises(troupe.ExitError, match="given up"):
            await process.wait(check=True)
        again = await client.start(["sh", "-c", "echo up; exec sleep 1000"], restart={"policy": "permanent"})
        await again.restart()
        await again.set_restart({"policy": "temporary"})
        events = again.events()
        while True:
            event = await events.__anext__()
            if isinstance(event, troupe.Output) and event.run == 2:
                break
        assert await again.terminate(5.0)
        assert (await again.wait())["signal"] == "SIGTERM"
        await client.close_session()


async def test_signals_terminal_and_resize(server):
    async with troupe.connect(server.url) as client:
        process = await client.start(["sh", "-c", "trap 'stty size; exit 4' USR1; echo up; read x; read x"], tty=(20, 30))
        assert await process.stdout.readline() == b"up\r\n"
        await process.resize(33, 44)
        await process.signal(signal.SIGUSR1)
        assert await process.stdout.readline() == b"33 44\r\n"
        assert (await process.wait())["exitCode"] == 4
        killed = await client.start(["sleep", "1000"])
        assert await killed.kill()
        status = await killed.wait()
        assert troupe.returncode(status) == -9
        assert not await killed.kill()
        await client.close_session()


async def test_groups(server):
    async with troupe.connect(server.url) as client:
        first, second = await client.start_group(
            "site",
            [
                troupe.Program(["sh", "-c", "echo migrated"], id="migrate", ready={"exit": True}, restart={"policy": "transient"}),
                troupe.Program(["sh", "-c", "echo up; read x; echo $x"], id="web", stdin=True, depends_on=["migrate"]),
            ],
            strategy="rest_for_one",
        )
        await second.write(b"typed before the start\n")
        assert await first.stdout.read() == b"migrated\n"
        assert await second.stdout.read() == b"up\ntyped before the start\n"
        assert [g["groupId"] for g in await client.groups()] == ["site"]
        with pytest.raises(troupe.RequestError):
            await client.start_group("bad", [troupe.Program(["true"], id="x", depends_on=["y"])])
        assert not client._processes.get("x")
        (third,) = await client.start_group("other", [troupe.Program(["sleep", "1000"])])
        await client.stop_group("other")
        assert (await third.wait())["signal"] == "SIGTERM"
        await client.close_session()


async def test_notifications(server):
    told = []
    async with troupe.connect(server.url, on_notification=lambda method, n: told.append((method, n))) as client:
        await client.start_group("g", [troupe.Program(["true"], id="t")])
        await until(lambda: ("group/changed", "ended") in [(m, n.get("state")) for m, n in told])
        await client.close_session()


async def test_refusals(server, tmp_path):
    """Each refusal has the code, the kind, the text and the advice of the server, and is the exception that Python has for it."""
    script = tmp_path / "script"
    script.write_text("no program")
    script.chmod(0o755)
    async with troupe.connect(server.url) as client:
        for work, cls, python, kind in (
            (lambda: client.start(["no-such-program"]), troupe.NotFoundError, FileNotFoundError, "noProgram"),
            (lambda: client.start(["true"], cwd="/no/such"), troupe.NotFoundError, FileNotFoundError, "noDirectory"),
            (lambda: client.start(["/etc/passwd"]), troupe.DeniedError, PermissionError, "permission"),
            (lambda: client.start([str(script)]), troupe.SystemCallError, OSError, "notExecutable"),
            (lambda: client.process("nothing").info(), troupe.UnknownProcessError, troupe.ProcessGoneError, "unknownProcess"),
            (lambda: client.process("nothing").write(b"x"), troupe.UnknownProcessError, troupe.ProcessGoneError, "unknownProcess"),
            (lambda: client.attach("nothing"), troupe.UnknownProcessError, troupe.ProcessGoneError, "unknownProcess"),
            (lambda: client.files.read("/nothing"), troupe.NotFoundError, FileNotFoundError, "notFound"),
            (lambda: client.files.mkdir(tmp_path), troupe.ExistsError, FileExistsError, "exists"),
            (lambda: client.request("no/such"), troupe.UnsupportedError, troupe.RequestError, "method"),
            (lambda: client.request("process/read", {}), troupe.RequestError, troupe.TroupeError, "params"),
            (lambda: client.share("read"), troupe.RequestError, troupe.TroupeError, "off"),
        ):
            with pytest.raises(cls) as refused:
                await work()
            assert isinstance(refused.value, python), refused.value
            assert refused.value.kind == kind, refused.value
            assert refused.value.message and refused.value.message in str(refused.value)
        with pytest.raises(ValueError, match="null byte"):
            await client.start(["a\0b"])
        with pytest.raises(UnicodeEncodeError):  # the request alone fails
            await client.start(["a\udc80"])
        with pytest.raises(TypeError, match="is a string"):
            await client.start("ls -l")
        with pytest.raises(ValueError, match="relative"):
            await client.start(["ls"], cwd="here")
        closed = await client.start(["true"])
        await closed.closed()
        with pytest.raises(troupe.StdinClosedError) as refused:
            await closed.write(b"x")
        assert isinstance(refused.value, BrokenPipeError)
        same = await client.start(["sleep", "1000"], id="same")
        with pytest.raises(ValueError, match="in use"):
            await client.start(["true"], id="same")
        await same.kill()
        await client.close_session()


async def test_roles_and_shares(own_server, tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text("alice secret-of-alice-0123456789abcdef\n")
    tokens.chmod(0o600)
    server = own_server("--auth-token-file", str(tokens))
    with pytest.raises(troupe.UnauthorizedError):
        await troupe.connect(server.url, token="wrong")

    async def secret():
        return "secret-of-alice-0123456789abcdef"

    async with troupe.connect(server.url, token=secret) as owner:
        cat = await owner.start(["cat"], stdin=True)
        share = await owner.share("type", expires_in=60, name="pair")
        assert [s["name"] for s in await owner.shares()] == ["pair"]
        async with troupe.connect(server.url, token=share["token"]) as guest:
            seen = await guest.attach(cat.id)
            await seen.write(b"typed\n")
            assert await seen.stdout.readline() == b"typed\n"
            with pytest.raises(troupe.DeniedError):
                await guest.start(["true"])
            await owner.unshare(share["shareId"])
            with pytest.raises(troupe.SessionGoneError):
                await seen.stdout.readline()
        async with troupe.connect(server.url, token=secret, session=owner.session_id, role="observer") as watcher:
            with pytest.raises(troupe.DeniedError) as refused:
                await watcher.start(["true"])
            assert refused.value.kind == "role"
        async with troupe.connect(server.url, token=secret, session=owner.session_id, role="controller") as other:
            assert (await (await other.start(["true"])).wait())["exitCode"] == 0
        assert await cat.stdout.readline() == b"typed\n"
        await owner.close_session()


async def test_tls_and_unix(own_server, tmp_path):
    """wss takes the certificates of a context, and refuses a server that they do not know."""
    certificate, key = str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")
    if shutil.which("openssl") is None:
        skip("there is no program openssl")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=test",
         "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    server = own_server("--listen", "wss://127.0.0.1:0", "--tls-cert", certificate, "--tls-key", key)
    assert server.url.startswith("wss://")
    trusted = ssl.create_default_context(cafile=certificate)
    async with troupe.connect(server.url, ssl=trusted) as client:
        assert (await client.run(["echo", "hi"])).stdout == b"hi\n"
        client._link.abort()
        assert len(await client.processes()) == 1
        await client.close_session()
    with pytest.raises(troupe.ConnectError, match="certificate"):
        await troupe.connect(server.url)
    server = own_server("--listen", "unix://" + str(tmp_path / "socket"))
    async with troupe.connect(server.url) as client:
        assert (await client.run(["echo", "hi"])).stdout == b"hi\n"
        await client.close_session()


async def test_sessions(server):
    async with troupe.connect(server.url, session_name="named", detached_ttl=60) as client:
        await client.start(["sleep", "1000"], id="sleeper")
        (mine,) = [s for s in await client.sessions("processes") if s["sessionId"] == client.session_id]
        assert mine["name"] == "named" and mine["list"][0]["processId"] == "sleeper"
        await client.update(name="other", detached_ttl=30, keep_running=True, left="for lunch")
        info = await client.info()
        assert (info["name"], info["detachedTtlMs"], info["keepRunning"]) == ("other", 30000, True)
        assert (await client.server_info())["server"]["name"] == "troupe"
        read = await client.process("sleeper").read()
        assert read["chunks"] == [] and not read["exited"]
        await client.close_session()


async def test_bytes_in_both_encodings(server):
    """Bytes are bytes, wherever they are in a result."""
    for json in (True, False):
        async with troupe.connect(server.url, json=json) as client:
            process = await client.start(["printf", "\\000\\377x"])
            assert await process.stdout.read() == b"\x00\xffx"
            read = await process.read()
            assert read["chunks"][0]["chunk"] == b"\x00\xffx"
            with pytest.raises(UnicodeEncodeError):
                await client.start(["a\udc80"])
            await client.close_session()


async def test_two_consumers_are_refused(server):
    async with troupe.connect(server.url) as client:
        process = await client.start(["cat"], stdin=True)
        one = asyncio.ensure_future(process.events().__anext__())
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="two iterations"):
            await process.events().__anext__()
        one.cancel()
        await asyncio.wait([one])
        assert process.stdout is process.stdout
        with pytest.raises(RuntimeError, match="streams are read"):
            process.events()
        await client.close_session()


async def test_lines(server):
    async with troupe.connect(server.url) as client:
        process = await client.start(["printf", "one\\ntwo\\nrest"])
        assert [line async for line in process.stdout] == [b"one\n", b"two\n", b"rest"]
        process = await client.start(["printf", "abcdef\\n"])
        assert await process.stdout.readline(4) == b"abcd"
        assert await process.stdout.read(1) == b"e"
        assert await process.stdout.read() == b"f\n"
        await client.close_session()


async def test_discard(server):
    async with troupe.connect(server.url) as client:
        process = await client.start(["head", "-c", "20000000", "/dev/zero"])
        process.discard()
        assert (await process.wait())["exitCode"] == 0
        await process.closed()
        await client.close_session()


async def test_callbacks_that_fail_do_no_harm(server, caplog):
    def fail(*_):
        raise KeyError("mine")

    with caplog.at_level(logging.ERROR, "troupe"):
        async with troupe.connect(server.url, on_state=fail) as client:
            assert await client.processes() == []
            await client.close_session()
    assert "a callback has failed" in caplog.text


async def test_thousands_wait(server):
    """However many programs are waited for, no request waits at the server: it takes 1,024 of a connection."""
    async with troupe.connect(server.url) as client:
        processes = [await client.start(["sh", "-c", "read x; exit 3"], stdin=True) for _ in range(40)]
        waiting = [asyncio.ensure_future(process.wait()) for process in processes for _ in range(50)]
        await client.processes()
        assert not client._pending
        for process in processes:
            await process.close_stdin()
        assert {status["exitCode"] for status in await asyncio.gather(*waiting)} == {3}
        handle = client.process(processes[0].id)
        assert (await handle.wait())["exitCode"] == 3
        await client.close_session()
