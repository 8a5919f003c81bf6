"""The exceptions of the client.

Each refusal of the server is a RequestError with the code, the kind, the message and the advice of the server. A refusal that the
operating system has a word for is also the exception of Python for it: a missing program is a FileNotFoundError.
"""

from __future__ import annotations

import errno
from typing import Any, Dict, Mapping, Optional, Tuple, Type

from .wire import ExitStatus


class TroupeError(Exception):
    """Is the base of all exceptions of this package."""


class ConnectError(TroupeError, ConnectionError):
    """Says that no connection could be made, or that the session could not be resumed in time."""


class UnauthorizedError(ConnectError, PermissionError):
    """Says that the credential is missing or wrong."""


class ClosedError(TroupeError):
    """Says that the client is closed."""


class SessionGoneError(TroupeError):
    """Says that the server does not have the session, or that somebody else has taken it over. Its programs are out of reach."""


class ProcessGoneError(TroupeError):
    """Says that the server does not hold the process: it never existed, or it has ended and is forgotten."""


class CutError(TroupeError, ConnectionError):
    """Says that a request about its connection alone, such as an open file, has ended with the connection."""


class FileChangedError(TroupeError, OSError):
    """Says that a file changed on the server while a connection was cut in the midst of a read."""


class GapError(TroupeError):
    """Says that output is lost for good."""

    def __init__(self, process_id: str, from_seq: int, to_seq: int, size: int, reason: str) -> None:
        super().__init__(process_id, from_seq, to_seq, size, reason)
        #: The id of the process.
        self.process_id = process_id
        #: The first lost event.
        self.from_seq = from_seq
        #: The last lost event.
        self.to_seq = to_seq
        #: How many bytes are lost; 0: unknown.
        self.size = size
        #: The reason, for people.
        self.reason = reason

    def __str__(self) -> str:
        return "process %s: output %d to %d is lost (%d bytes): %s" % (
            self.process_id, self.from_seq, self.to_seq, self.size, self.reason)  # fmt: skip


class ExitError(TroupeError):
    """Says that a program did not end with exit code 0."""

    def __init__(self, process_id: str, status: ExitStatus, given_up: str = "") -> None:
        super().__init__(process_id, status, given_up)
        #: The id of the process.
        self.process_id = process_id
        #: How the last run ended.
        self.status = status
        #: Why the server does not run the program again; empty: no other run was due.
        self.given_up = given_up

    def __str__(self) -> str:
        s = self.status
        text = "signal: " + s["signal"] if s.get("signal") else "exit status %d" % s["exitCode"]
        if s.get("timedOut") and s.get("reason") != "timed out":
            text += " (timed out)"
        elif s.get("oomKilled"):
            text += " (out of memory)"
        elif s.get("coreDumped"):
            text += " (core dumped)"
        if s.get("reason"):
            text += ": " + s["reason"]
        if self.given_up:
            text += "; given up: " + self.given_up
        return "process %s: %s" % (self.process_id, text)


class RequestError(TroupeError):
    """Is a refusal by the server."""

    def __init__(self, method: str, code: int, message: str, data: Optional[Mapping[str, Any]] = None) -> None:
        super().__init__(method, code, message, data)
        data = data if isinstance(data, Mapping) else {}
        #: The method of the request.
        self.method = method
        #: The code of the error: section 22.1 of docs/PROTOCOL.md.
        self.code = code
        #: The cause, for programs; empty: from a server without kinds.
        self.kind: str = data.get("kind", "")
        #: The text of the server, for people.
        self.message = message
        #: What to do next, for people; may be empty.
        self.advice: str = data.get("advice", "")
        #: The limit that refuses the request, where there is one.
        self.limit: str = data.get("limit", "")
        #: The value of the limit.
        self.limit_value: Optional[float] = data.get("value")
        #: How much of the limit is in use.
        self.limit_used: Optional[float] = data.get("used")
        if isinstance(self, OSError):
            setattr(self, "errno", _numbers.get(self.kind) or _os_error(message))
            setattr(self, "strerror", message)

    def __str__(self) -> str:
        text = "%s: %s" % (self.method, self.message)
        return text + ": " + self.advice if self.advice else text


class LimitError(RequestError):
    """Says that a limit of the server is reached: limit names it."""


class BusyError(RequestError):
    """Says that the server has too much to do or too little memory: try again later."""


class PolicyError(RequestError, PermissionError):
    """Says that the policy of the operator of the server refuses the request."""


class DeniedError(RequestError, PermissionError):
    """Says that the operating system, the user or the role does not allow this."""


class NotFoundError(RequestError, FileNotFoundError):
    """Says that there is no such file, directory or program."""


class ExistsError(RequestError, FileExistsError):
    """Says that the file exists, or that the id is taken."""


class NotADirectory(RequestError, NotADirectoryError):
    """Says that the path, or a part of it, is no directory."""


class SystemCallError(RequestError, OSError):
    """Says that the operating system of the server refuses; errno is set if it is known."""


class UnsupportedError(RequestError):
    """Says that this server cannot do this, or that its operator has turned this off."""


class AttachedError(RequestError):
    """Says that another connection owns the session: takeover takes it, wait_for_owner waits for it."""


class StdinClosedError(RequestError, BrokenPipeError):
    """Says that the stdin of the process is closed, was never open, or that the process has ended."""


class UnknownProcessError(RequestError, ProcessGoneError):
    """Says that the server does not hold the process."""


class UnknownSessionError(RequestError, SessionGoneError):
    """Says that the server does not have the session."""


_kinds: Dict[str, Type[RequestError]] = {
    "noProgram": NotFoundError,
    "noDirectory": NotFoundError,
    "notFound": NotFoundError,
    "notExecutable": SystemCallError,
    "exists": ExistsError,
    "notDirectory": NotADirectory,
    "notEmpty": SystemCallError,
    "noSpace": SystemCallError,
    "readOnly": SystemCallError,
    "permission": DeniedError,
    "user": DeniedError,
    "role": DeniedError,
    "policy": PolicyError,
    "limit": LimitError,
    "busy": BusyError,
    "method": UnsupportedError,
    "off": UnsupportedError,
    "unsupported": UnsupportedError,
    "unknownProcess": UnknownProcessError,
    "unknownSession": UnknownSessionError,
    "evicted": UnknownSessionError,
    "stdinClosed": StdinClosedError,
    "attached": AttachedError,
}

# For a server without kinds.
_codes: Dict[int, Type[RequestError]] = {
    -32004: NotFoundError,
    -32601: UnsupportedError,
    -32010: AttachedError,
    -32011: DeniedError,
}

_numbers: Dict[str, int] = {
    "noProgram": errno.ENOENT,
    "noDirectory": errno.ENOENT,
    "notFound": errno.ENOENT,
    "notExecutable": errno.ENOEXEC,
    "exists": errno.EEXIST,
    "notDirectory": errno.ENOTDIR,
    "notEmpty": errno.ENOTEMPTY,
    "noSpace": errno.ENOSPC,
    "readOnly": errno.EROFS,
    "permission": errno.EACCES,
    "user": errno.EPERM,
    "role": errno.EPERM,
    "policy": errno.EPERM,
    "stdinClosed": errno.EPIPE,
}

# Numbers that are the same on every Unix: the server may be another system.
_same: Tuple[int, ...] = (1, 2, 13, 17, 18, 20, 21, 22, 27, 28, 30)


def _os_error(message: str) -> Optional[int]:
    _, found, rest = message.rpartition("(os error ")
    number = rest[:-1]
    return int(number) if found and number.isdigit() and int(number) in _same else None


def refusal(method: str, error: Mapping[str, Any]) -> RequestError:
    """Returns the exception for an error of the wire."""
    code, message, data = error.get("code", 0), str(error.get("message", "")), error.get("data")
    kind = data.get("kind", "") if isinstance(data, Mapping) else ""
    cls = _kinds.get(kind) if kind else _codes.get(code)
    if cls is None and not kind and message.startswith("unknown process id "):
        cls = UnknownProcessError
    return (cls or RequestError)(method, code, message, data)
