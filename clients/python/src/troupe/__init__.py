"""A client of troupe, the supervisor of processes: start programs on a server, lose the connection, and miss nothing.

With asyncio:

    async with troupe.connect("ws://127.0.0.1:7766") as client:
        process = await client.start(["make", "test"], cwd="/src")
        async for event in process:
            print(event)

In the manner of subprocess:

    done = troupe.run(["make", "test"], cwd="/src", capture_output=True, text=True, check=True)

The types of the wire are in troupe.wire, and the exceptions in troupe.errors.
"""

from . import errors, wire
from ._client import Client, Program, Watch, connect, returncode
from ._events import Closed, Event, Evicted, Exited, Gap, LinkState, Output, Ready, Restarted
from ._files import Files
from ._process import Process, Reader
from ._version import __version__
from ._sync import (
    DEVNULL,
    PIPE,
    STDOUT,
    CalledProcessError,
    CompletedProcess,
    Popen,
    SyncClient,
    TimeoutExpired,
    call,
    check_call,
    check_output,
    run,
)
from .errors import (
    AttachedError,
    BusyError,
    ClosedError,
    ConnectError,
    CutError,
    DeniedError,
    ExistsError,
    ExitError,
    FileChangedError,
    GapError,
    LimitError,
    NotFoundError,
    PolicyError,
    ProcessGoneError,
    RequestError,
    SessionGoneError,
    StdinClosedError,
    SystemCallError,
    TroupeError,
    UnauthorizedError,
    UnknownProcessError,
    UnknownSessionError,
    UnsupportedError,
)


__all__ = [
    "DEVNULL", "PIPE", "STDOUT",
    "AttachedError", "BusyError", "CalledProcessError", "Client", "Closed", "ClosedError", "CompletedProcess", "ConnectError", "CutError",
    "DeniedError", "Event", "Evicted", "ExistsError", "ExitError", "Exited", "FileChangedError", "Files", "Gap", "GapError", "LimitError",
    "LinkState", "NotFoundError", "Output", "PolicyError", "Popen", "Process", "ProcessGoneError", "Program", "Reader", "Ready",
    "RequestError", "Restarted", "SessionGoneError", "StdinClosedError", "SyncClient", "SystemCallError", "TimeoutExpired", "TroupeError",
    "UnauthorizedError", "UnknownProcessError", "UnknownSessionError", "UnsupportedError", "Watch",
    "__version__",
    "call", "check_call", "check_output", "connect", "errors", "returncode", "run", "wire",
]  # fmt: skip
