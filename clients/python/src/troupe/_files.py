"""The files of the server."""

from __future__ import annotations

import os
import posixpath
from collections import deque
from typing import TYPE_CHECKING, Any, AsyncIterable, AsyncIterator, Deque, Dict, List, Optional, Sequence, Tuple, Union, cast

from . import wire
from .errors import CutError, ExistsError, FileChangedError, NotFoundError, TroupeError

if TYPE_CHECKING:
    from ._client import Call, Client

Path = Union[str, "os.PathLike[str]"]

#: Bytes of a block of a file.
BLOCK = 256 << 10
#: Blocks under way at once.
BLOCKS = 4


class Files:
    """The files of the server: Client.files. Paths are absolute. All calls go on after a cut.

    A refusal is a RequestError, and also FileNotFoundError, FileExistsError, PermissionError and so on, as for local files.
    """

    def __init__(self, client: "Client") -> None:
        self._client = client

    async def _do(self, method: str, path: Path, **members: Any) -> Any:
        return await self._client.request(method, {"path": _uri(path), **members})

    async def _twice(self, method: str, params: Dict[str, Any]) -> Tuple[bool, Optional[TroupeError]]:
        """Makes a change. The result says whether it was sent more than once: then the error may be due to the first time."""
        call = self._client._send(method, params)
        try:
            await self._client._answer(call)
        except TroupeError as error:
            return call.sends > 1, error
        return False, None

    # Look.

    async def stat(self, path: Path, *, follow: bool = True) -> wire.FsEntry:
        """Describes a file, or with follow the target of a link."""
        return cast(wire.FsEntry, await self._do("fs/stat", path, follow=follow))

    async def exists(self, path: Path) -> bool:
        """Reports whether a path exists; a link counts if its target exists."""
        try:
            await self.stat(path)
        except NotFoundError:
            return False
        return True

    async def list(self, path: Path) -> List[wire.FsEntry]:
        """Lists a directory, sorted by name. A server lists at most 50,000 entries."""
        return cast(List[wire.FsEntry], (await self._do("fs/list", path))["entries"])

    async def walk(self, path: Path, options: Optional[wire.FsWalkOptions] = None) -> wire.FsWalkResult:
        """Lists the files and directories below a directory in a single call, within bounds: by default the most that a server allows."""
        most: wire.FsWalkOptions = {"maxDepth": 64, "maxDirectories": 10_000, "maxEntries": 50_000}
        return cast(wire.FsWalkResult, await self._do("fs/walk", path, options=options or most))

    # Read.

    async def read(self, path: Path) -> bytes:
        """Returns the content of a file."""
        return b"".join([block async for block in self.stream(path)])

    async def stream(self, path: Path, offset: int = 0) -> AsyncIterator[bytes]:
        """Yields the content of a file from an offset, in blocks of up to 256 KiB.

        After a cut the file is opened again. If it has another size or time by then, the error is FileChangedError.
        """
        client = self._client
        about: Optional[wire.FsEntry] = None
        while True:
            handle, link = await self._open(path, "read")
            ahead: Deque["Call"] = deque()
            try:
                now = await self.stat(path)
                if about is not None and (now["size"], now["modifiedAtMs"]) != (about["size"], about["modifiedAtMs"]):
                    raise FileChangedError("%s has changed while the connection was cut: read it again" % os.fspath(path))
                about = now
                while True:
                    while len(ahead) < BLOCKS:
                        ahead.append(self._bound(link, "fs/readBlock", handleId=handle, offset=offset + len(ahead) * BLOCK, len=BLOCK))
                    block = await ahead[0].future
                    ahead.popleft()
                    offset += len(block["chunk"])
                    if block["chunk"]:
                        yield block["chunk"]
                    if block["eof"]:
                        return
            except CutError:
                continue
            finally:
                for call in ahead:
                    client._leave(call)
                self._close(link, handle)

    async def _open(self, path: Path, mode: wire.FsMode) -> Tuple[str, int]:
        """Opens a file. A handle ends with its connection."""
        while True:
            handle, link = self._client._random()[:16], await self._client._connection()
            try:
                await self._client._answer(self._bound(link, "fs/open", handleId=handle, path=_uri(path), mode=mode))
            except CutError:
                continue
            except BaseException:
                self._close(link, handle)  # if the open is under way, the close comes after it
                raise
            return handle, link

    def _bound(self, link: int, method: str, **params: Any) -> "Call":
        """Sends a request about one connection. After its end, the answer is a CutError."""
        from ._client import Call

        call = Call(method, params)
        call.bound = link
        return self._client._queue(call)

    def _close(self, link: int, handle: str) -> None:
        """Begins to close a handle. Nobody waits."""
        call = self._bound(link, "fs/close", handleId=handle)
        call.left = True
        if call.future.done():
            call.future.exception()

    # Write.

    async def write(self, path: Path, data: Union[bytes, AsyncIterable[bytes]], *, mode: Optional[int] = None) -> None:
        """Writes a file: others see the old content, or all of the new one.

        mode has the permission bits; None: an existing file keeps its own, and a new one gets 0644. More than a block goes to a
        temporary file .NAME.troupe-RANDOM in the same directory first.
        """
        exists = True
        try:
            about = await self.stat(path)
            if mode is None:
                mode = about["mode"] & 0o777
            if about["kind"] == "directory":
                raise IsADirectoryError("%s is a directory" % os.fspath(path))
        except NotFoundError:
            exists, mode = False, 0o644 if mode is None else mode
        if isinstance(data, (bytes, bytearray, memoryview)) and len(data) <= BLOCK and (exists or mode & 0o044 == 0o044):
            await self._do("fs/writeFile", path, dataBase64=bytes(data))
            await self.chmod(path, mode)
            return
        directory, name = posixpath.split(os.fspath(path))
        temporary = posixpath.join(directory, ".%s.troupe-%s" % (name[:200], self._client._random()[:8]))
        try:
            await self._upload(temporary, data)
            await self.chmod(temporary, mode)
            if exists:  # so it keeps its owner and its other names
                await self.copy(temporary, path)
                await self.remove(temporary)
            else:
                await self.rename(temporary, path)
        except BaseException:
            self._client._spawn(self._discard(temporary))
            raise

    async def _discard(self, temporary: str) -> None:
        try:
            await self.remove(temporary)
        except TroupeError:
            pass

    async def _upload(self, path: str, data: Union[bytes, AsyncIterable[bytes]]) -> None:
        """Writes a new file in blocks. After a cut it goes on with the blocks without an answer."""
        client = self._client
        handle, link = await self._open(path, "update")
        under_way: Deque[Tuple[Dict[str, Any], "Call"]] = deque()
        offset = 0

        async def settle(most: int) -> None:
            nonlocal handle, link
            while len(under_way) > most:
                try:
                    await under_way[0][1].future
                    under_way.popleft()
                except CutError:
                    handle, link = await self._open(path, "update")
                    blocks = [params for params, _ in under_way]
                    for _, call in under_way:
                        client._leave(call)
                    under_way.clear()
                    for params in blocks:
                        params["handleId"] = handle
                        under_way.append((params, self._bound(link, "fs/writeBlock", **params)))

        try:
            async for block in _blocks(data):
                params = {"handleId": handle, "offset": offset, "chunk": block}
                under_way.append((params, self._bound(link, "fs/writeBlock", **params)))
                offset += len(block)
                await settle(BLOCKS - 1)
            await settle(0)
            try:
                await client._answer(self._bound(link, "fs/close", handleId=handle))
            except CutError:
                pass  # a cut closes, too
        except BaseException:
            for _, call in under_way:
                client._leave(call)
            self._close(link, handle)
            raise

    # Change.

    async def mkdir(self, path: Path, *, parents: bool = False) -> None:
        """Makes a directory; with parents also the directories above, and an existing one is accepted."""
        again, error = await self._twice("fs/createDirectory", {"path": _uri(path), "recursive": parents})
        if error is not None and not (again and isinstance(error, ExistsError)):
            raise error

    async def remove(self, path: Path, *, recursive: bool = False) -> None:
        """Removes a file, a link or an empty directory; with recursive a directory with its content, and a missing path is no error."""
        again, error = await self._twice("fs/remove", {"path": _uri(path), "recursive": recursive, "force": recursive})
        if error is not None and not (again and isinstance(error, NotFoundError)):
            raise error

    async def rename(self, path: Path, to: Path) -> None:
        """Gives a file another name in the same filesystem. A file of that name is replaced."""
        again, error = await self._twice("fs/rename", {"sourcePath": _uri(path), "destinationPath": _uri(to)})
        if error is not None and not (again and isinstance(error, NotFoundError) and await self.exists(to)):
            raise error

    async def copy(self, path: Path, to: Path, *, recursive: bool = False) -> None:
        """Copies a file with its mode, or a link as a link; with recursive a directory. An existing file is replaced."""
        await self._client.request(
            "fs/copy", {"sourcePath": _uri(path), "destinationPath": _uri(to), "recursive": recursive}
        )

    async def symlink(self, target: str, path: Path) -> None:
        """Makes a link with a target, which is kept as it is."""
        again, error = await self._twice("fs/symlink", {"path": _uri(path), "target": target})
        if error is not None and not (again and isinstance(error, ExistsError)):
            raise error

    async def chmod(self, path: Path, mode: int) -> None:
        """Sets the permission bits of a file or directory."""
        await self._do("fs/setMetadata", path, mode=mode & 0o777)

    async def utime(self, path: Path, modified: float) -> None:
        """Sets the time of the last change, in seconds since 1970, to the millisecond."""
        await self._do("fs/setMetadata", path, modifiedAtMs=round(modified * 1000))

    # Wait.

    async def wait_for(self, missing: Sequence[Path] = (), present: Sequence[Path] = ()) -> None:
        """Waits until one of the paths in missing exists, or one of those in present does not. Afterwards it may be different again."""
        from ._client import Call

        while True:
            watch = Call("", None)
            watch.bound, watch.silent = await self._client._connection(), True
            self._client._queue(watch)
            try:
                await self._client._answer(self._bound(
                    watch.bound, "fs/watchMissing", watchId=watch.n, missing=[_uri(p) for p in missing], present=[_uri(p) for p in present]
                ))  # fmt: skip
                await self._client._answer(watch)
                return
            except CutError:
                continue
            finally:
                self._client._leave(watch)


async def _blocks(data: Union[bytes, AsyncIterable[bytes]]) -> AsyncIterator[bytes]:
    """Yields data in blocks of BLOCK bytes."""
    if isinstance(data, (bytes, bytearray, memoryview)):
        for at in range(0, len(data), BLOCK):
            yield bytes(data[at : at + BLOCK])
        return
    rest = bytearray()
    async for some in data:
        rest += some
        while len(rest) >= BLOCK:
            yield bytes(rest[:BLOCK])
            del rest[:BLOCK]
    if rest:
        yield bytes(rest)


def _uri(path: Path) -> str:
    from ._client import file_uri

    text = os.fspath(path)
    if not text.startswith("/"):
        raise ValueError("the path %r is relative: pass an absolute path of the server" % text)
    return file_uri(text)
