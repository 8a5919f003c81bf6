"""The synchronous face, shaped like subprocess. An event loop on a thread of its own does the work."""

from __future__ import annotations

import asyncio
import atexit
import io
import os
import subprocess
import threading
from subprocess import DEVNULL, PIPE, STDOUT, CalledProcessError, CompletedProcess, TimeoutExpired
from typing import IO, Any, Awaitable, Coroutine, Dict, List, Mapping, Optional, Sequence, Tuple, TypeVar, Union, cast

from ._client import Client, Program, connect, returncode
from ._process import Process, Reader, SignalName
from .errors import GapError, ProcessGoneError, RequestError, StdinClosedError, TroupeError

__all__ = [
    "DEVNULL", "PIPE", "STDOUT", "CalledProcessError", "CompletedProcess", "Popen", "SyncClient", "TimeoutExpired",
    "call", "check_call", "check_output", "run",
]  # fmt: skip

T = TypeVar("T")
Args = Union[str, bytes, "os.PathLike[str]", Sequence[Union[str, bytes, "os.PathLike[str]"]]]
File = Union[None, int, IO[Any]]

#: Bytes of a read from a stream.
PIECE = 64 << 10


class SyncClient:
    """Is a session on a server, for programs without asyncio. Use it with with: at the end it leaves the session, as Client.close does.

    The parameters are those of connect.
    """

    def __init__(self, url: Optional[str] = None, **options: Any) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="troupe", daemon=True)
        self._thread.start()
        try:
            #: The client of asyncio, for everything that has no method here: sync.wait(sync.client.processes()).
            self.client: Client = self.wait(_opened(url, options))
        except BaseException:
            self._stop()
            raise

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def wait(self, work: Awaitable[T], timeout: Optional[float] = None) -> T:
        """Runs a coroutine of the client to its end. After timeout seconds, or Control-C, it is cancelled; the first is a TimeoutError."""
        if threading.current_thread() is self._thread:
            raise RuntimeError("SyncClient.wait was called on the thread of its event loop, which would wait for itself: use await")
        if self._loop.is_closed():
            if asyncio.iscoroutine(work):
                work.close()
            raise RuntimeError("the SyncClient is closed")
        done = asyncio.run_coroutine_threadsafe(_awaited(work, timeout), self._loop)
        try:
            return done.result()
        except BaseException:
            done.cancel()
            raise

    def later(self, work: Coroutine[Any, Any, Any]) -> None:
        """Runs a coroutine of the client. Nobody waits for it."""
        if self._loop.is_closed():
            work.close()
        else:
            asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, args: Args, **options: Any) -> "CompletedProcess[Any]":
        """Is troupe.run in this session."""
        return run(args, client=self, **options)

    def popen(self, args: Args, **options: Any) -> "Popen":
        """Is troupe.Popen in this session."""
        return Popen(args, client=self, **options)

    def close(self) -> None:
        """Leaves the session. Its programs go on."""
        self._finish(False)

    def close_session(self) -> None:
        """Ends the session with all its programs."""
        self._finish(True)

    def _finish(self, session: bool) -> None:
        if self._loop.is_closed():
            return
        try:
            self.wait(self.client.close_session() if session else self.client.close())
        finally:
            self._stop()

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    def __enter__(self) -> "SyncClient":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


async def _opened(url: Optional[str], options: Dict[str, Any]) -> Client:
    return await connect(url, **options)


async def _awaited(work: Awaitable[T], timeout: Optional[float]) -> T:
    try:
        return await asyncio.wait_for(work, timeout)
    except asyncio.TimeoutError:
        raise TimeoutError("not done within %s s" % timeout) from None


_lock = threading.Lock()
_default: Optional[Tuple[int, SyncClient]] = None


def _client() -> SyncClient:
    """Returns the session of run and Popen without a client: it ends with this program, and its programs with it."""
    global _default
    with _lock:
        if _default is None or _default[0] != os.getpid() or _default[1].client.state.state == "ended":
            if _default is None:
                atexit.register(_leave)
            _default = os.getpid(), SyncClient()
        return _default[1]


def _leave() -> None:
    if _default is not None and _default[0] == os.getpid():
        try:
            _default[1].close_session()
        except (TroupeError, OSError):
            pass


class Popen:
    """Is a program on the server, with the methods and attributes of subprocess.Popen.

    What differs: the program runs on the server, so cwd and env are there, and None means those of the server; stdin None is
    /dev/null; signals go to the process group of the program; preexec_fn, pass_fds and the like do not exist. members are
    further members of process/start, such as tty, restart or sandbox (wire.ProcessStartParams).
    """

    def __init__(
        self,
        args: Args,
        bufsize: int = -1,
        executable: Optional[str] = None,
        stdin: File = None,
        stdout: File = None,
        stderr: File = None,
        *,
        shell: bool = False,
        cwd: Union[str, "os.PathLike[str]", None] = None,
        env: Optional[Mapping[str, str]] = None,
        universal_newlines: Optional[bool] = None,
        encoding: Optional[str] = None,
        errors: Optional[str] = None,
        text: Optional[bool] = None,
        client: Optional[SyncClient] = None,
        **members: Any,
    ) -> None:
        if stdout == STDOUT:
            raise ValueError("STDOUT can only be used for stderr")
        #: As they were given.
        self.args = args
        #: The exit code; negative: the number of a signal. None: the program runs, as far as poll and wait have seen.
        self.returncode: Optional[int] = None
        self._sync = client or _client()
        self._text = bool(text or universal_newlines or encoding or errors)
        self._encoding, self._errors = encoding or "utf-8", errors or "strict"
        self._parts: Dict[str, List[bytes]] = {"stdout": [], "stderr": []}
        self._input: Optional["memoryview"] = None
        self._fed = False
        self._pid: Optional[int] = None
        argv, piped = _argv(args, shell, executable), stdin not in (None, DEVNULL)
        program = Program(argv, cwd, env, piped, merge_stderr=stderr == STDOUT, members=members)
        if executable is not None and not shell:
            program.members = {"arg0": _argv(args, shell, None)[0], **members}
        #: The process, for the methods of asyncio: popen.sync.wait(popen.process.info()).
        self.process: Process = self._sync.wait(self._start(program))
        self._copies: List["asyncio.Task[None]"] = []
        #: A file that writes to the program; None without PIPE.
        self.stdin: Optional[IO[Any]] = None
        #: Files that read its output; None without PIPE.
        self.stdout: Optional[IO[Any]] = None
        self.stderr: Optional[IO[Any]] = None
        if stdin == PIPE:
            self.stdin = self._opened(_Input(self), bufsize, "w")
        elif stdin not in (None, DEVNULL):
            threading.Thread(target=self._copy_in, args=(_fd(stdin),), daemon=True).start()
        if stdout == PIPE:
            self.stdout = self._opened(_Output(self, self.process.stdout), bufsize, "r")
        if stderr == PIPE:
            self.stderr = self._opened(_Output(self, self.process.stderr), bufsize, "r")
        self._sync.wait(self._copy_all([
            (self.process.stdout, stdout, 1),
            (self.process.stderr, DEVNULL if stderr == STDOUT else stderr, 2),
        ]))  # fmt: skip

    @property
    def sync(self) -> SyncClient:
        """The session."""
        return self._sync

    async def _start(self, program: Program) -> Process:
        process = await self._sync.client.start(program)
        process._separate()
        return process

    def _opened(self, raw: io.RawIOBase, bufsize: int, mode: str) -> IO[Any]:
        size = bufsize if bufsize > 1 else io.DEFAULT_BUFFER_SIZE
        file: Any = raw
        if mode == "w" and (bufsize != 0 or self._text):
            file = io.BufferedWriter(raw, size)
        elif mode == "r" and (bufsize != 0 or self._text):
            file = io.BufferedReader(raw, max(size, PIECE))
        if self._text:
            line = mode == "w" and bufsize == 1
            file = io.TextIOWrapper(file, self._encoding, self._errors, line_buffering=line, write_through=mode == "w" and bufsize == 0)
        return cast(IO[Any], file)

    # Copies to and from files of this program.

    def _copy_in(self, fd: int) -> None:
        try:
            while True:
                some = os.read(fd, PIECE)
                self._sync.wait(self.process.write(some) if some else self.process.close_stdin())
                if not some:
                    return
        except (TroupeError, OSError, RuntimeError):
            pass  # the program has ended, or takes no more

    async def _copy_all(self, streams: Sequence[Tuple[Reader, File, int]]) -> None:
        for reader, file, usual in streams:
            if file != PIPE:
                fd = -1 if file == DEVNULL else usual if file is None else _fd(file)
                self._copies.append(self._sync.client._spawn(_copy_out(reader, fd)))

    # The program.

    @property
    def pid(self) -> Optional[int]:
        """The process id on the server; None: the program has ended before anybody asked."""
        if self._pid is None:
            try:
                self._pid = self._sync.wait(self.process.info()).get("pid")
            except ProcessGoneError:
                pass
        return self._pid

    def poll(self) -> Optional[int]:
        """Returns the exit code, or None if the program has not ended, as far as this client has heard."""
        if self.returncode is None:
            process = self.process
            if process.status is not None and (process._closed or not process._restarts):
                self.returncode = returncode(process.status)
            elif process._failure is not None:
                raise process._failure
        return self.returncode

    def wait(self, timeout: Optional[float] = None) -> int:
        """Waits for the end of the program. After timeout seconds: TimeoutExpired."""
        if self.returncode is None:
            self._bounded(self._ended(), timeout)
        return cast(int, self.returncode)

    def _bounded(self, work: Awaitable[None], timeout: Optional[float]) -> None:
        try:
            self._sync.wait(work, timeout)
        except TimeoutError:
            if timeout is None:
                raise
            out, err = (b"".join(self._parts[name]) or None for name in ("stdout", "stderr"))
            raise TimeoutExpired(self.args, timeout, output=out, stderr=err) from None

    async def _ended(self) -> None:
        status = await self.process.wait()
        if self._copies:  # what it wrote is where it belongs
            await self.process._exited()
        self.returncode = returncode(status)

    def communicate(self, input: Union[str, bytes, None] = None, timeout: Optional[float] = None) -> Tuple[Any, Any]:
        """Writes input to stdin, reads all output of the pipes, and waits for the end. After TimeoutExpired it can go on."""
        if self._input is None and self.stdin is not None and not self._fed:
            data = input.encode(self._encoding, self._errors) if isinstance(input, str) else input or b""
            try:
                self.stdin.flush()
            except (OSError, ValueError):
                pass
            self._input = memoryview(data)
        elif input and self.stdin is None:
            raise ValueError("input without stdin=PIPE")
        self._bounded(self._communicate(), timeout)
        results: List[Any] = []
        for name, file in (("stdout", self.stdout), ("stderr", self.stderr)):
            data = b"".join(self._parts[name])
            if file is None:
                results.append(None)
            elif self._text:
                results.append(data.decode(self._encoding, self._errors).replace("\r\n", "\n").replace("\r", "\n"))
            else:
                results.append(data)
        for file in (self.stdin, self.stdout, self.stderr):
            if file is not None:
                file.close()
        return results[0], results[1]

    async def _communicate(self) -> None:
        work: List[Coroutine[Any, Any, None]] = [self._feed()]
        if self.stdout is not None:
            work.append(self._collect(self.process.stdout, self._parts["stdout"]))
        if self.stderr is not None:
            work.append(self._collect(self.process.stderr, self._parts["stderr"]))
        tasks = [asyncio.ensure_future(one) for one in work]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        await self._ended()

    async def _feed(self) -> None:
        if self._input is None or self._fed:
            return
        try:
            while self._input:
                await self.process.write(bytes(self._input[:PIECE]))
                self._input = self._input[PIECE:]
            await self.process.close_stdin()
        except (StdinClosedError, ProcessGoneError):
            pass
        except RequestError as error:
            if error.kind != "ended":
                raise
        self._fed = True

    async def _collect(self, reader: Reader, parts: List[bytes]) -> None:
        while True:
            some = await reader.read(PIECE)
            if not some:
                return
            parts.append(some)

    def send_signal(self, sig: SignalName) -> None:
        """Sends a signal to the process group of the program, if it has not ended."""
        if self.poll() is None:
            self._sync.wait(self.process.signal(sig))

    def terminate(self) -> None:
        """Sends SIGTERM."""
        self.send_signal("SIGTERM")

    def kill(self) -> None:
        """Sends SIGKILL."""
        self.send_signal("SIGKILL")

    def kill_tree(self) -> None:
        """Kills the program and all its descendants, also those that have left its process group, and returns when they are gone."""
        self._sync.wait(self.process.kill())

    def __enter__(self) -> "Popen":
        return self

    def __exit__(self, *exc: object) -> None:
        for file in (self.stdout, self.stderr):
            if file is not None:
                file.close()
        try:
            if self.stdin is not None:
                self.stdin.close()
        finally:
            self.wait()

    def __repr__(self) -> str:
        return "<troupe.Popen: returncode: %s args: %r>" % (self.returncode, self.args)


class _Output(io.RawIOBase):
    """Reads a stream of a process. After close, the program gets SIGPIPE when it writes more, as at a pipe that nobody reads."""

    def __init__(self, popen: Popen, reader: Reader) -> None:
        self._popen, self._reader = popen, reader

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        some = self._popen._sync.wait(self._reader.read(len(buffer)))
        buffer[: len(some)] = some
        return len(some)

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._popen._sync.later(self._drain())

    async def _drain(self) -> None:
        process, told = self._popen.process, process_over(self._popen.process)
        try:
            while await self._reader.read(PIECE):
                if not told:
                    told = True
                    await process.signal("SIGPIPE")
        except TroupeError:
            pass


def process_over(process: Process) -> bool:
    """Reports whether a process has ended, so that a signal would reach nobody."""
    return process.status is not None and not process._restarts or process._closed


class _Input(io.RawIOBase):
    """Writes to the stdin of a process."""

    def __init__(self, popen: Popen) -> None:
        self._popen = popen

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        some = bytes(data)
        try:
            self._popen._sync.wait(self._popen.process.write(some))
        except ProcessGoneError as error:
            raise BrokenPipeError(str(error)) from error
        except RequestError as error:
            if error.kind == "ended":
                raise BrokenPipeError(str(error)) from error
            raise
        return len(some)

    def close(self) -> None:
        if not self.closed:
            super().close()
            if not self._popen._fed:
                self._popen._fed = True
                self._popen._sync.later(self._end())

    async def _end(self) -> None:
        try:
            await self._popen.process.close_stdin()
        except TroupeError:
            pass  # the program has ended


def _argv(args: Args, shell: bool, executable: Optional[str]) -> List[str]:
    argv = [os.fsdecode(args)] if isinstance(args, (str, bytes, os.PathLike)) else [os.fsdecode(arg) for arg in args]
    if shell:
        argv = [executable or "/bin/sh", "-c", *argv]
    elif executable is not None:
        argv[0] = executable
    return argv


def _fd(file: File) -> int:
    return file if isinstance(file, int) else cast(IO[Any], file).fileno()


async def _copy_out(reader: Reader, fd: int) -> None:
    """Copies a stream to a file of this program; -1: to nowhere. What is written counts as consumed."""
    loop = asyncio.get_running_loop()
    try:
        while True:
            try:
                some = await reader.peek()
                if not some:
                    return
                if fd >= 0:
                    some = some[: await loop.run_in_executor(None, os.write, fd, some[:PIECE])]
                reader.took(len(some))
            except GapError as error:
                os.write(2, ("troupe: %s\n" % error).encode())
    except TroupeError:
        return  # wait says why
    except OSError:  # nobody takes it: the program need not wait
        await _read_all(reader)


async def _read_all(reader: Reader) -> None:
    try:
        while await reader.read(PIECE):
            pass
    except TroupeError:
        pass


def run(
    args: Args,
    *,
    input: Union[str, bytes, None] = None,
    capture_output: bool = False,
    timeout: Optional[float] = None,
    check: bool = False,
    **options: Any,
) -> "CompletedProcess[Any]":
    """Runs a program to its end, as subprocess.run does. options are those of Popen.

    Without client it runs in a session of this program, at the server of TROUPE_URL or your own server.
    """
    if input is not None:
        if options.get("stdin") is not None:
            raise ValueError("stdin and input arguments may not both be used.")
        options["stdin"] = PIPE
    if capture_output:
        if options.get("stdout") is not None or options.get("stderr") is not None:
            raise ValueError("stdout and stderr arguments may not be used with capture_output.")
        options["stdout"] = options["stderr"] = PIPE
    with Popen(args, **options) as popen:
        try:
            out, err = popen.communicate(input, timeout)
        except BaseException:
            popen.kill_tree()
            raise
    code = cast(int, popen.returncode)
    if check and code:
        raise CalledProcessError(code, cast(Any, args), output=out, stderr=err)
    return subprocess.CompletedProcess(cast(Any, args), code, out, err)


def call(args: Args, *, timeout: Optional[float] = None, **options: Any) -> int:
    """Runs a program to its end, and returns its exit code, as subprocess.call does."""
    with Popen(args, **options) as popen:
        try:
            return popen.wait(timeout)
        except BaseException:
            popen.kill_tree()
            raise


def check_call(args: Args, **options: Any) -> int:
    """Is call, and raises CalledProcessError if the program fails."""
    code = call(args, **options)
    if code:
        raise CalledProcessError(code, cast(Any, args))
    return 0


def check_output(args: Args, *, timeout: Optional[float] = None, **options: Any) -> Any:
    """Runs a program and returns its stdout; if it fails, raises CalledProcessError."""
    if "stdout" in options:
        raise ValueError("stdout argument not allowed, it will be overridden.")
    return run(args, stdout=PIPE, timeout=timeout, check=True, **options).stdout
