"""A server of the peer: without a name, without acknowledgements, gaps and most methods, and with events before the answer to a start."""

import asyncio
import base64
import hashlib
import json

import pytest
import troupe
from cutter import read_frame


class Peer:
    """Serves as much of exec-server.v0 as a program needs. It ends the connection after a notification that it does not know."""

    def __init__(self):
        self.resumed = []
        self.notified = []
        self.started = []
        self.writes = []
        self.cut = False
        self.refusal = b""  # the reason of a Close with code 1002, to be sent

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._joined, "127.0.0.1", 0)
        self.url = "ws://127.0.0.1:%d" % self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc):
        self._server.close()

    async def _joined(self, reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        key = next(line.split(": ")[1] for line in head.splitlines() if line.lower().startswith("sec-websocket-key"))
        accept = base64.b64encode(hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()).decode()
        answer = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n"
        writer.write((answer % accept).encode())
        try:
            while True:
                opcode, frame = await read_frame(reader)
                if opcode == 8:
                    break
                if opcode > 2:
                    continue
                self._handle(json.loads(unmasked(frame)), lambda m: writer.write(framed(json.dumps(m).encode())))
                if self.refusal:
                    body = (1002).to_bytes(2, "big") + self.refusal
                    writer.write(bytes([0x88, len(body)]) + body)
                    self.refusal = b""
                if self.cut:
                    self.cut = False
                    break
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.transport.abort()

    def _handle(self, message, send):
        method, params = message["method"], message.get("params", {})
        if "id" not in message:
            self.notified.append(method)
            return
        answer = lambda result: send({"id": message["id"], "result": result})  # noqa: E731
        event = lambda method, **n: send({"method": method, "params": n})  # noqa: E731
        if method == "initialize":
            self.resumed.append(params.get("resumeSessionId"))
            answer({"sessionId": "s"})
            for id in self.started:  # an event that the client has had
                event("process/output", processId=id, seq=1, stream="stdout", chunk=base64.b64encode(b"early").decode())
        elif method == "process/start":
            id = params["processId"]
            self.started.append(id)
            event("process/output", processId=id, seq=1, stream="stdout", chunk=base64.b64encode(b"early").decode())
            answer({"processId": id})
        elif method == "process/write":
            if params["writeId"] not in self.writes:
                self.writes.append(params["writeId"])
                self.cut = len(self.writes) == 2  # and its answer is lost
            if not self.cut:
                answer({"status": "accepted"})
            if len(self.writes) == 3:
                for seq, n in ((2, "process/exited"), (3, "process/closed")):
                    event(n, processId=params["processId"], seq=seq, **({"exitCode": 4} if seq == 2 else {}))
        else:
            send({"id": message["id"], "error": {"code": -32601, "message": "method not found"}})


def unmasked(frame):
    size = frame[1] & 127
    at = 2 if size < 126 else 4 if size == 126 else 10
    mask, data = frame[at : at + 4], frame[at + 4 :]
    return bytes(b ^ mask[i % 4] for i, b in enumerate(data))


def framed(data):
    assert len(data) < 65536
    return bytes([0x81, len(data)]) + data if len(data) < 126 else bytes([0x81, 126]) + len(data).to_bytes(2, "big") + data


async def test_program_on_a_server_of_the_peer():
    async with Peer() as peer, troupe.connect(peer.url) as client:
        process = await client.start(["x"], stdin=True)
        for _ in range(3):
            await process.write(b"x")
        events = [event async for event in process]
        assert [type(e) for e in events] == [troupe.Output, troupe.Exited, troupe.Closed]
        assert events[0].data == b"early"
        assert (await process.wait())["exitCode"] == 4
        assert peer.resumed == [None, "s"]
        assert len(peer.writes) == 3
        client._ack_now()
        with pytest.raises(troupe.UnsupportedError):
            await client.groups()
        assert set(peer.notified) == {"initialized"}  # it would end the connection after any other


async def test_hole_in_the_sequence():
    """A server that leaves events out is not believed: what comes after is no output of the program."""
    async with Peer() as peer, troupe.connect(peer.url) as client:
        process = await client.start(["x"])
        events = process.events()
        assert (await events.__anext__()).data == b"early"
        process._take("process/output", {"processId": process.id, "seq": 3, "stream": "stdout", "chunk": b"later"})
        with pytest.raises(troupe.GapError, match="output 2 to 2 is lost"):
            await events.__anext__()
        assert peer.resumed == [None]  # the early event was not taken from a later connection


class Refusing(Peer):
    """A server with a name, whose first program ends at once. Its first connection ends with the first acknowledgement; the second one answers
    a request, and refuses resumeFrom afterwards."""

    def __init__(self):
        super().__init__()
        self.named = []

    def _handle(self, message, send):
        method, params = message["method"], message.get("params", {})
        if method == "initialize":
            self.named.append(params.get("resumeFrom"))
            send({"id": message["id"], "result": {"sessionId": "s", "server": {"name": "troupe"}}})
        elif method == "process/start":
            id = params["processId"]
            send({"id": message["id"], "result": {"processId": id}})
            send({"method": "process/exited", "params": {"processId": id, "seq": 1, "exitCode": 0}})
            send({"method": "process/closed", "params": {"processId": id, "seq": 2}})
        elif method == "session/ack":
            self.cut = len(self.named) == 1
        elif method == "process/list":
            send({"id": message["id"], "result": {"processes": []}})
            if len(self.named) == 2:
                self.refusal = b"resumeFrom: process x has no seq 2 yet, the last is 0"


async def test_refusal_to_resume_after_an_answer():
    """The server answers a request, and then refuses resumeFrom, because another process has the id of one that has ended for this client. The client
    resumes without naming it, although the answer has confirmed the acknowledgement of the ended one."""
    async with Refusing() as peer, troupe.connect(peer.url, json=True) as client:
        process = await client.start(["x"])
        assert len([event async for event in process]) == 2
        while len(peer.named) < 2:
            await asyncio.sleep(0.01)
        await client.processes()
        while len(peer.named) < 3:
            assert client.state.state != "ended", client.state.error
            await asyncio.sleep(0.01)
        assert await client.processes() == []
        assert peer.named == [None, {process.id: 2}, None]
