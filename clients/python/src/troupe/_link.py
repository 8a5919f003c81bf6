"""A connection: a websocket of the library websockets, versions 10 to 15, and what differs between them."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import ipaddress
import ssl as tls
from typing import Any, Dict, List, Optional, Tuple
from urllib.parse import urlsplit

import websockets.exceptions

from . import _codec
from .errors import ConnectError, UnauthorizedError

try:
    _library: Any = importlib.import_module("websockets.asyncio.client")
except ImportError:  # before version 13
    _library = importlib.import_module("websockets.legacy.client")

#: The largest message that a server sends.
MAX_MESSAGE = 64 << 20

#: How many messages the library reads ahead. Beyond that it stops to read, and answers no pings: the server holds back its output.
READ_AHEAD = 8

CLOSE_TIMEOUT = 2.0

ConnectionClosed = websockets.exceptions.ConnectionClosed

_parameters = inspect.signature(_library.connect.__init__).parameters


class Link:
    """A connection with its codec."""

    def __init__(self, ws: Any) -> None:
        self.ws = ws
        self.codec: _codec.Codec = _codec.Msgpack() if ws.subprotocol == "troupe.msgpack" else _codec.Json()

    async def send(self, frame: _codec.Frame) -> None:
        await self.ws.send(frame)

    async def receive(self) -> Any:
        return self.codec.decode(await self.ws.recv())

    async def close(self) -> None:
        """Says goodbye, and waits for the answer of the server a moment."""
        try:
            await asyncio.wait_for(self.ws.close(1000), 2 * CLOSE_TIMEOUT)
        except (asyncio.TimeoutError, OSError, websockets.exceptions.WebSocketException):
            pass
        finally:
            self.abort()

    def abort(self) -> None:
        """Ends the connection at once."""
        transport = self.ws.transport
        if transport is not None:
            transport.abort()


async def dial(url: str, token: str, ssl: Optional[tls.SSLContext], json: bool) -> Link:
    """Opens a connection. An exception is a ConnectError."""
    try:
        return Link(await _open(url, token, ssl, json))
    except (OSError, EOFError, asyncio.TimeoutError, websockets.exceptions.WebSocketException) as error:
        status = _status(error)
        if status in (401, 403):
            raise UnauthorizedError("%s refuses the credential with status %d: pass another token" % (url, status)) from error
        raise ConnectError("no connection to %s: %s" % (url, error or type(error).__name__)) from error


def _open(url: str, token: str, ssl: Optional[tls.SSLContext], json: bool) -> Any:
    options: Dict[str, Any] = {
        "subprotocols": ["troupe.json"] if json or not _codec.HAS_MSGPACK else ["troupe.msgpack", "troupe.json"],
        "compression": None,
        "open_timeout": None,  # the client has its own times,
        "ping_interval": None,  # and its own pings
        "close_timeout": CLOSE_TIMEOUT,
        "max_size": MAX_MESSAGE,
        "max_queue": READ_AHEAD,
    }
    headers: List[Tuple[str, str]] = []
    if token:
        headers.append(("Authorization", "Bearer " + token))
    options["additional_headers" if "additional_headers" in _parameters else "extra_headers"] = headers
    address = urlsplit(url)
    if address.scheme == "unix":
        return _library.unix_connect(url[len("unix://") :], "ws://localhost/", **options)
    if address.scheme not in ("ws", "wss"):
        raise ValueError("the URL %r begins neither with ws:// nor with wss:// nor with unix://" % url)
    if address.scheme == "wss" and ssl is not None:
        options["ssl"] = ssl
    if "proxy" in _parameters and loopback(address.hostname or ""):
        options["proxy"] = None
    connector: Any = _library.connect(url, **options)
    # A redirect would take the token to another server.
    connector.MAX_REDIRECTS_ALLOWED = 1
    connector.process_redirect = lambda refused: refused
    return connector


def loopback(host: str) -> bool:
    """Reports whether host is this machine."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_token(url: str, token: str) -> None:
    """Refuses a token that would cross a network in clear text, or that no header can have."""
    if any(ord(c) < 32 or ord(c) == 127 for c in token):
        raise ValueError("the token has a control character, which no HTTP header can have: is it a single line?")
    address = urlsplit(url)
    if address.scheme == "ws" and not loopback(address.hostname or ""):
        raise ValueError("the token is not sent to %s without TLS: use wss://, or a tunnel to a loopback address" % address.netloc)


def _status(error: BaseException) -> int:
    """Returns the HTTP status with which a server has refused a websocket; 0: another error."""
    response = getattr(error, "response", None)
    status = getattr(response, "status_code", None) or getattr(error, "status_code", None)
    return status if isinstance(status, int) else 0


def cut(error: BaseException) -> bool:
    """Reports whether a connection to a server has ended before an answer: perhaps the next server is there in a moment."""
    cause: Optional[BaseException] = error
    while cause is not None:
        if isinstance(cause, (ConnectionResetError, BrokenPipeError, EOFError, websockets.exceptions.InvalidMessage)):
            return True
        if isinstance(cause, ConnectionClosed):
            code = closed(cause)
            return code is None or code[0] in (1001, 4002)  # the server ends, or takes the connection for broken
        cause = cause.__cause__
    return False


def closed(error: BaseException) -> Optional[Tuple[int, str]]:
    """Returns the code and the reason with which the server has closed a connection; None: there was no Close frame."""
    cause: Optional[BaseException] = error
    while cause is not None:
        if isinstance(cause, ConnectionClosed):
            frame = cause.rcvd
            return (int(frame.code), frame.reason) if frame is not None else None
        cause = cause.__cause__
    return None
