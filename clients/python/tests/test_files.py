"""Files of the server, over cuts."""

import asyncio
import os

import pytest
import troupe
from cutter import Cutter


async def test_whole_files(server, tmp_path):
    async with troupe.connect(server.url) as client:
        files = client.files
        small, big = tmp_path / "a name with ünicode %41", tmp_path / "big"
        await files.write(small, b"hello")
        assert small.read_bytes() == b"hello" and small.stat().st_mode & 0o777 == 0o644
        assert await files.read(small) == b"hello"
        data = os.urandom(3_000_001)
        await files.write(big, data, mode=0o600)
        assert big.read_bytes() == data and big.stat().st_mode & 0o777 == 0o600
        assert await files.read(big) == data
        blocks = [block async for block in files.stream(big, 2_999_000)]
        assert b"".join(blocks) == data[2_999_000:]
        await files.write(big, data[::-1])  # keeps its mode
        assert big.read_bytes() == data[::-1] and big.stat().st_mode & 0o777 == 0o600
        await files.write(tmp_path / "empty", b"")
        assert await files.read(tmp_path / "empty") == b""

        async def pieces():
            for n in range(20):
                yield bytes([n]) * 50_000

        await files.write(tmp_path / "streamed", pieces())
        assert (tmp_path / "streamed").read_bytes() == b"".join([p async for p in pieces()])
        assert {e["fileName"] for e in await files.list(tmp_path)} == {small.name, "big", "empty", "streamed"}
        await client.close_session()


async def test_changes(server, tmp_path):
    async with troupe.connect(server.url) as client:
        files = client.files
        await files.mkdir(tmp_path / "a/b", parents=True)
        await files.write(tmp_path / "a/b/f", b"x")
        await files.copy(tmp_path / "a", tmp_path / "c", recursive=True)
        await files.rename(tmp_path / "c/b/f", tmp_path / "c/g")
        await files.symlink("g", tmp_path / "c/link")
        await files.chmod(tmp_path / "c/g", 0o640)
        await files.utime(tmp_path / "c/g", 1234567890.5)
        about = await files.stat(tmp_path / "c/link")
        assert (about["kind"], about["mode"], about["modifiedAtMs"], about["size"]) == ("file", 0o640, 1234567890500, 1)
        assert (await files.stat(tmp_path / "c/link", follow=False))["target"] == "g"
        assert len((await files.walk(tmp_path))["entries"]) >= 5
        assert await files.exists(tmp_path / "c/g") and not await files.exists(tmp_path / "no")
        with pytest.raises(OSError):
            await files.remove(tmp_path / "a")
        await files.remove(tmp_path / "a", recursive=True)
        await files.remove(tmp_path / "a", recursive=True)
        assert not (tmp_path / "a").exists()
        with pytest.raises(IsADirectoryError):
            await files.write(tmp_path / "c", b"x")
        with pytest.raises(ValueError, match="relative"):
            await files.read("relative")
        await client.close_session()


async def test_files_over_cuts(server, tmp_path):
    """A file is written and read while each connection is cut after a few messages, and is whole."""
    data = os.urandom(4_000_000)
    path = tmp_path / "f"
    for direction, every in (("down", 6), ("up", 7), ("down", 9)):
        plan = lambda n, way, k: ["before", "after", "within"][n % 3] if n < 12 and (way, k) == (direction, every) else None  # noqa: E731
        async with Cutter(server.url, plan) as cutter, troupe.connect(cutter.url) as client:
            await client.files.write(path, data)
            assert path.read_bytes() == data
            assert await client.files.read(path) == data
            assert cutter.cuts >= 2
            await client.files.remove(path)
            assert os.listdir(tmp_path) == []
            await client.close_session()


async def test_file_that_changes_during_a_cut(server, tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"x" * 2_000_000)
    cut = False

    def plan(connection, way, k):
        nonlocal cut
        if connection == 1 and way == "down" and cut:
            path.write_bytes(b"y" * 2_000_001)
            return "before"
        return None

    async with Cutter(server.url, plan) as cutter, troupe.connect(cutter.url) as client:
        with pytest.raises(troupe.FileChangedError):
            async for _ in client.files.stream(path):
                cut = True
        await client.close_session()


async def test_cancelled_write_leaves_nothing(server, tmp_path):
    async with troupe.connect(server.url) as client:

        async def endless():
            while True:
                yield b"x" * 300_000
                await asyncio.sleep(0)

        writing = asyncio.ensure_future(client.files.write(tmp_path / "f", endless()))
        while not os.listdir(tmp_path):
            await asyncio.sleep(0.01)
        writing.cancel()
        await asyncio.wait([writing])
        while os.listdir(tmp_path):
            await asyncio.sleep(0.01)
        await client.close_session()


async def test_wait_for(server, tmp_path):
    """A watch goes on after a cut."""
    path = tmp_path / "f"
    async with Cutter(server.url, lambda n, way, k: "after" if n == 1 and way == "down" and k == 3 else None) as cutter:
        async with troupe.connect(cutter.url) as client:
            waiting = asyncio.ensure_future(client.files.wait_for(missing=[path]))
            await client.processes()
            await client.processes()
            assert cutter.cuts == 1 and not waiting.done()
            path.write_text("x")
            await waiting
            waiting = asyncio.ensure_future(client.files.wait_for(present=[path]))
            await client.processes()
            path.unlink()
            await waiting
            await client.close_session()


async def test_changes_whose_answer_is_lost(server, tmp_path):
    """A change that is sent twice is no error the second time."""
    (tmp_path / "old").write_text("x")
    (tmp_path / "gone").write_text("x")
    for change, holds in (
        (lambda f: f.mkdir(tmp_path / "new"), lambda: (tmp_path / "new").is_dir()),
        (lambda f: f.remove(tmp_path / "gone"), lambda: not (tmp_path / "gone").exists()),
        (lambda f: f.rename(tmp_path / "old", tmp_path / "renamed"), lambda: (tmp_path / "renamed").exists()),
        (lambda f: f.symlink("x", tmp_path / "link"), lambda: os.readlink(tmp_path / "link") == "x"),
    ):
        async with Cutter(server.url, lambda n, way, k: "before" if (n, way, k) == (1, "down", 2) else None) as cutter:
            async with troupe.connect(cutter.url) as client:
                await change(client.files)
                assert cutter.cuts == 1 and holds()
                await client.close_session()
