"""A TCP proxy before a server that knows where messages begin and end, and cuts connections there."""

import asyncio
import struct
from urllib.parse import urlsplit


class Cutter:
    """Joins clients with a server. plan(connection, direction, message) says what becomes of a message: None passes it on, "before" cuts
    in place of the message, "after" cuts once it was passed on, "within" passes on a half, "reset" cuts at once, so earlier messages may be
    lost, too. Numbers count from 1; direction is up or down.
    """

    def __init__(self, url, plan):
        self._target = urlsplit(url)
        self._plan = plan
        self._tasks = set()
        self.connections = 0
        self.cuts = 0

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._joined, "127.0.0.1", 0)
        self.url = "ws://127.0.0.1:%d" % self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc):
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _joined(self, reader, writer):
        task = asyncio.current_task()
        self._tasks.add(task)
        self.connections += 1
        connection = self.connections
        far = None
        try:
            far_reader, far = await asyncio.open_connection(self._target.hostname, self._target.port)
            ways = [
                asyncio.ensure_future(self._copy(connection, "up", reader, far)),
                asyncio.ensure_future(self._copy(connection, "down", far_reader, writer)),
            ]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.wait(ways)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            for one in (writer, far):
                if one is not None:
                    one.transport.abort()
            self._tasks.discard(task)

    async def _copy(self, connection, direction, reader, writer):
        try:
            writer.write(await reader.readuntil(b"\r\n\r\n"))
            message = 0
            while True:
                opcode, frame = await read_frame(reader)
                does = None
                if opcode < 8:  # a message, not a ping, a pong or a close
                    message += 1
                    does = self._plan(connection, direction, message)
                if does == "within":
                    writer.write(frame[: len(frame) // 2])
                elif does in (None, "after"):
                    writer.write(frame)
                await writer.drain()
                if does is not None:
                    self.cuts += 1
                    if does != "reset":
                        writer.transport.set_write_buffer_limits(0)
                        await writer.drain()  # what was passed on has left
                        writer.write_eof()
                        while await reader.read(65536):  # until the one that has seen the end closes its side
                            pass
                    return
        except (OSError, asyncio.IncompleteReadError):
            pass


async def read_frame(reader):
    """Reads a frame, and returns its opcode and all its bytes."""
    head = await reader.readexactly(2)
    size = head[1] & 127
    if size == 126:
        head += await reader.readexactly(2)
        size = struct.unpack(">H", head[2:4])[0]
    elif size == 127:
        head += await reader.readexactly(8)
        size = struct.unpack(">Q", head[2:10])[0]
    if head[1] & 128:
        head += await reader.readexactly(4)
    return head[0] & 15, head + await reader.readexactly(size)
