"""The two encodings of messages: JSON, and msgpack if it is installed."""

from __future__ import annotations

import base64
import json
from typing import Any, Dict, Tuple, Union

from .wire import NOTIFICATIONS, RESULTS

try:
    import msgpack  # type: ignore
except ImportError:
    msgpack = None

#: Whether msgpack is installed.
HAS_MSGPACK = msgpack is not None

Frame = Union[str, bytes]


def _base64(value: object) -> str:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode("ascii")
    raise TypeError("a value of type %s has no form in JSON" % type(value).__name__)


class Json:
    """JSON in text messages. Bytes are base64."""

    def encode(self, message: Dict[str, Any]) -> Frame:
        text = json.dumps(message, default=_base64, ensure_ascii=False, separators=(",", ":"))
        text.encode()  # a lone surrogate fails here, and so fails this request alone
        return text

    def decode(self, frame: Frame) -> Any:
        return json.loads(frame)


class Msgpack:
    """msgpack in binary messages. Bytes are bin."""

    def encode(self, message: Dict[str, Any]) -> Frame:
        packed: bytes = msgpack.packb(message, use_bin_type=True)
        return packed

    def decode(self, frame: Frame) -> Any:
        return msgpack.unpackb(frame, raw=False)


Codec = Union[Json, Msgpack]


def _fill(value: Any, path: Tuple[str, ...]) -> None:
    """Replaces base64 at a path of value by bytes, in place."""
    name, rest = path[0], path[1:]
    if isinstance(value, list):  # name is *
        for one in value:
            _fill(one, rest)
    elif isinstance(value, dict) and rest:
        _fill(value.get(name), rest)
    elif isinstance(value, dict) and isinstance(value.get(name), str):
        value[name] = base64.b64decode(value[name])


def result(method: str, value: Any) -> Any:
    """Returns the result of a method with its bytes."""
    for path in RESULTS.get(method, ()):
        _fill(value, path)
    return value


def notification(method: str, value: Any) -> Any:
    """Returns the params of a notification with their bytes."""
    for path in NOTIFICATIONS.get(method, ()):
        _fill(value, path)
    return value
