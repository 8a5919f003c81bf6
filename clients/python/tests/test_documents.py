"""README.md works as it is written, the reference is up to date, and all is typed."""

import ast
import os
import re
import shutil
import subprocess
import sys
import zipfile

import troupe
from conftest import HERE, skip

PACKAGE = HERE.parent
README = (PACKAGE / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.S)
ENVIRONMENT = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "PYTHONPATH": str(PACKAGE / "src")}


def script(text, **environment):
    done = subprocess.run([sys.executable, "-c", text], env={**ENVIRONMENT, **environment}, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_first_lines(server):
    """Only the address is another one."""
    assert BLOCKS[0].count("ws://127.0.0.1:7766") == 1
    out = script(BLOCKS[0].replace("ws://127.0.0.1:7766", server.url)).splitlines()
    assert len(BLOCKS[0].strip().splitlines()) <= 11
    assert "".join(re.findall(r"data=b'(.*?)'", "\n".join(out))) == "line 1\\nline 2\\nline 3\\n"
    assert out[-1] == "exit code 7"


def test_lines_without_asyncio(server):
    assert script(BLOCKS[1], TROUPE_URL=server.url) == "a\nb\n"


def test_further_lines_name_what_exists():
    """Each method in the overview exists, with the parameters that are named."""
    tree = ast.parse("async def f():\n" + "".join("    %s\n" % line for line in BLOCKS[2].splitlines()))
    owners = {"client": troupe.Client, "process": troupe.Process, "shell": troupe.Process, "troupe": troupe, "files": troupe.Files}
    found = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = node.func.value
            name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
            if name in owners:
                method = getattr(owners[name], node.func.attr)
                known = method.__code__.co_varnames if hasattr(method, "__code__") else method.__init__.__code__.co_varnames
                assert all(k.arg in known for k in node.keywords), ast.unparse(node)
                found += 1
    assert found >= 15


def test_reference_is_up_to_date():
    if sys.version_info[:2] != (3, 11):
        skip("versions of Python write some types in other ways")
    subprocess.run([sys.executable, str(PACKAGE / "reference.py"), "--check"], check=True, timeout=600)


def test_public_names_are_documented():
    for name in troupe.__all__:
        value = getattr(troupe, name)
        if isinstance(value, type) and value.__module__.startswith("troupe"):
            assert value.__doc__, name
            for method in vars(value).values():
                if callable(method) and not getattr(method, "__name__", "_").startswith("_"):
                    assert method.__doc__ or issubclass(value, (tuple, Exception)), (name, method)


def test_types(tmp_path):
    """mypy --strict has nothing to say about the package, and sees through call."""
    try:
        import mypy  # noqa: F401
    except ImportError:
        skip("there is no mypy")
    user = tmp_path / "user.py"
    user.write_text(
        "import troupe\n"
        "async def f(client: troupe.Client) -> int:\n"
        "    info = await client.call('process/info', {'processId': 'x'})\n"
        "    process = await client.start(['true'])\n"
        "    async for event in process:\n"
        "        if isinstance(event, troupe.Output):\n"
        "            print(event.data + b'')\n"
        "    reveal_type(info['run'])\n"
        "    await client.call('process/info', {'processID': 'x'})\n"
        "    return (await process.wait())['exitCode']\n"
    )
    cache = str(tmp_path / "cache")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir", cache, "--strict", "--python-version", "3.9", str(PACKAGE / "src/troupe"), str(user)],
        cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if "note: " not in line or "Revealed" in line]
    assert len(lines) == 3, done.stdout
    assert 'user.py:8: note: Revealed type is "builtins.int"' in lines[0]
    assert "user.py:9: error:" in lines[1]


def test_packages(tmp_path):
    """The wheel has the package with its types, and works from where it is."""
    try:
        import build  # noqa: F401
        import setuptools  # noqa: F401
        import wheel  # noqa: F401
    except ImportError:
        skip("python3-build, python3-setuptools or python3-wheel is missing")
    source = tmp_path / "source"
    shutil.copytree(PACKAGE, source, ignore=shutil.ignore_patterns("__pycache__", "dist"))  # a build leaves files in the source
    out = tmp_path / "out"
    done = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(source)],
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    names = sorted(os.listdir(out))
    assert names == ["troupe-%s-py3-none-any.whl" % troupe.__version__, "troupe-%s.tar.gz" % troupe.__version__]
    where = subprocess.run(
        [sys.executable, "-c", "import troupe; print(troupe.run.__module__, troupe.__file__)"],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(out / names[0])}, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert "py3-none-any.whl" in where.stdout, where.stderr
    inside = zipfile.ZipFile(out / names[0]).namelist()
    assert "troupe/py.typed" in inside and "troupe/wire.py" in inside
    assert not [name for name in inside if name.startswith("tests")]
