"""What a program does, in order: the events of a process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Union

from .wire import ExitStatus, Stream


@dataclass(frozen=True)
class Output:
    """Is a piece of output."""

    seq: int
    #: stdout, stderr or pty.
    stream: Stream
    data: bytes
    #: The run that wrote it; 0: unknown.
    run: int = 0
    #: When the server got the first byte, in milliseconds since 1970; 0: unknown, as without connect(times=True).
    at_ms: int = 0


@dataclass(frozen=True)
class Exited:
    """Says that a run has ended. Its output has come before; its descendants may go on writing."""

    seq: int
    status: ExitStatus
    #: The sandbox has probably denied something to the run.
    sandbox_denied: bool = False


@dataclass(frozen=True)
class Restarted:
    """Says that another run begins after a pause."""

    seq: int
    run: int
    reason: str
    delay_ms: int = 0
    #: Input that the run before had not read.
    stdin_lost_bytes: int = 0


@dataclass(frozen=True)
class Ready:
    """Says that a run has met its condition ready."""

    seq: int
    run: int


@dataclass(frozen=True)
class Gap:
    """Stands for output that is lost for good: the events from from_seq to seq."""

    from_seq: int
    seq: int
    #: How many bytes are lost; 0: unknown.
    size: int
    reason: str


@dataclass(frozen=True)
class Evicted:
    """Says that the server does not run the program again. Closed follows."""

    seq: int
    reason: str


@dataclass(frozen=True)
class Closed:
    """Is the last event: every stream has ended."""

    seq: int


Event = Union[Output, Exited, Restarted, Ready, Gap, Evicted, Closed]


@dataclass(frozen=True)
class LinkState:
    """Says how the connection to the server is."""

    #: connected; lost: the client tries to resume; ended: the client is of no more use.
    state: str
    #: Why the connection was lost, why the last attempt failed, or why the client has ended.
    error: Optional[BaseException] = None
    #: Of lost: 1 for the first attempt after a cut.
    attempt: int = 0
    #: Of lost: seconds until the attempt.
    retry_in: float = 0.0
    #: Of lost: seconds since the cut.
    since: float = 0.0
