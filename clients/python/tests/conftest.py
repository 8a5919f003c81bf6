"""The harness: the real binary, built from the tree, and a proxy that cuts connections."""

import asyncio
import inspect
import os
import pathlib
import signal
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path[:0] = [str(HERE), str(HERE.parent / "src")]

#: No test takes longer, also on a machine with much else to do.
LIMIT = 600.0


def pytest_pyfunc_call(pyfuncitem):
    """Runs a test that is a coroutine."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    asyncio.run(asyncio.wait_for(pyfuncitem.obj(**arguments), LIMIT))
    return True


def skip(why):
    """Skips a test that lacks a tool; with CI=true it fails."""
    if os.environ.get("CI") == "true":
        pytest.fail(why)
    pytest.skip(why)


@pytest.fixture(scope="session")
def troupe_binary(tmp_path_factory):
    """The program troupe: TROUPE_BIN, or built from the tree."""
    path = os.environ.get("TROUPE_BIN")
    if not path:
        path = str(tmp_path_factory.mktemp("bin") / "troupe")
        try:
            subprocess.run(["go", "build", "-trimpath", "-o", path, "./cmd/troupe"], cwd=ROOT, check=True)
        except FileNotFoundError:
            skip("there is no program go")
    return path


class Server:
    """A troupe server with an address of its own."""

    def __init__(self, binary, directory, *flags):
        self.binary, self.directory, self.flags = binary, str(directory), flags
        self.url = "ws://127.0.0.1:0"
        self.start()

    def start(self):
        """Starts the server, again at the same address."""
        environment = {"PATH": os.environ["PATH"], "HOME": self.directory, "XDG_RUNTIME_DIR": self.directory, "GOMAXPROCS": "2"}
        self.log = open(os.path.join(self.directory, "server.log"), "ab")
        self.process = subprocess.Popen(
            [self.binary, "serve", "--listen", self.url, *self.flags],
            stdout=subprocess.PIPE, stderr=self.log, env=environment, cwd=self.directory, text=True,
        )  # fmt: skip
        line = self.process.stdout.readline().strip()
        if not line:
            self.process.wait()
            with open(os.path.join(self.directory, "server.log")) as log:
                raise AssertionError("the server has not started: " + log.read())
        self.url = line

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        self.process.stdout.close()
        self.process.wait()
        self.log.close()


@pytest.fixture(scope="session")
def server(troupe_binary, tmp_path_factory):
    """A server for all tests that do nothing to it."""
    directory = tmp_path_factory.mktemp("server")
    directory.chmod(0o700)
    one = Server(troupe_binary, directory)
    yield one
    one.stop()


@pytest.fixture
def own_server(troupe_binary, tmp_path):
    """A function that starts a server for one test, with flags."""
    servers = []

    def start(*flags):
        directory = tmp_path / ("s%d" % len(servers))
        directory.mkdir(mode=0o700)
        servers.append(Server(troupe_binary, directory, *flags))
        return servers[-1]

    yield start
    for one in servers:
        one.stop()
