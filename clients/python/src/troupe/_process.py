"""A process of the session: its events, its streams, its stdin."""

from __future__ import annotations

import asyncio
import signal as signals
from collections import deque
from typing import TYPE_CHECKING, Any, AsyncIterator, Deque, Dict, List, Optional, Sequence, Set, Tuple, Union, cast

from . import wire
from ._events import Closed, Event, Evicted, Exited, Gap, Output, Ready, Restarted
from .errors import ExitError, GapError, ProcessGoneError, RequestError, StdinClosedError, UnknownProcessError

if TYPE_CHECKING:
    from ._client import Call, Client

#: Bytes of a write to stdin.
STDIN_CHUNK = 32 << 10
#: Writes under way at once; each waits while the program's stdin is full.
STDIN_WRITES = 4
#: What an event counts beside its output, for the bound of a queue: as on the server.
EVENT_SIZE = 128
#: The least that may wait in this client for a process before a lossy one loses output.
MIN_QUEUE = 4 << 20
#: How many events without output may wait when a lossy process loses output. Beyond that they are lost, too.
MOST_EVENTS = 1000
#: The longest line of Reader.readline.
MAX_LINE = 1 << 20

SignalName = Union[int, signals.Signals, str]


def signal_name(sig: SignalName) -> str:
    """Returns the name of a signal on the wire."""
    return sig if isinstance(sig, str) else signals.Signals(sig).name


class Signal:
    """Wakes everybody who waits for it."""

    def __init__(self) -> None:
        self._waiters: Set["asyncio.Future[None]"] = set()

    async def wait(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            await waiter
        finally:
            self._waiters.discard(waiter)

    def fire(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)


class Lane:
    """Is the queue to a consumer. The first event stays in the queue until the consumer has finished with it."""

    def __init__(self) -> None:
        self.events: Deque[Event] = deque()
        self.size = 0
        self.given = False  # the consumer has the first event
        self.busy = False  # the consumer waits

    def push(self, event: Event) -> None:
        self.events.append(event)
        self.size += _size(event)

    def pop(self) -> None:
        self.size -= _size(self.events.popleft())
        self.given = False

    def shed(self) -> None:
        """Replaces the output that waits by gaps; everything by one gap if many other events wait, too."""
        others = sum(not isinstance(event, (Output, Gap)) for event in self.events)
        kept: Deque[Event] = deque()
        for i, event in enumerate(self.events):
            if i == 0 and self.given or others <= MOST_EVENTS and not isinstance(event, (Output, Gap)):
                kept.append(event)
                continue
            size = len(event.data) if isinstance(event, Output) else event.size if isinstance(event, Gap) else 0
            last = kept[-1] if kept else None
            if isinstance(last, Gap) and last.reason == FELL_BEHIND and (len(kept) > 1 or not self.given):
                kept[-1] = Gap(last.from_seq, event.seq, last.size + size, FELL_BEHIND)
            else:
                kept.append(Gap(_first(event), event.seq, size, FELL_BEHIND))
        self.events, self.size = kept, sum(map(_size, kept))


FELL_BEHIND = "the consumer fell behind"


def _size(event: Event) -> int:
    return EVENT_SIZE + len(event.data) if isinstance(event, Output) else EVENT_SIZE


def _first(event: Event) -> int:
    return event.from_seq if isinstance(event, Gap) else event.seq


class Process:
    """Is a process of the session. Client.start and Client.attach make it.

    A process is an async iterator of its events, in order, each exactly once over any number of cuts. In place of the
    events, stdout and stderr give the bytes alone: choose one of the two. The client acknowledges an event when the
    iteration asks for the next one, so the server keeps what the program of this client has not finished with, and a
    slow consumer slows down its program, and no other.
    """

    def __init__(self, client: "Client", process_id: str, retention: int, lossy: bool) -> None:
        self._client = client
        #: The id of the process in its session.
        self.id = process_id
        #: How the last run has ended, as far as events have come; None: it has not.
        self.status: Optional[wire.ExitStatus] = None
        #: The current run, as far as events have come; 0: unknown.
        self.run = 0
        #: Why the server does not run the program again; empty: no other run was due.
        self.given_up = ""

        self._retention = retention
        self._lossy = lossy
        self._hold = False
        self._instance = ""
        self._restarts = False
        self._most = 0

        self._started = False  # the server has confirmed the process
        self._unnamed = False  # the events on this connection may be those of another process, or from the middle: none counts
        self._missed = False  # events came while unnamed
        self.took = 0  # bytes that were consumed and not yet counted for an acknowledgement
        self._last = 0  # the seq of the last event that has come
        self._acked = 0  # everything up to this seq was consumed
        self._end = 0  # the seq of the end of a run
        self._closed = False  # the server has no more to send
        self._failure: Optional[BaseException] = None  # why no more comes
        self._discard = False
        self._lanes: List[Lane] = [Lane()]
        self._split = False  # the lanes are stdout and stderr
        self._stdout: Optional[Reader] = None
        self._stderr: Optional[Reader] = None
        self._changed = Signal()  # an event has come, or the process is over

    def __repr__(self) -> str:
        return "<troupe.Process %s>" % self.id

    # Output.

    def __aiter__(self) -> AsyncIterator[Event]:
        return self.events()

    def events(self) -> AsyncIterator[Event]:
        """Returns the events from where the last iteration has ended. One iteration at a time."""
        if self._split:
            raise RuntimeError("process %s: its streams are read: they take all its output" % self.id)
        return _Events(self, self._lanes[0])

    @property
    def stdout(self) -> "Reader":
        """The output of stdout, or of the terminal, as bytes. Read stderr, too: what is not read holds up the program."""
        self._separate()
        return cast(Reader, self._stdout)

    @property
    def stderr(self) -> "Reader":
        """The output of stderr as bytes."""
        self._separate()
        return cast(Reader, self._stderr)

    def _separate(self) -> None:
        if self._split:
            return
        events = self._lanes[0]
        if events.given:
            raise RuntimeError("process %s: its events are read: they have all its output" % self.id)
        self._split = True
        self._lanes = [Lane(), Lane()]
        self._stdout, self._stderr = Reader(self, self._lanes[0]), Reader(self, self._lanes[1])
        for event in events.events:
            self._push(event)
        self._acknowledge()

    def discard(self) -> None:
        """Drops the output that has come, and what is yet to come: the program waits for nobody. The end is still known."""
        self._discard = True
        for lane in self._lanes:
            lane.events.clear()
            lane.size, lane.given = 0, False
        self._acknowledge()
        self._changed.fire()

    async def communicate(self, data: Optional[bytes] = None) -> Tuple[bytes, bytes]:
        """Writes data to stdin and closes it, and returns all output of stdout (or the terminal) and stderr.

        A program that has ended, or closed its stdin, takes no more data: that is no error.
        """
        feeding = asyncio.ensure_future(self._feed(data)) if data is not None else None
        try:
            out, err = await _both(self.stdout.read(), self.stderr.read())
            if feeding is not None:
                await feeding
        finally:
            if feeding is not None:
                feeding.cancel()
        return out, err

    async def _feed(self, data: bytes) -> None:
        try:
            if data:
                await self.write(data)
            await self.close_stdin()
        except (StdinClosedError, ProcessGoneError):
            pass
        except RequestError as error:
            if error.kind != "ended":
                raise

    # Input.

    async def write(self, data: bytes) -> None:
        """Writes data to stdin, and returns when the server has taken all of it: while the queue of stdin is full, it waits.

        Over any number of cuts the program gets the data once. A write that is cancelled may have written a part.
        """
        name = self._client._random()
        view = memoryview(data).cast("B")
        under_way: Deque["Call"] = deque()
        try:
            for n, at in enumerate(range(0, max(len(view), 1), STDIN_CHUNK)):
                if len(under_way) == STDIN_WRITES:
                    self._written(await under_way[0].future)
                    under_way.popleft()
                params = {"processId": self.id, "chunk": bytes(view[at : at + STDIN_CHUNK]), "writeId": "%s-%d" % (name, n)}
                under_way.append(self._client._send("process/write", params))
            while under_way:
                self._written(await under_way[0].future)
                under_way.popleft()
        finally:
            for call in under_way:
                self._client._leave(call)

    def _written(self, result: wire.ProcessWriteResult) -> None:
        status = result.get("status", "accepted")
        if status == "unknownProcess":
            raise UnknownProcessError("process/write", 0, "unknown process id %s" % self.id, {"kind": "unknownProcess"})
        if status != "accepted":
            raise StdinClosedError("process/write", 0, "the stdin of process %s is closed" % self.id, {"kind": "stdinClosed"})

    async def close_stdin(self) -> None:
        """Closes stdin after all earlier writes. A program in a terminal gets the end-of-file character."""
        await self._change("process/closeStdin")

    # The program.

    async def _change(self, method: str, **members: Any) -> Any:
        return await self._client.request(method, {"processId": self.id, "requestId": self._client._random(), **members})

    async def resize(self, rows: int, cols: int) -> None:
        """Sets the size of the terminal."""
        await self._change("process/resize", size={"rows": rows, "cols": cols})

    async def signal(self, sig: SignalName) -> None:
        """Sends a signal to the process group of the program: a number, signal.SIGTERM, or a name. No error if it has ended."""
        await self._change("process/signal", signal=signal_name(sig))

    async def terminate(self, grace: float = 0.0) -> bool:
        """Asks the program to end with its stop signal, and kills it and its descendants after grace, in seconds.

        With 0 they are killed at once, and terminate returns when they are gone. The result says whether the program was running.
        """
        members: Dict[str, Any] = {"tree": True}
        if grace > 0:
            members["graceMs"] = int(grace * 1000 + 0.999)
        return bool((await self._change("process/terminate", **members)).get("running"))

    async def kill(self) -> bool:
        """Kills the program and all its descendants."""
        return await self.terminate()

    async def restart(self) -> None:
        """Ends the run and begins the next one, whatever the policy says. For a process that was started with restart."""
        await self._change("process/restart")

    async def set_restart(self, restart: wire.Restart) -> None:
        """Replaces the restart policy, from the next end on."""
        await self._change("process/setRestart", restart=restart)

    async def info(self) -> wire.ProcessInfoResult:
        """Returns the state of the process, its resource usage, and why it is quiet."""
        return await self._client.call("process/info", {"processId": self.id})

    async def screen(
        self,
        *,
        wait_for: Optional[str] = None,
        quiet: float = 0.0,
        after: int = 0,
        timeout: Optional[float] = None,
        scrollback: int = 0,
        spans: bool = False,
        restore: bool = False,
    ) -> wire.ProcessScreenResult:
        """Returns the screen of a program on a terminal, at once, or when all conditions hold.

        wait_for: a regular expression (RE2) that matches its lines; quiet: nothing was written for so many seconds; after: output
        with a greater seq. After timeout seconds (None: until the program ends) the screen is as it is, with matched false.
        """
        waits = bool(wait_for or quiet or after)
        params: wire.ProcessScreenParams = {"processId": self.id, "scrollback": scrollback, "spans": spans, "restore": restore}
        if wait_for:
            params["waitFor"] = wait_for
        if quiet:
            params["quietMs"] = int(quiet * 1000)
        if after:
            params["afterSeq"] = after
        if waits:
            params["waitMs"] = 1 << 62 if timeout is None else int(timeout * 1000)
        if self._instance:
            params["instance"] = self._instance
        return await self._client.call("process/screen", params)

    async def read(self, after: int = 0, max_bytes: Optional[int] = None, wait: float = 0.0) -> wire.ProcessReadResult:
        """Returns output that the server holds, after a seq, and consumes nothing. wait: seconds to wait if there is nothing."""
        params: wire.ProcessReadParams = {"processId": self.id, "afterSeq": after, "waitMs": int(wait * 1000)}
        if max_bytes is not None:
            params["maxBytes"] = max_bytes
        if self._instance:
            params["instance"] = self._instance
        return await self._client.call("process/read", params)

    async def wait(self, check: bool = False) -> wire.ExitStatus:
        """Waits for the end of the last run, and returns how it ended. With check, a failed program is an ExitError.

        The output may still be read afterwards. A program that writes more than its retention waits for somebody to read
        it, and does not end: iterate, or discard.
        """
        status = await self._wait()
        if check and (status["exitCode"] != 0 or self.given_up):
            raise ExitError(self.id, status, self.given_up)
        return status

    async def _wait(self) -> wire.ExitStatus:
        if not self._restarts:  # the events tell, and no request of this client waits
            while not self._over() and self.status is None:
                await self._changed.wait()
        elif not self._over():
            params: wire.ProcessWaitParams = {"processId": self.id}
            if self._instance:
                params["instance"] = self._instance
            try:
                result = await self._client.call("process/wait", params)
                if "status" in result:
                    return result["status"]
            except RequestError:
                if self.status is None:
                    raise
        if self.status is not None:
            return self.status
        raise self._failure or ProcessGoneError("process %s has ended, and the server no longer had its exit status" % self.id)

    async def closed(self) -> None:
        """Waits until the server has sent the last event. The events may still be read."""
        while not self._over():
            await self._changed.wait()
        if self._failure is not None:
            raise self._failure

    def _over(self) -> bool:
        return self._closed or self._failure is not None

    # The sequence. Everything below is called by the client.

    def _named(self) -> bool:
        """Reports whether the client subscribes by a request of its own, also after a resume."""
        return bool(self._instance) or self._hold

    def _most_queued(self) -> int:
        """Returns how many bytes may wait here. A program that loses nothing stays far below, because the server waits."""
        return max(MIN_QUEUE, 2 * self._retention, self._most)

    def _queued(self) -> int:
        return sum(lane.size for lane in self._lanes)

    def _take(self, method: str, n: Dict[str, Any]) -> bool:
        """Applies a notification, and reports whether it was new."""
        to = n["seq"]
        first = n["fromSeq"] if method == "process/gap" else to
        if to <= self._last or self._closed:
            return False
        if first > self._last + 1 and not self._discard:
            self._fail(GapError(self.id, self._last + 1, first - 1, 0, "the server reported no gap"))
        self._last = to
        self._apply(method, n)
        self._acknowledge()
        self._changed.fire()
        return True

    def _apply(self, method: str, n: Dict[str, Any]) -> None:
        seq = n["seq"]
        if method == "process/output":
            if self._lossy and self._queued() > self._most_queued():
                for lane in self._lanes:
                    lane.shed()
            self._push(Output(seq, n["stream"], n["chunk"], self.run, n.get("atMs", 0)))
        elif method == "process/exited":
            members, self._end = wire.ExitStatus.__annotations__, seq
            self.status = cast(wire.ExitStatus, {k: v for k, v in n.items() if k in members})
            self._push(Exited(seq, self.status, bool(n.get("sandboxDenied"))))
        elif method == "process/restarted":
            self.status, self.run = None, n["run"]
            self._push(Restarted(seq, n["run"], n.get("reason", ""), n.get("delayMs", 0), n.get("stdinLostBytes", 0)))
        elif method == "process/ready":
            self._push(Ready(seq, n["run"]))
        elif method == "process/gap":
            self.run = 0  # another run may have begun, and ended
            if self._restarts:
                self.status = None
            self._push(Gap(n["fromSeq"], seq, n.get("bytes", 0), n.get("reason", "")))
        elif method == "process/evicted":
            self._push(Evicted(seq, n.get("reason", "")))
            if self.status is None:
                self._fail(ProcessGoneError("the server does not hold process %s: %s" % (self.id, n.get("reason", ""))))
            else:
                self.given_up = n.get("reason", "")
        elif method == "process/closed":
            self._push(Closed(seq))
            self._close()

    def _push(self, event: Event) -> None:
        if self._discard or self._failure is not None:
            return
        if not self._split:
            self._lanes[0].push(event)
        elif isinstance(event, Output):
            self._lanes[event.stream == "stderr"].push(event)
        elif isinstance(event, Gap):
            self._lanes[0].push(event)

    def _close(self) -> None:
        self._closed = True
        self._client._forget(self)
        self._changed.fire()

    def _fail(self, why: BaseException) -> None:
        """Records why this client gets no more. What has come may still be read."""
        if self._closed or self._failure is not None:
            return
        self._failure = why
        self._changed.fire()
        self._client._room.fire()

    def _compare(self, info: wire.ProcessInfo) -> None:
        """Takes what the server says of the process: the end may be in events that have come before."""
        if self.status is None and "status" in info:
            self.status = info["status"]
        if info.get("state") == "closed" and info.get("nextSeq", 0) <= self._last + 1:
            self._close()

    def _consumed(self, lane: Lane) -> None:
        """The consumer has finished with the first event of a lane."""
        self.took += _size(lane.events[0])
        lane.pop()
        self._acknowledge()
        self._client._room.fire()

    def _acknowledge(self) -> None:
        seq = self._last
        for lane in self._lanes:
            if lane.events:
                seq = min(seq, _first(lane.events[0]) - 1)
        if seq > self._acked:
            self._acked = seq
            self._client._acknowledge(self, seq)
            self._changed.fire()

    async def _exited(self) -> None:
        """Waits until a run has ended, and its output was consumed."""
        while self._failure is None and (not self._closed if self.status is None else self._acked < self._end):
            await self._changed.wait()


class _Events(AsyncIterator[Event]):
    def __init__(self, process: Process, lane: Lane) -> None:
        self._process = process
        self._lane = lane

    async def __anext__(self) -> Event:
        process, lane = self._process, self._lane
        if process._split:
            raise RuntimeError("process %s: its streams are read: they take all its output" % process.id)
        if lane.busy:
            raise RuntimeError("process %s: two iterations at a time" % process.id)
        if lane.given:
            process._consumed(lane)
        lane.busy = True
        try:
            while not lane.events:
                if process._failure is not None:
                    raise process._failure
                if process._closed:
                    raise StopAsyncIteration
                await process._changed.wait()
        finally:
            lane.busy = False
        lane.given = True
        return lane.events[0]


class Reader(AsyncIterator[bytes]):
    """Reads a stream of a process as bytes. An iteration gives its lines. Lost output is a GapError, once, in its place."""

    def __init__(self, process: Process, lane: Lane) -> None:
        self._process = process
        self._lane = lane
        self._rest = b""  # of the first event; bytes that a cancelled call gave back before it
        self._at = 0  # how much of _rest was read

    async def _some(self) -> bool:
        """Waits for bytes in _rest after _at. False: the end."""
        process, lane = self._process, self._lane
        while True:
            if self._at < len(self._rest):
                return True
            if lane.given:
                process._consumed(lane)
            self._rest, self._at = b"", 0
            if lane.events:
                event = lane.events[0]
                lane.given = True
                if isinstance(event, Output):
                    self._rest = event.data
                elif isinstance(event, Gap):
                    process._consumed(lane)
                    raise GapError(process.id, event.from_seq, event.seq, event.size, event.reason)
            elif process._failure is not None:
                raise process._failure
            elif process._closed:
                return False
            else:
                await process._changed.wait()

    def _take(self, end: int) -> bytes:
        """Takes the bytes of _rest up to end. What is read to its end is consumed."""
        some = self._rest[self._at : end]
        self._at = end
        if self._at >= len(self._rest) and self._lane.given:
            self._process._consumed(self._lane)
        return some

    def _back(self, parts: Sequence[bytes]) -> None:
        """Gives bytes back that a call has taken which fails."""
        self._rest, self._at = b"".join([*parts, self._rest[self._at :]]), 0

    async def read(self, n: int = -1) -> bytes:
        """Returns up to n bytes, as soon as there are some; empty at the end. With -1 everything until the end."""
        if n >= 0:
            return self._take(min(self._at + n, len(self._rest))) if await self._some() else b""
        parts: List[bytes] = []
        try:
            while await self._some():
                parts.append(self._take(len(self._rest)))
        except BaseException:
            self._back(parts)
            raise
        return b"".join(parts)

    async def peek(self) -> bytes:
        """Returns the bytes that have come, as soon as there are some, and leaves them; empty at the end. took takes them."""
        return self._rest[self._at :] if await self._some() else b""

    def took(self, n: int) -> None:
        """Takes n bytes that peek has returned."""
        self._take(self._at + n)

    async def readline(self, limit: int = MAX_LINE) -> bytes:
        """Returns a line with its newline, or its first limit bytes; without a newline: the end of the stream."""
        parts: List[bytes] = []
        size = 0
        try:
            while size < limit and await self._some():
                end = self._rest.find(b"\n", self._at) + 1 or len(self._rest)
                parts.append(self._take(min(end, self._at + limit - size)))
                size += len(parts[-1])
                if parts[-1].endswith(b"\n"):
                    break
        except BaseException:
            self._back(parts)
            raise
        return b"".join(parts)

    async def __anext__(self) -> bytes:
        line = await self.readline()
        if not line:
            raise StopAsyncIteration
        return line


async def _both(one: Any, other: Any) -> Tuple[bytes, bytes]:
    """Waits for both, and cancels the other if one fails."""
    tasks = [asyncio.ensure_future(one), asyncio.ensure_future(other)]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    return tasks[0].result(), tasks[1].result()
