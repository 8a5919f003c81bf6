"""The client: a session on a server, over any number of connections."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import random
import secrets
import signal as signals
import ssl as tls
import subprocess
import time
from dataclasses import dataclass, field
from typing import (
    Any,
    AsyncIterator,
    Awaitable,
    Callable,
    Deque,
    Dict,
    Generator,
    List,
    Mapping,
    Optional,
    Sequence,
    Set,
    Tuple,
    Union,
    cast,
)
from urllib.parse import quote

from . import _codec, _link, _own, wire
from ._events import LinkState
from ._files import Files
from ._process import Process, Signal
from .errors import (
    AttachedError,
    ClosedError,
    ConnectError,
    CutError,
    ProcessGoneError,
    RequestError,
    SessionGoneError,
    TroupeError,
    UnauthorizedError,
    refusal,
)

FIRST_DELAY = 0.1
MAX_DELAY = 2.0
#: For one connection and its handshake. Two of three attempts to resume get only SHORT_TIMEOUT: an attempt begun while the network
#: was down may hang after the network is back.
ATTEMPT_TIMEOUT = 10.0
SHORT_TIMEOUT = 3.0
#: How many cuts the first connection takes.
FIRST_CUTS = 3
#: How many closed processes are remembered until the server has their acknowledgement.
MOST_OVER = 10_000
ACK_EVERY = 64 << 10
ACK_AFTER = 0.02
#: How long the last messages of the server may still be read after the server has closed its side.
LAST_WORDS = 2.0

Token = Union[str, Callable[[], Union[str, Awaitable[str]]], None]
Path = Union[str, "os.PathLike[str]"]


@dataclass
class Program:
    """Is a program to start, with its options. Zero values are the defaults of the server."""

    #: The program and its arguments. Empty with login: the login shell of the user.
    args: Sequence[Union[str, "os.PathLike[str]"]]
    #: The working directory, absolute on the server, or ~ or ~/PATH. None: that of the server, with login the home.
    cwd: Optional[Path] = None
    #: The whole environment. None: that of the server, without variables whose names suggest a secret.
    env: Optional[Mapping[str, str]] = None
    #: Gives the program a pipe as stdin: see Process.write. Otherwise stdin is /dev/null. A terminal always has input.
    stdin: bool = False
    #: Runs the program in a terminal of so many rows and columns.
    tty: Optional[Tuple[int, int]] = None
    #: The name of the process in its session. None: a random one.
    id: Optional[str] = None
    #: Sends stderr into the pipe of stdout: all output is then stdout, in the order written.
    merge_stderr: bool = False
    #: How long a run may take, in seconds, before the server ends it.
    timeout: Optional[float] = None
    #: When the program runs again: {"policy": "permanent"}.
    restart: Optional[wire.Restart] = None
    #: How much output the server keeps, and what it does when that is full.
    retention: Optional[wire.Retention] = None
    #: When a run counts as ready, and as dead.
    ready: Optional[wire.Ready] = None
    liveness: Optional[wire.Liveness] = None
    #: In a group: the ids of processes that must be ready before.
    depends_on: Sequence[str] = ()
    #: In a group: for people.
    label: Optional[str] = None
    #: Further members of process/start, as wire.ProcessStartParams has them: user, login, limits, sandbox, envPolicy, and so on.
    members: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class _Options:
    """What connect was given."""

    name: str
    token: Token
    role: Optional[wire.Role]
    session: Optional[str]
    takeover: bool
    wait_for_owner: float
    new_session: wire.SessionOptions
    placement: Optional[wire.Placement]
    ssl: Optional[tls.SSLContext]
    json: bool
    times: bool
    hold_back: bool
    reconnect_for: float
    ping_every: float
    dead_after: float
    on_state: Optional[Callable[[LinkState], None]]
    on_notification: Optional[Callable[[str, Dict[str, Any]], None]]

    @property
    def beside(self) -> bool:
        """Whether the client attaches beside the owner. The server keeps no output for such a client."""
        return self.role in ("observer", "controller", "typist")


class Call:
    """Is a request. If the connection breaks before the answer, the client sends it again on the next one."""

    def __init__(self, method: str, params: Optional[Mapping[str, Any]]) -> None:
        self.method = method
        self.params = params
        self.future: "asyncio.Future[Any]" = asyncio.get_running_loop().create_future()
        self.once = False  # about its connection alone, and not sent again; nobody waits
        self.bound = 0  # the only connection for it; 0: any
        self.silent = False  # not sent: a notification is its answer
        self.kept = False  # who no longer waits does not take it back once it is sent
        self.left = False  # nobody waits any more
        self.n = 0  # the order of sending
        self.sends = 0  # on how many connections it was sent
        self.sent = False
        self.done: Optional[Callable[[Optional[BaseException], Any], None]] = None  # called once, before the future has its result

    def end(self, error: Optional[BaseException], result: Any = None) -> None:
        if self.done is not None:
            self.done(error, result)
        if self.future.done():
            return
        if error is None:
            self.future.set_result(result)
            return
        self.future.set_exception(error)
        if self.once or self.left:
            self.future.exception()  # nobody waits: it counts as retrieved


class _Pace:
    """Says how long to wait before the next attempt to resume."""

    def __init__(self) -> None:
        self.since = time.monotonic()
        self.delay = 0.0
        self.attempts = 0

    def next(self) -> float:
        delay = self.delay
        self.delay = min(max(FIRST_DELAY, 2 * delay), MAX_DELAY)
        self.attempts += 1
        return delay / 2 + random.uniform(0, delay / 2)

    def timeout(self) -> float:
        return SHORT_TIMEOUT if self.attempts % 3 else ATTEMPT_TIMEOUT


class Client(wire.Calls):
    """Is a session on a server. connect makes it.

    The client resumes a lost connection by itself. Over any number of cuts, each event of a process comes once, in order;
    a program gets each byte of input once; and requests without an answer are sent again, and done once. All methods belong
    to the event loop of connect. A task may be cancelled at each await.
    """

    def __init__(self, url: str, options: _Options, own: bool) -> None:
        self._url = url
        self._o = options
        self._own = own
        self._log = logging.getLogger("troupe")
        self._hello: wire.InitializeResult = cast(wire.InitializeResult, {})
        self._link: Optional[_link.Link] = None
        self._link_n = 0  # counts the connections
        self._heard = 0  # messages and pongs on this connection
        self._away = False  # the reader does not read, because a consumer is behind
        self._error: Optional[BaseException] = None  # why the client has ended
        self._evicted: Optional[BaseException] = None
        self._closing = False  # close_session was called
        self._ended = False  # the server has answered session/close
        self._progress = False  # this connection has achieved something
        self._next = 0
        self._pending: Dict[int, Call] = {}
        self._outbound: Deque[Call] = Deque()
        self._processes: Dict[str, Process] = {}
        self._acks: Dict[str, int] = {}
        # The acknowledgements of closed processes that a cut may yet lose: seq, and the call whose answer shows that it has come.
        self._last_acks: Dict[str, Tuple[int, int]] = {}
        # The last seq of closed processes whose acknowledgement may not have come yet: of those that resumeFrom does not name, the
        # server would send everything again.
        self._over: Dict[str, int] = {}
        self._over_named = False  # resumeFrom of this connection, or of the last attempt to make one, names some of these
        self._ack_bytes = 0
        self._ack_due = False
        self._ack_timer: Optional[asyncio.TimerHandle] = None
        self._wake = asyncio.Event()  # the writer has something to do
        self._runner: Optional["asyncio.Task[None]"] = None
        self._tasks: Set["asyncio.Task[Any]"] = set()
        self._watch: Optional["Watch"] = None
        self._attempt_made = Signal()
        # Fires when there is room again for the output of a process. For the reader.
        self._room = Signal()
        self._stated = Signal()
        #: How the connection is.
        self.state = LinkState("lost")
        #: The files of the server.
        self.files = Files(self)

    # The life of the client.

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Leaves the session. Its programs go on until the detached TTL of the session passes, and resume comes back to it."""
        if self._runner is not None and not self._runner.done():
            self._runner.cancel()
            await asyncio.wait([self._runner])
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def close_session(self) -> None:
        """Ends the session with all its programs, and closes the client. If programs survive, the error names them."""
        self._closing = True
        try:
            for process in list(self._processes.values()):
                process._fail(ClosedError("the session was closed"))
            await self.request("session/close", {})
        except SessionGoneError:
            pass
        finally:
            await self.close()

    @property
    def session_id(self) -> str:
        """The id of the session, for connect(session=…)."""
        return self._hello["sessionId"]

    @property
    def server(self) -> wire.InitializeResult:
        """What the server has said of itself and the session, at the last connection."""
        return self._hello

    async def states(self) -> AsyncIterator[LinkState]:
        """Yields how the connection is, at once and after each change. Who is slow gets the newest only. Ends with the client."""
        seen: Optional[LinkState] = None
        while True:
            while seen is self.state:
                await self._stated.wait()
            seen = self.state
            yield seen
            if seen.state == "ended":
                return

    def _set_state(self, state: LinkState) -> None:
        self.state = state
        self._stated.fire()
        self._log.info("%s %s%s", self._hello.get("sessionId", self._url), state.state, ": %s" % state.error if state.error else "")
        self._tell(self._o.on_state, state)

    def _tell(self, call: Optional[Callable[..., None]], *args: Any) -> None:
        """Calls a function of the caller. Its failure is not ours."""
        if call is None:
            return
        try:
            call(*args)
        except Exception:
            self._log.exception("a callback has failed")

    # The link.

    async def _open(self) -> None:
        """Opens or resumes the session. For connect."""
        link = await self._first()
        self._runner = asyncio.ensure_future(self._run(link))

    async def _first(self) -> _link.Link:
        pace = _Pace()
        pace.next()
        cuts = 0
        while True:
            try:
                return await self._connect(ATTEMPT_TIMEOUT)
            except AttachedError:
                if time.monotonic() - pace.since >= self._o.wait_for_owner:
                    raise
            except ConnectError as error:
                cuts += 1
                if not _link.cut(error) or cuts > FIRST_CUTS:
                    raise
            await asyncio.sleep(pace.next())

    async def _run(self, link: _link.Link) -> None:
        """Keeps the session attached until the client ends."""
        pace: Optional[_Pace] = None
        error: BaseException
        try:
            while True:
                began = time.monotonic()
                lost = await self._serve(link)
                after = self._after(lost)
                if after is not None:
                    raise after
                if pace is None or self._progress or time.monotonic() - began >= min(ATTEMPT_TIMEOUT, self._o.reconnect_for):
                    pace = _Pace()
                self._progress = False
                link = await self._resume(pace, lost)
        except asyncio.CancelledError:
            error = ClosedError("the client is closed")
        except TroupeError as why:
            error = why
        except BaseException as why:  # a fault of ours: whoever waits hears of it
            self._log.exception("the client has failed")
            error = why
        self._end(error)

    def _after(self, lost: BaseException) -> Optional[BaseException]:
        """Returns the error with which the client ends; None: another connection follows."""
        if self._ended:
            return ClosedError("the session was closed")
        if self._evicted is not None:
            return self._evicted
        final = self._final(lost)
        if final is None and self._o.reconnect_for < 0:
            return ConnectError("the connection was lost: %s" % lost)
        return final

    def _final(self, lost: BaseException) -> Optional[BaseException]:
        """Returns why another connection is pointless; None: it is not."""
        final = _final(lost)
        if isinstance(final, ProcessGoneError) and self._over_named:
            self._over.clear()  # perhaps another process has the id of one of these by now
            return None
        return final

    def _end(self, error: BaseException) -> None:
        """Fails whatever waits. Output that has come may still be read."""
        self._error = ClosedError("the session was closed") if self._closing else error
        calls, self._pending = list(self._pending.values()), {}
        for process in list(self._processes.values()):
            process._fail(self._error)
        if self._watch is not None:
            self._watch._fail(self._error)
        for call in calls:
            call.end(error if call.method == "session/close" else self._error)
        if self._ack_timer is not None:
            self._ack_timer.cancel()
        self._attempt_made.fire()
        self._set_state(LinkState("ended", self._error))

    async def _resume(self, pace: _Pace, lost: BaseException) -> _link.Link:
        error = lost
        while True:
            since = time.monotonic() - pace.since
            if pace.delay > 0 and since > self._o.reconnect_for:
                raise ConnectError(
                    "the connection was lost (%s), and not resumed within %g s: %s" % (lost, self._o.reconnect_for, error)
                ) from error
            delay = pace.next()
            self._set_state(LinkState("lost", error, pace.attempts, delay, since))
            await asyncio.sleep(delay)
            try:
                return await self._connect(pace.timeout())
            except (UnauthorizedError, SessionGoneError):
                raise
            except RequestError as why:
                if why.code != -32603 and not isinstance(why, AttachedError):
                    raise
                error = why
            except TroupeError as why:
                final = self._final(why)
                if final is not None:
                    raise final
                error = why

    async def _connect(self, timeout: float) -> _link.Link:
        """Makes a single attempt to open a connection and to initialize."""
        opened: List[_link.Link] = []
        try:
            link: _link.Link = await asyncio.wait_for(self._introduce(opened), timeout)
            return link
        except asyncio.TimeoutError:
            _abort(opened)
            raise ConnectError("%s has not answered within %g s" % (self._url, timeout)) from None
        except BaseException:
            _abort(opened)
            raise

    async def _introduce(self, opened: List[_link.Link]) -> _link.Link:
        token = self._o.token() if callable(self._o.token) else self._o.token
        if inspect.isawaitable(token):
            token = await token
        if token:
            _link.check_token(self._url, str(token))
        try:
            link = await _link.dial(self._url, str(token or ""), self._o.ssl, self._o.json)
        except ConnectError as error:
            if self._own and self._hello and isinstance(error.__cause__, (FileNotFoundError, ConnectionRefusedError)):
                raise SessionGoneError("your own server has ended: %s" % error) from error
            raise
        opened.append(link)
        params = self._introduction()
        try:
            await link.send(link.codec.encode({"id": 0, "method": "initialize", "params": params}))
            answer = await link.receive()
        except (OSError, _link.ConnectionClosed) as error:
            raise ConnectError("initialize: the connection was lost: %s" % error) from error
        if not isinstance(answer, dict) or answer.get("id") != 0:
            raise ConnectError("initialize: answered by another message: %s is not a troupe server" % self._url)
        if "error" in answer:
            refused = refusal("initialize", answer["error"])
            if "resumeSessionId" in params and refused.code == -32600 and not isinstance(refused, SessionGoneError):
                raise SessionGoneError(str(refused)) from refused
            raise refused
        self._hello = answer["result"]
        try:
            await link.send(link.codec.encode({"method": "initialized"}))
        except (OSError, _link.ConnectionClosed) as error:
            raise ConnectError("initialized: the connection was lost: %s" % error) from error
        return link

    def _introduction(self) -> wire.InitializeParams:
        """Returns the params of initialize: the session to resume, and the last seq of each process."""
        heard = self._o.on_notification is not None
        params: wire.InitializeParams = {
            "clientName": self._o.name,
            "capabilities": {
                "gap": True,
                "restarted": True,
                "ready": True,
                "ack": True,
                "onlyNamed": True,
                "times": self._o.times,
                "groups": heard,
                "changes": heard,
            },
        }
        if self._o.role is not None:
            params["role"] = self._o.role
        if self._hello:
            params["resumeSessionId"], params["takeover"] = self._hello["sessionId"], not self._o.beside
        elif self._o.session:
            params["resumeSessionId"], params["takeover"] = self._o.session, self._o.takeover
        else:
            if self._o.new_session:
                params["session"] = self._o.new_session
            if self._o.placement is not None:
                params["placement"] = self._o.placement
        resume, self._over_named = dict(self._over), bool(self._over)
        for process in self._processes.values():
            if not process._started and process._last > 0:  # of attach: the process may have no such seq
                continue
            if process._named():  # resumeFrom would take any process with the id
                process._unnamed = True
                continue
            resume[process.id] = process._last
            process._missed = False
            if process._started:
                process._unnamed = False
        if resume and "resumeSessionId" in params:
            params["resumeFrom"] = resume
        return params

    async def _serve(self, link: _link.Link) -> BaseException:
        """Reads a connection until it ends, and returns why it has ended."""
        self._attach(link)
        self._set_state(LinkState("connected"))
        reader = asyncio.ensure_future(self._read(link))
        others = [asyncio.ensure_future(self._write(link)), asyncio.ensure_future(self._pulse(link))]
        tasks = [reader, *others]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if others[0] in done and not reader.done():
                await asyncio.wait([reader], timeout=LAST_WORDS)
            for task in (reader, others[1], others[0]):
                if task.done():
                    return task.exception() or ConnectError("the connection has ended")
            return ConnectError("the connection has ended")
        except asyncio.CancelledError:
            await link.close()
            raise
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            for task in tasks:
                if not task.cancelled():
                    task.exception()
            link.abort()
            self._detach()

    def _attach(self, link: _link.Link) -> None:
        """Makes link the connection of the session. Each call without an answer is sent again, in order, and all acknowledgements."""
        self._link = link
        self._link_n += 1
        self._heard = 0
        self._attempt_made.fire()
        for process_id, (seq, _) in list(self._last_acks.items()):
            if process_id in self._processes:  # a later process: the server has forgotten the closed one
                del self._last_acks[process_id]
                continue
            self._acks[process_id] = seq
            self._last_acks[process_id] = (seq, 0)
        held: List[Process] = []
        again: List[Call] = []
        for process in self._processes.values():
            if not process._started:
                continue
            if process._acked > 0:
                self._acks[process.id] = process._acked
            if process._named():
                again.append(self._subscription(process))
            else:
                held.append(process)
        self._ack_due = bool(self._acks)
        for n, call in list(self._pending.items()):
            if call.once:
                del self._pending[n]
            call.sent = False
        self._outbound = Deque(sorted((c for c in self._pending.values() if not c.silent), key=lambda c: c.n))
        if held and self._link_n > 1:
            # Of a process that ended and was forgotten during the cut, the server replays nothing.
            call = Call("process/list", {})
            call.done = lambda error, result: None if error else self._compare(held, result["processes"])
            again.append(call)
        if self._watch is not None:
            again.append(self._watch._call())
        for call in again:
            call.once = True
            self._number(call)
            self._outbound.append(call)
        self._wake.set()

    def _compare(self, held: List[Process], infos: List[wire.ProcessInfo]) -> None:
        known = {info["processId"]: info for info in infos}
        for process in held:
            if process._closed:
                continue
            if process.id in known:
                process._compare(known[process.id])
            else:
                process._fail(ProcessGoneError("the server does not hold process %s any more" % process.id))
                self._forget(process)

    def _detach(self) -> None:
        self._link = None
        self._outbound.clear()
        for n, call in list(self._pending.items()):
            if call.bound:
                del self._pending[n]
                call.end(CutError("%s: the connection was cut" % (call.method or "fs/watchMissing")))

    async def _write(self, link: _link.Link) -> None:
        while True:
            frame = self._frame(link)
            if frame is not None:
                await link.send(frame)
                continue
            self._wake.clear()
            await self._wake.wait()

    def _frame(self, link: _link.Link) -> Optional[_codec.Frame]:
        """Returns the next message to send. Acknowledgements go first, because the server waits for them."""
        if self._ack_due:
            self._ack_due, self._ack_bytes = False, 0
            acks, self._acks = self._acks, {}
            if not self._hello.get("server", {}).get("name"):  # the peer's server does not know this notification
                self._last_acks.clear()
            else:
                for process_id, (seq, _) in list(self._last_acks.items()):
                    if acks.get(process_id) == seq:
                        self._last_acks[process_id] = (seq, self._next + 1)
                return link.codec.encode({"method": "session/ack", "params": {"processes": acks}})
        while self._outbound:
            call = self._outbound.popleft()
            try:
                message: Dict[str, Any] = {"id": call.n, "method": call.method}
                if call.params is not None:
                    message["params"] = call.params
                frame = link.codec.encode(message)
                most = self._hello.get("limits", {}).get("maxMessageBytes", 0)
                if most and len(frame) > most:
                    raise ValueError("%s: the request has %d bytes; this server takes at most %d" % (call.method, len(frame), most))
            except (TypeError, ValueError, OverflowError) as error:
                del self._pending[call.n]
                call.end(error)
                continue
            call.sent = True
            call.sends += 1
            return frame
        return None

    async def _read(self, link: _link.Link) -> None:
        while True:
            try:
                message = await link.receive()
            except ValueError as error:
                raise TroupeError("the server has sent a message that cannot be read: %s" % error) from error
            self._heard += 1
            if "method" not in message:
                self._answered(message)
            elif "id" not in message:
                params = message.get("params") or {}
                await self._notified(message["method"], _codec.notification(message["method"], params))

    def _answered(self, message: Dict[str, Any]) -> None:
        call = self._pending.get(message.get("id", -1))
        if call is None or not call.sent:
            return  # it was taken back
        del self._pending[call.n]
        for process_id, (_, sent) in list(self._last_acks.items()):
            if 0 < sent <= call.n:
                del self._last_acks[process_id]
                self._over.pop(process_id, None)
        self._progress = self._progress or not call.once
        if "error" in message:
            call.end(refusal(call.method, message["error"]))
            return
        self._ended = self._ended or call.method == "session/close"
        call.end(None, _codec.result(call.method, message.get("result")))

    async def _notified(self, method: str, n: Dict[str, Any]) -> None:
        if method in EVENTS and "seq" in n:
            process = self._processes.get(n["processId"])
            if process is None:
                return
            while not process._lossy and not process._discard and process._failure is None and process._queued() > process._most_queued():
                self._away = True  # this server does not wait for acknowledgements, so read no further
                await self._room.wait()
            self._away = False
            if process._unnamed:
                process._missed = True
            elif process._take(method, n):
                self._progress = True
            return
        if method == "fs/missingChanged":
            watched = self._pending.get(n.get("watchId", 0))
            if watched is not None and watched.silent:
                del self._pending[watched.n]
                watched.end(None)
        elif method == "server/changed" and self._watch is not None:
            self._watch._take(n)
        elif method == "session/evicted":
            self._evicted = SessionGoneError("the server took the session away: %s" % n.get("reason", ""))
            raise self._evicted
        self._tell(self._o.on_notification, method, n)

    async def _pulse(self, link: _link.Link) -> None:
        """Asks the server for a sign of life, and ends if none comes for too long."""
        if self._o.ping_every <= 0:
            await asyncio.Event().wait()
        asked: Optional["asyncio.Task[None]"] = None
        silent, heard, was = 0.0, self._heard, False
        try:
            while True:
                if asked is None or asked.done():
                    asked = asyncio.ensure_future(self._ping(link))
                await asyncio.sleep(self._o.ping_every)
                # A client that did not read cannot tell whether the server is silent.
                if self._heard != heard or self._away or was:
                    silent, heard = 0.0, self._heard
                else:
                    silent += self._o.ping_every
                was = self._away
                if 0 < self._o.dead_after <= silent:
                    raise ConnectError("nothing came from the server for %g s, although the client asked" % silent)
        finally:
            if asked is not None:
                asked.cancel()

    async def _ping(self, link: _link.Link) -> None:
        try:
            await (await link.ws.ping())
            self._heard += 1
        except (OSError, _link.ConnectionClosed):
            pass

    # Requests.

    def _random(self) -> str:
        """Returns a name of 128 random bits, for startToken, writeId and requestId."""
        return secrets.token_hex(16)

    async def request(self, method: str, params: Optional[Mapping[str, Any]] = None) -> Any:
        """Sends a request with any method, and waits for the result, over any number of cuts.

        For a request that changes something, set a requestId, a startToken or a writeId, so that the server does it once.
        """
        return await self._answer(self._send(method, params))

    async def _answer(self, call: Call) -> Any:
        """Waits for the answer to a request. If the wait is cancelled, the request is taken back, if it is not sent."""
        try:
            return await call.future
        finally:
            self._leave(call)

    def _send(self, method: str, params: Optional[Mapping[str, Any]] = None) -> Call:
        """Sends a request, and returns it."""
        return self._queue(Call(method, params))

    def _queue(self, call: Call) -> Call:
        """Queues a request after every earlier one. The future of the request has its result."""
        error = self._error
        if error is None and self._closing and call.method != "session/close":
            error = ClosedError("the session was closed")
        if error is None and call.bound and (self._link is None or call.bound != self._link_n):
            error = CutError("%s: the connection was cut" % call.method)
        if error is not None:
            call.end(error)
            return call
        self._number(call)
        if self._link is not None and not call.silent:
            self._outbound.append(call)
            self._wake.set()
        return call

    def _number(self, call: Call) -> None:
        self._next += 1
        call.n, call.sent = self._next, False
        self._pending[call.n] = call

    def _leave(self, call: Call) -> None:
        """Nobody waits for a request any more."""
        if call.future.done() and not call.future.cancelled():
            call.future.exception()  # retrieved
        if self._pending.get(call.n) is not call:
            return
        call.left = True
        if call.kept and call.sends:
            return
        del self._pending[call.n]
        if not call.sent and call in self._outbound:
            self._outbound.remove(call)

    async def _connection(self) -> int:
        """Waits for a connection, and returns its number, for requests about a connection alone."""
        while self._link is None:
            if self._error is not None:
                raise self._error
            await self._attempt_made.wait()
        return self._link_n

    # Acknowledgements.

    def _acknowledge(self, process: Process, seq: int) -> None:
        """Says that everything of a process up to a seq was consumed."""
        other = self._processes.get(process.id)
        if other is not None and other is not process or self._error is not None:
            return  # the process has closed, and another one has its id
        self._acks[process.id] = seq
        if process._closed and seq == process._last:
            self._last_acks[process.id] = (seq, 0)
        self._ack_bytes += process.took
        process.took = 0
        if self._ack_bytes >= ACK_EVERY or process._retention and self._ack_bytes >= process._retention // 4:
            self._ack_now()
        elif self._ack_timer is None:
            self._ack_timer = asyncio.get_running_loop().call_later(ACK_AFTER, self._ack_now)

    def _ack_now(self) -> None:
        if self._ack_timer is not None:
            self._ack_timer.cancel()
            self._ack_timer = None
        if self._acks:
            self._ack_due = True
            self._wake.set()

    def _forget(self, process: Process) -> None:
        """Ignores the further events of the id of a process."""
        if self._processes.get(process.id) is not process:
            return
        del self._processes[process.id]
        if process._closed:
            self._over[process.id] = process._last
            if len(self._over) > MOST_OVER:
                del self._over[next(iter(self._over))]

    # Programs.

    async def start(
        self,
        args: Union[Program, Sequence[Union[str, "os.PathLike[str]"]]],
        *,
        cwd: Optional[Path] = None,
        env: Optional[Mapping[str, str]] = None,
        stdin: bool = False,
        tty: Optional[Tuple[int, int]] = None,
        id: Optional[str] = None,
        merge_stderr: bool = False,
        timeout: Optional[float] = None,
        restart: Optional[wire.Restart] = None,
        retention: Optional[wire.Retention] = None,
        **members: Any,
    ) -> Process:
        """Starts a program, and returns when the server has started it. Program describes the options: pass one in place of args and
        the other parameters, or args and the parameters. members are further members of process/start.

        If the wait is cancelled and the program starts nevertheless, the client kills it.
        """
        if not isinstance(args, Program):
            args = Program(args, cwd, env, stdin, tty, id, merge_stderr, timeout, restart, retention, members=members)
        params = self._params(args)
        params["startToken"] = self._random()
        return (await self._start("process/start", params, [params]))[0]

    async def start_group(
        self,
        group_id: str,
        programs: Sequence[Program],
        *,
        strategy: Optional[wire.GroupStrategy] = None,
        intensity: Optional[wire.Intensity] = None,
        extend: bool = False,
    ) -> List[Process]:
        """Starts programs that begin, fail and end together. Each starts when the programs that it depends on are ready."""
        all = [self._params(program) for program in programs]
        params: wire.GroupStartParams = {"groupId": group_id, "processes": all, "startToken": self._random()}
        if strategy is not None:
            params["strategy"] = strategy
        if intensity is not None:
            params["intensity"] = intensity
        if extend:
            params["extend"] = True
        return await self._start("group/start", params, all)

    async def stop_group(self, group_id: str) -> None:
        """Ends the processes of a group, the last started first, and returns when all have ended."""
        await self.call("group/stop", {"groupId": group_id, "requestId": self._random()})

    async def _start(self, method: str, params: Mapping[str, Any], all: Sequence[wire.ProcessStartParams]) -> List[Process]:
        processes: List[Process] = []
        for one in all:
            retention = one.get("retention") or {}
            process = self._register(one["processId"], retention.get("bytes"), retention.get("onFull") == "evict")
            process._restarts = one.get("restart") is not None
            process.run = 1 if method == "process/start" else 0
            processes.append(process)
        call = Call(method, params)
        call.kept = True

        def launched(error: Optional[BaseException], _: Any) -> None:
            for process in processes:
                if error is not None:
                    process._fail(error)
                    self._forget(process)
                    continue
                process._started = True
                if process._missed and call.sends > 1:  # an earlier connection has started it, and the events before this answer were its
                    self._queue(self._subscription(process))
                else:
                    process._unnamed = False
                if call.left:
                    self._spawn(self._abandon(process))

        call.done = launched
        try:
            await self._answer(self._queue(call))
        except asyncio.CancelledError:
            if self._pending.get(call.n) is not call and not call.sends:  # the server never saw it
                for process in processes:
                    self._forget(process)
            elif self._pending.get(call.n) is not call:  # it was answered in this moment
                for process in processes:
                    self._spawn(self._abandon(process))
            raise
        return processes

    async def _abandon(self, process: Process) -> None:
        """Kills a process for which nobody waits."""
        process.discard()
        try:
            await process.kill()
        except (TroupeError, OSError) as error:
            self._log.info("process %s: %s", process.id, error)

    def _spawn(self, work: Any) -> "asyncio.Task[Any]":
        """Runs a task of the client, until close."""
        task: "asyncio.Task[Any]" = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _register(self, process_id: str, retention: Optional[int], lossy: bool) -> Process:
        if process_id in self._processes:
            raise ValueError("the process id %r is in use; choose another, or none" % process_id)
        limits = self._hello.get("limits", {})
        lossy = not self._o.hold_back and (self._o.beside or lossy)
        process = Process(self, process_id, retention or limits.get("retentionBytes", 0), lossy)
        # Until its start is answered, the id may be that of another process. The peer's server, which has no name, may send
        # events before the answer.
        process._unnamed = bool(self._hello.get("server", {}).get("name"))
        self._processes[process_id] = process
        self._over.pop(process_id, None)
        return process

    def _params(self, program: Program) -> wire.ProcessStartParams:
        if isinstance(program.args, (str, bytes)):
            raise TypeError("args is a string: pass a list, such as ['sh', '-c', %r]" % (program.args,))
        members = dict(program.members)
        cwd = os.fspath(program.cwd) if program.cwd is not None else None
        if cwd is None:
            here = self._hello.get("environmentInfo", {}).get("cwd") or "file:///"
            cwd = "~" if members.get("login") else here
        elif cwd.startswith("/"):
            cwd = file_uri(cwd)
        elif cwd != "~" and not cwd.startswith(("~/", "file:")):
            raise ValueError("the directory %r is relative: pass an absolute path of the server" % cwd)
        params: Dict[str, Any] = {
            "processId": program.id if program.id is not None else self._random(),
            "argv": [os.fspath(arg) for arg in program.args],
            "cwd": cwd,
            "env": dict(program.env or {}),
            "tty": program.tty is not None,
            "pipeStdin": program.stdin and program.tty is None,
        }
        if program.env is None and "envPolicy" not in members and not members.get("login"):
            params["envPolicy"] = {"inherit": "all", "ignoreDefaultExcludes": False, "exclude": [], "set": {}, "includeOnly": []}
        if program.tty is not None:
            params["size"] = {"rows": program.tty[0], "cols": program.tty[1]}
        if program.merge_stderr and program.tty is None:
            params["mergeStderr"] = True
        if program.timeout is not None:
            params["timeoutMs"] = max(1, int(program.timeout * 1000 + 0.999))
        if program.depends_on:
            params["dependsOn"] = list(program.depends_on)
        for name in ("restart", "retention", "ready", "liveness", "label"):
            if getattr(program, name) is not None:
                params[name] = getattr(program, name)
        params.update(members)
        if any("\0" in text for text in [*params["argv"], *params["env"], *params["env"].values()]):
            raise ValueError("embedded null byte")
        return cast(wire.ProcessStartParams, params)

    async def attach(self, process_id: str, after: int = 0, *, instance: str = "", hold: bool = False) -> Process:
        """Takes the events of a process of the session after a seq, then new ones as they come. 0: all that the server holds.

        instance, of a ProcessInfo, refuses another process that has the id by now. With hold the server drops none of the
        output while this client is connected: the program waits.
        """
        process = self._register(process_id, None, False)
        process._lossy = process._lossy and not hold
        process._hold, process._instance = hold, instance
        process._retention = 0  # unknown
        if not process._lossy:
            process._most = self._hello.get("limits", {}).get("maxRetentionBytes", 0)
        process._restarts = True
        process._last = process._acked = after
        process._unnamed = True
        try:
            await self._answer(self._queue(self._subscription(process)))
        except asyncio.CancelledError:
            self._forget(process)
            raise
        return process

    def _subscription(self, process: Process) -> Call:
        """Returns the request that has the events of a process begin after the last one."""
        params: wire.ProcessSubscribeParams = {"processId": process.id, "afterSeq": process._last}
        if process._hold:
            params["hold"] = True
        if process._instance:
            params["instance"] = process._instance
        call = Call("process/subscribe", params)

        def subscribed(error: Optional[BaseException], info: Any) -> None:
            if error is not None:
                process._fail(error)
                self._forget(process)
                return
            process._started, process._unnamed = True, False
            process.run = process.run or info.get("run", 0)
            process._compare(info)

        call.done = subscribed
        return call

    def process(self, process_id: str) -> Process:
        """Returns the process with an id, without its output: to signal it, write to it, or look at it. Nothing is sent."""
        process = Process(self, process_id, 0, True)
        process._restarts = True
        process._discard = True
        return process

    async def run(
        self,
        args: Union[Program, Sequence[Union[str, "os.PathLike[str]"]]],
        *,
        input: Optional[bytes] = None,
        check: bool = False,
        timeout: Optional[float] = None,
        cwd: Optional[Path] = None,
        env: Optional[Mapping[str, str]] = None,
        merge_stderr: bool = False,
        **members: Any,
    ) -> "subprocess.CompletedProcess[bytes]":
        """Runs a program to its end and returns its output, as subprocess.run with capture_output does.

        After timeout seconds the program is killed, and subprocess.TimeoutExpired raised; with check, a failure is a
        subprocess.CalledProcessError. A run that is cancelled kills the program.
        """
        if not isinstance(args, Program):
            args = Program(args, cwd, env, input is not None, merge_stderr=merge_stderr, members=members)
        process = await self.start(args)
        argv = [os.fspath(arg) for arg in args.args]
        try:
            out, err = await asyncio.wait_for(process.communicate(input), timeout)
        except asyncio.TimeoutError:
            await process.kill()
            raise subprocess.TimeoutExpired(argv, cast(float, timeout)) from None
        except BaseException:
            self._spawn(self._abandon(process))
            raise
        done = subprocess.CompletedProcess(argv, returncode(await process.wait()), out, err)
        if check:
            done.check_returncode()
        return done

    # The session and the server.

    async def processes(self) -> List[wire.ProcessInfo]:
        """Lists the processes of the session, in the order of their starts."""
        return (await self.call("process/list", {}))["processes"]

    async def groups(self) -> List[wire.GroupInfo]:
        """Lists the groups of the session."""
        return (await self.call("group/list"))["groups"]

    async def sessions(self, detail: Optional[wire.Detail] = None) -> List[wire.SessionDetails]:
        """Lists the sessions of this identity, and others that it may observe. With detail, each has its processes."""
        result = await self.request("session/list", {"detail": detail} if detail else {})
        return cast(List[wire.SessionDetails], result["sessions"])

    async def info(self) -> wire.SessionInfoResult:
        """Returns what the server knows of the session."""
        return await self.call("session/info")

    async def update(
        self,
        *,
        name: Optional[str] = None,
        detached_ttl: Optional[float] = None,
        keep_running: Optional[bool] = None,
        left: Optional[str] = None,
    ) -> None:
        """Changes the session: its name, how long it lives without a connection, in seconds, and how its owner is about to leave."""
        params: wire.SessionUpdateParams = {"requestId": self._random()}
        if name is not None:
            params["name"] = name
        if detached_ttl is not None:
            params["detachedTtlMs"] = _millis(detached_ttl)
        if keep_running is not None:
            params["keepRunning"] = keep_running
        if left is not None:
            params["left"] = left
        await self.call("session/update", params)

    async def server_info(self) -> wire.ServerInfoResult:
        """Returns what the server says of itself."""
        return cast(wire.ServerInfoResult, await self.request("server/info", {}))

    async def watch(self, every: float = 1.0) -> "Watch":
        """Begins to watch the sessions that this client may observe, with their processes and groups: a change comes after every seconds
        at most. A client has one watch at a time."""
        if self._watch is not None:
            raise RuntimeError("this client watches already: close the other watch before")
        watch = self._watch = Watch(self, every)
        try:
            await self._answer(self._queue(watch._call()))
        except BaseException as error:
            watch._fail(error)
            raise
        return watch

    async def share(
        self, access: wire.Access, *, expires_in: Optional[float] = None, name: Optional[str] = None
    ) -> wire.SessionShareResult:
        """Makes a token with which somebody else watches (read) or types (type) in the session. expires_in is in seconds."""
        params: wire.SessionShareParams = {"access": access}
        if expires_in is not None:
            params["expiresInMs"] = _millis(expires_in)
        if name is not None:
            params["name"] = name
        return await self.call("session/share", params)

    async def shares(self) -> List[wire.ShareInfo]:
        """Lists the shares of the session."""
        return (await self.call("session/shares"))["shares"]

    async def unshare(self, share_id: str) -> None:
        """Ends a share."""
        await self.call("session/unshare", {"shareId": share_id})


class Watch(AsyncIterator[wire.ServerChangedNotification]):
    """Is the watch of a server: an iterator of pieces of its state. Client.watch makes it.

    A piece with anew begins the state anew, also after a cut and if the consumer falls behind. Leave the iteration with aclose.
    """

    def __init__(self, client: Client, every: float) -> None:
        self._client = client
        self._every = every
        self._pieces: Deque[wire.ServerChangedNotification] = Deque()
        self._error: Optional[BaseException] = None
        self._stale = False  # pieces were dropped: only one with anew counts
        self._changed = Signal()

    def _call(self) -> Call:
        self._stale = True
        call = Call("server/watch", {"everyMs": _millis(self._every)})
        call.done = lambda error, _: self._fail(error) if error is not None else None
        return call

    def _take(self, n: Dict[str, Any]) -> None:
        if n.get("anew"):
            self._pieces.clear()
            self._stale = False
        if self._stale:
            return
        self._pieces.append(cast(wire.ServerChangedNotification, n))
        self._changed.fire()
        if len(self._pieces) > MOST_PIECES:
            self._pieces.clear()
            call = self._client._queue(self._call())
            call.once = True

    def _fail(self, error: BaseException) -> None:
        self._error = error
        self._changed.fire()
        if self._client._watch is self:
            self._client._watch = None

    async def __anext__(self) -> wire.ServerChangedNotification:
        while not self._pieces:
            if self._error is not None:
                raise self._error
            await self._changed.wait()
        return self._pieces.popleft()

    async def aclose(self) -> None:
        """Ends the watch."""
        if self._client._watch is self:
            self._fail(ClosedError("the watch is closed"))
            await self._client.request("server/watch", {"everyMs": 0})


#: How many pieces of a watch, of up to 64 KiB, may wait for their consumer.
MOST_PIECES = 256


#: The notifications that have a place in the sequence of a process.
EVENTS = frozenset(
    "process/" + name for name in ("output", "exited", "restarted", "ready", "closed", "gap", "evicted")
)


def _abort(opened: List[_link.Link]) -> None:
    for link in opened:
        link.abort()


def _final(lost: BaseException) -> Optional[BaseException]:
    """Returns why another connection is pointless; None: it is not."""
    if isinstance(lost, SessionGoneError):
        return lost
    closed = _link.closed(lost)
    if closed is None:
        return None
    code, reason = closed
    if code == 4001:
        return SessionGoneError("the session is gone: %s" % reason)
    if code == 1002 and reason.startswith("resumeFrom: "):
        return ProcessGoneError("while the connection was lost, another process got the id of one of this client: %s" % reason)
    if code == 1002:
        return TroupeError("the server refuses the protocol of this client; use matching versions of both: %s" % reason)
    return None


def _millis(seconds: float) -> int:
    return max(0, int(seconds * 1000 + 0.999))


def file_uri(path: Path) -> str:
    """Returns the URI of an absolute path of the server."""
    return "file://" + quote(os.fsencode(path))


def returncode(status: wire.ExitStatus) -> int:
    """Returns the exit code as subprocess has it: negative for a signal."""
    name = status.get("signal", "")
    if not name:
        return status["exitCode"]
    try:
        return -int(signals.Signals[name])
    except KeyError:
        return 128 - status["exitCode"]


class _Connecting:
    """Is what connect returns: await it, or use it with async with."""

    def __init__(self, url: Optional[str], options: _Options) -> None:
        self._url = url
        self._options = options
        self._client: Optional[Client] = None

    async def _open(self) -> Client:
        url, own = self._url, False
        if url is None:
            url, own = await _own.address()
        client = Client(url, self._options, own)
        await client._open()
        return client

    def __await__(self) -> Generator[Any, None, Client]:
        return self._open().__await__()

    async def __aenter__(self) -> Client:
        self._client = await self._open()
        return self._client

    async def __aexit__(self, *exc: object) -> None:
        if self._client is not None:
            await self._client.close()


def connect(
    url: Optional[str] = None,
    *,
    token: Token = None,
    name: str = "troupe-python",
    role: Optional[wire.Role] = None,
    session: Optional[str] = None,
    takeover: bool = False,
    wait_for_owner: float = 0.0,
    session_name: Optional[str] = None,
    detached_ttl: Optional[float] = None,
    keep_running: bool = False,
    ephemeral: bool = False,
    placement: Optional[wire.Placement] = None,
    ssl: Optional[tls.SSLContext] = None,
    json: bool = False,
    times: bool = False,
    hold_back: bool = False,
    reconnect_for: float = 45.0,
    ping_every: float = 15.0,
    dead_after: float = 30.0,
    on_state: Optional[Callable[[LinkState], None]] = None,
    on_notification: Optional[Callable[[str, Dict[str, Any]], None]] = None,
) -> _Connecting:
    """Connects to a server, and opens a session or resumes one: await it, or use it with async with, which closes the client.

    - url: ws://HOST:PORT, wss://HOST:PORT or unix://PATH. None: TROUPE_URL of the environment, or else your own server on this
      machine, which the program troupe starts if it does not run.
    - token: the bearer token, or a function that returns it before each connection. None: TROUPE_TOKEN of the environment, or the
      file that TROUPE_TOKEN_FILE names. With the token of a share, leave session out.
    - name: the name of the client in the log of the server.
    - role: owner; controller: beside the owner, with its rights; observer: sees everything, and changes nothing.
    - session: the id of a session to resume. takeover takes it from the connection that has it. wait_for_owner tries again for so
      many seconds while another connection owns it.
    - session_name, detached_ttl (how many seconds the session lives without a connection), keep_running, ephemeral and placement
      are for a new session: section 3 of docs/PROTOCOL.md.
    - ssl: for wss://, with the certificate of this client if it has one.
    - json: asks for JSON also if msgpack is installed, for people who read the traffic.
    - times: asks for Output.at_ms.
    - hold_back: makes an observer or controller read no further while a consumer is behind, in place of losing output. Then all
      else of this client waits for the consumer.
    - reconnect_for: for how many seconds to try to resume after a cut. Negative: not at all. math.inf: as long as the server has
      the session.
    - ping_every, dead_after: how often the server is asked for a sign of life, and after what silence the connection counts as
      lost, in seconds. 0: never.
    - on_state is called with each LinkState, on_notification with each notification that is not an event of a process. Neither may
      block.
    """
    new: wire.SessionOptions = {}
    if session_name is not None:
        new["name"] = session_name
    if detached_ttl is not None:
        new["detachedTtlMs"] = _millis(detached_ttl)
    if keep_running:
        new["keepRunning"] = True
    if ephemeral:
        new["ephemeral"] = True
    if session and (new or placement):
        raise ValueError("session_name, detached_ttl, keep_running, ephemeral and placement are for a new session: leave session out")
    if role in ("observer", "controller") and not session:
        raise ValueError("role %s needs the id of a session" % role)
    if token is None:
        token = _own.token
    return _Connecting(
        url,
        _Options(
            name, token, role, session, takeover, wait_for_owner, new, placement, ssl, json, times, hold_back,
            reconnect_for, ping_every, dead_after, on_state, on_notification,
        ),  # fmt: skip
    )
