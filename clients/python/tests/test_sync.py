"""The synchronous face does what subprocess does."""

import io
import os
import signal
import subprocess
import sys
import threading

import pytest
import troupe


@pytest.fixture(scope="module")
def session(server):
    with troupe.SyncClient(server.url) as sync:
        yield sync
        sync.close_session()


ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "GREETING": "hello world"}


def outcome(run, *args, **options):
    """Returns what a call gives, or its exception, in a form that can be compared."""
    try:
        done = run(*args, **options)
    except BaseException as error:
        numbers = getattr(error, "errno", None)
        base = next(c for c in type(error).__mro__ if c.__module__ in ("builtins", "subprocess") and c not in (Exception, ConnectionError))
        details = {k: getattr(error, k) for k in ("returncode", "cmd", "timeout", "output", "stderr") if hasattr(error, k) and not numbers}
        if "timeout" in details:
            details["timeout"] = round(details["timeout"], 1)  # run of subprocess has taken time off
        return base, numbers, details
    if isinstance(done, subprocess.CompletedProcess):
        return done.args, done.returncode, done.stdout, done.stderr
    return done


SH = ["sh", "-c"]
CASES = {
    "success": (["true"], {}),
    "failure": (["false"], {}),
    "exit code": ([*SH, "exit 42"], {}),
    "stdout": (["echo", "hi"], {"capture_output": True}),
    "both": ([*SH, "echo out; echo err >&2; exit 3"], {"capture_output": True}),
    "stdout only": ([*SH, "echo out; echo err >&2"], {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}),
    "merged": ([*SH, "echo a; echo b >&2; echo c"], {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}),
    "text": (["printf", "a\\r\\nb\\rc\\n\\303\\274"], {"capture_output": True, "text": True, "encoding": "utf-8"}),
    "bad text": (["printf", "\\377"], {"capture_output": True, "text": True, "encoding": "utf-8"}),
    "replaced text": (["printf", "\\377"], {"capture_output": True, "text": True, "encoding": "utf-8", "errors": "replace"}),
    "latin": (["printf", "\\377"], {"capture_output": True, "encoding": "latin-1"}),
    "bytes": (["printf", "\\000\\377"], {"capture_output": True}),
    "input": (["cat"], {"input": b"some\0bytes", "capture_output": True}),
    "text input": (["cat"], {"input": "süß\n", "capture_output": True, "text": True, "encoding": "utf-8"}),
    "empty input": (["cat"], {"input": b"", "capture_output": True}),
    "much input": (["wc", "-c"], {"input": b"x" * 1_000_000, "capture_output": True}),
    "input that nobody reads": (["true"], {"input": b"x" * 1_000_000, "capture_output": True}),
    "much output": (["head", "-c", "3000000", "/dev/zero"], {"capture_output": True}),
    "much of both": ([*SH, "head -c 2000000 /dev/zero; head -c 2000000 /dev/zero >&2"], {"capture_output": True}),
    "no stdin": (["cat"], {"capture_output": True, "stdin": subprocess.DEVNULL}),
    "shell": ("echo $((1+2)) | tr 3 4", {"shell": True, "capture_output": True}),
    "shell that fails": ("exit 9", {"shell": True, "capture_output": True, "check": True}),
    "shell with arguments": (["echo $0 $1", "a", "b c"], {"shell": True, "capture_output": True}),
    "string": ("true", {}),
    "string with blanks": ("echo hi", {}),
    "path": (__import__("pathlib").Path("/bin/echo"), {"capture_output": True}),
    "bytes arguments": ([b"echo", b"hi"], {"capture_output": True}),
    "executable": (["a-name", "-c", "echo $0"], {"executable": "/bin/sh", "capture_output": True}),
    "environment": ([*SH, 'echo "$GREETING"'], {"capture_output": True}),
    "directory": (["pwd"], {"cwd": "/usr", "capture_output": True}),
    "check": (["true"], {"check": True}),
    "check that fails": ([*SH, "echo o; echo e >&2; exit 5"], {"check": True, "capture_output": True}),
    "killed": ([*SH, "kill -9 $$"], {}),
    "terminated": ([*SH, "kill $$"], {"check": True}),
    "real-time signal": ([*SH, "kill -35 $$"], {}),
    "timeout": (["sleep", "1000"], {"timeout": 0.1}),
    "timeout with output": ([*SH, "echo some; exec sleep 1000"], {"timeout": 0.5, "capture_output": True}),
    "no timeout": (["echo", "hi"], {"timeout": 1000, "capture_output": True}),
    "no program": (["no-such-program"], {}),
    "no such path": (["/no/such/program"], {}),
    "not executable": (["/etc/passwd"], {}),
    "a directory": (["/etc"], {}),
    "no directory": (["true"], {"cwd": "/no/such"}),
    "null byte": (["a\0b"], {}),
    "input and stdin": (["cat"], {"input": b"x", "stdin": subprocess.PIPE}),
    "capture and stdout": (["cat"], {"capture_output": True, "stdout": subprocess.PIPE}),
    "None in arguments": (["echo", None], {}),
    "number in arguments": (["echo", 1], {}),
}


@pytest.mark.parametrize("name", CASES)
def test_run_as_subprocess(session, name):
    args, options = CASES[name]
    want = outcome(subprocess.run, args, env=ENVIRONMENT, **options)
    got = outcome(session.run, args, env=ENVIRONMENT, **options)
    if name == "timeout with output":  # how much has come by then is chance
        assert got[0] is want[0] and got[2]["output"] in (None, b"some\n")
        return
    assert got == want


def test_differences(session):
    """What differs from subprocess, and is documented."""
    with pytest.raises(NotADirectoryError):
        subprocess.run(["true"], cwd="/etc/passwd")
    with pytest.raises(FileNotFoundError):
        session.run(["true"], cwd="/etc/passwd")
    with pytest.raises(ValueError):  # as Python 3.13
        session.run(["true"], stdout=subprocess.STDOUT)
    assert session.run(["cat"], stdout=PIPE).stdout == b""  # stdin is /dev/null


def test_script_that_is_no_program(session, tmp_path):
    script = tmp_path / "script"
    script.write_text("hello")
    script.chmod(0o755)
    assert outcome(session.run, [str(script)]) == outcome(subprocess.run, [str(script)])


def both(test):
    """Runs a test with subprocess.Popen and with ours."""

    @pytest.mark.parametrize("which", ["subprocess", "troupe"])
    def run(session, which, capfd, tmp_path):
        popen = subprocess.Popen if which == "subprocess" else session.popen
        test(popen, capfd, tmp_path)

    run.__name__ = test.__name__
    return run


PIPE = subprocess.PIPE


@both
def test_pipes(popen, capfd, tmp_path):
    with popen(["cat"], stdin=PIPE, stdout=PIPE) as p:
        p.stdin.write(b"one\n")
        p.stdin.flush()
        assert p.stdout.readline() == b"one\n"
        assert p.poll() is None and p.returncode is None
        p.stdin.write(b"two\nthree")
        p.stdin.close()
        assert p.stdout.read() == b"two\nthree"
        assert p.wait() == 0 and p.poll() == 0 and p.returncode == 0


@both
def test_text_pipes(popen, capfd, tmp_path):
    with popen(["cat"], stdin=PIPE, stdout=PIPE, text=True, bufsize=1, encoding="utf-8") as p:
        p.stdin.write("ümlaut\n")
        assert p.stdout.readline() == "ümlaut\n"
        p.stdin.write("a\nb\n")
        p.stdin.close()
        assert list(p.stdout) == ["a\n", "b\n"]
    assert p.returncode == 0


@both
def test_unbuffered(popen, capfd, tmp_path):
    with popen(["cat"], stdin=PIPE, stdout=PIPE, bufsize=0) as p:
        assert p.stdin.write(b"abc") == 3
        got = b""
        while len(got) < 3:
            got += p.stdout.read(10)
        assert got == b"abc"
        p.stdin.close()
        assert p.stdout.read(10) == b""


@both
def test_stderr_apart(popen, capfd, tmp_path):
    with popen(["sh", "-c", "echo e >&2; echo o"], stdout=PIPE, stderr=PIPE) as p:
        assert p.stderr.read() == b"e\n"
        assert p.stdout.read() == b"o\n"
    assert p.stdin is None and p.args == ["sh", "-c", "echo e >&2; echo o"]


@both
def test_inherited_output(popen, capfd, tmp_path):
    with popen(["sh", "-c", "echo to stdout; echo to stderr >&2"]) as p:
        assert p.wait() == 0
    assert capfd.readouterr() == ("to stdout\n", "to stderr\n")
    assert p.stdout is None and p.stderr is None


@both
def test_files(popen, capfd, tmp_path):
    source, target = tmp_path / "in", tmp_path / "out"
    source.write_bytes(b"x" * 200_000 + b"end")
    with open(source, "rb") as stdin, open(target, "wb") as stdout:
        assert popen(["cat"], stdin=stdin, stdout=stdout).wait() == 0
    assert target.read_bytes() == source.read_bytes()


@both
def test_wait_is_for_the_output_too(popen, capfd, tmp_path):
    """What the program wrote is in its file when wait returns."""
    read, write = os.pipe()
    p = popen(["head", "-c", "300000", "/dev/zero"], stdout=write)
    got = []

    def collect():
        while True:
            some = os.read(read, 4096)
            if not some:
                return
            got.append(some)

    collecting = threading.Thread(target=collect)
    if popen is not subprocess.Popen:
        while not p.process.status:  # the end has come, and the pipe is full
            pass
    collecting.start()
    assert p.wait() == 0
    os.close(write)
    collecting.join()
    os.close(read)
    assert len(b"".join(got)) == 300_000


@both
def test_signals(popen, capfd, tmp_path):
    for send, code in (
        (lambda p: p.kill(), -9),
        (lambda p: p.terminate(), -15),
        (lambda p: p.send_signal(signal.SIGINT), -2),
        (lambda p: p.send_signal(1), -1),
    ):
        p = popen(["sleep", "1000"])
        send(p)
        assert p.wait() == code
        p.kill()  # it has ended: nothing happens
        assert p.returncode == code


@both
def test_wait_with_timeout(popen, capfd, tmp_path):
    p = popen(["sleep", "1000"])
    with pytest.raises(subprocess.TimeoutExpired) as expired:
        p.wait(timeout=0.05)
    assert (expired.value.cmd, expired.value.timeout) == (["sleep", "1000"], 0.05)
    p.kill()
    assert p.wait(timeout=1000) == -9


@both
def test_communicate_after_a_wait(popen, capfd, tmp_path):
    with popen(["sh", "-c", "echo begin; read x; echo got $x; echo err >&2; read y"], stdin=PIPE, stdout=PIPE, stderr=PIPE) as p:
        with pytest.raises(subprocess.TimeoutExpired):
            p.wait(0.05)
        assert p.communicate(b"in\n") == (b"begin\ngot in\n", b"err\n")
        assert p.returncode == 1  # read y finds the end


@both
def test_communicate_timeout(popen, capfd, tmp_path):
    go = tmp_path / "go"
    p = popen(["sh", "-c", "cat; while ! [ -e '%s' ]; do sleep 0.02; done; echo end" % go], stdin=PIPE, stdout=PIPE)
    with pytest.raises(subprocess.TimeoutExpired):
        p.communicate(b"input ", timeout=0.2)
    go.write_text("")
    assert p.communicate() == (b"input end\n", None)
    assert p.returncode == 0


@both
def test_broken_pipe(popen, capfd, tmp_path):
    with popen(["true"], stdin=PIPE) as p:
        p.wait()
        with pytest.raises(BrokenPipeError):
            while True:
                p.stdin.write(b"x" * 100_000)
                p.stdin.flush()


@both
def test_closed_output_ends_the_program(popen, capfd, tmp_path):
    with popen(["yes"], stdout=PIPE) as p:
        assert p.stdout.readline() == b"y\n"
    assert p.returncode == -13


@both
def test_pid(popen, capfd, tmp_path):
    with popen(["sh", "-c", "echo $$; read x"], stdin=PIPE, stdout=PIPE) as p:
        assert int(p.stdout.readline()) == p.pid
        p.stdin.close()


@both
def test_descendants_do_not_hold_up_wait(popen, capfd, tmp_path):
    with popen(["sh", "-c", "sleep 1000 & echo $!"], stdout=PIPE) as p:
        child = int(p.stdout.readline())
        assert p.wait() == 0
        os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize("module", [subprocess, troupe])
def test_helpers(module, session):
    with_client = {"client": session} if module is troupe else {}
    assert module.call(["sh", "-c", "exit 3"], **with_client) == 3
    assert module.check_call(["true"], **with_client) == 0
    with pytest.raises(subprocess.CalledProcessError) as failed:
        module.check_call(["false"], **with_client)
    assert (failed.value.returncode, failed.value.cmd) == (1, ["false"])
    assert module.check_output(["echo", "hi"], text=True, **with_client) == "hi\n"
    with pytest.raises(subprocess.CalledProcessError) as failed:
        module.check_output(["sh", "-c", "echo out; exit 1"], **with_client)
    assert failed.value.output == b"out\n"
    with pytest.raises(subprocess.TimeoutExpired):
        module.check_output(["sleep", "1000"], timeout=0.05, **with_client)
    with pytest.raises(ValueError):
        module.check_output(["true"], stdout=PIPE, **with_client)


def test_many_threads(session):
    """Threads share a session."""
    results = [None] * 16

    def work(n):
        results[n] = session.run(["sh", "-c", "echo %d; cat" % n], input=b"x" * 100_000, capture_output=True).stdout

    threads = [threading.Thread(target=work, args=(n,)) for n in range(len(results))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [b"%d\n" % n + b"x" * 100_000 for n in range(len(results))]


def test_everything_else_by_wait(session):
    """The methods of asyncio are there, too; a wait has a limit."""
    assert isinstance(session.wait(session.client.processes()), list)
    with session.popen(["cat"], stdin=PIPE, stdout=PIPE) as p:
        with pytest.raises(TimeoutError):
            session.wait(p.process.closed(), timeout=0.05)
        assert session.wait(p.process.info())["state"] == "running"
        p.stdin.close()


def test_wait_on_the_thread_of_the_loop_is_refused(session):
    async def wrong():
        work = session.client.processes()
        try:
            session.wait(work)
        finally:
            work.close()

    with pytest.raises(RuntimeError, match="use await"):
        session.wait(wrong())


def test_members_of_the_wire(session):
    """Further members of process/start are parameters."""
    assert session.run(["sh", "-c", "umask"], stdout=PIPE, umask="077").stdout == b"0077\n"
    done = session.run(["stty", "size"], stdout=PIPE, tty=True, size={"rows": 30, "cols": 90})
    assert done.stdout == b"30 90\r\n"


def test_own_session_of_a_program(server, tmp_path):
    """run without a client has a session at the server of TROUPE_URL, which ends with the program."""
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, troupe\n"
        "sys.stdout.write(troupe.run(['echo', 'hi'], capture_output=True, text=True).stdout)\n"
        "p = troupe.Popen(['sleep', '1000'])\n"
        "print(p.pid, flush=True)\n"
        "troupe.run(['echo', 'inherited'])\n"
    )
    environment = {**os.environ, "TROUPE_URL": server.url, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, str(program)], env=environment, capture_output=True, text=True, timeout=600)
    assert done.stderr == ""
    first, pid, last = done.stdout.splitlines()
    assert (first, last) == ("hi", "inherited")
    assert not os.path.exists("/proc/" + pid)


def test_own_server(troupe_binary, tmp_path):
    """Without a URL the program troupe starts the user's own server."""
    directory = tmp_path / "run"
    directory.mkdir(mode=0o700)
    (tmp_path / "bin").mkdir()
    os.symlink(troupe_binary, tmp_path / "bin" / "troupe")
    environment = {
        "PATH": "%s:/usr/bin:/bin" % (tmp_path / "bin"),
        "HOME": str(tmp_path),
        "XDG_RUNTIME_DIR": str(directory),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    program = "import troupe; print(troupe.run(['echo', 'from my own server'], capture_output=True, text=True).stdout, end='')"
    try:
        for _ in range(2):
            done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=600)
            assert (done.stdout, done.stderr) == ("from my own server\n", "")
    finally:
        subprocess.run([troupe_binary, "server", "stop", "--force"], env=environment, check=True, stdout=subprocess.DEVNULL)


def test_interrupt_kills_what_runs(server, tmp_path):
    """Control-C in a run is a KeyboardInterrupt, as with subprocess, and the program is killed."""
    program = tmp_path / "program.py"
    program.write_text(
        "import troupe\n"
        "try:\n    troupe.run(['sh', '-c', 'echo $$; exec sleep 1000'])\n"
        "except KeyboardInterrupt:\n    print('interrupted', flush=True)\n"
    )
    environment = {**os.environ, "TROUPE_URL": server.url, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, str(program)], env=environment, stdout=PIPE, stderr=PIPE, text=True) as running:
        pid = running.stdout.readline().strip()
        running.send_signal(signal.SIGINT)
        assert running.communicate(timeout=600) == ("interrupted\n", "")
    assert running.returncode == 0
    assert not os.path.exists("/proc/" + pid)


def test_files_of_popen_are_io(session):
    with session.popen(["cat"], stdin=PIPE, stdout=PIPE) as p:
        assert isinstance(p.stdin, io.BufferedWriter) and isinstance(p.stdout, io.BufferedReader)
        p.stdin.close()
