#!/usr/bin/python3
"""Writes REFERENCE.md from the source: python3 reference.py. With --check it fails if the file is not up to date."""

import ast
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE / "src" / "troupe"
REFERENCE = HERE / "REFERENCE.md"

#: The sections, and what they list: names of the package.
SECTIONS = (
    ("With asyncio", "_client", ("connect", "Client", "Program")),
    ("Processes", "_process", ("Process", "Reader")),
    ("Events", "_events", ("Output", "Exited", "Restarted", "Ready", "Gap", "Evicted", "Closed", "LinkState")),
    ("Files", "_files", ("Files",)),
    ("Watch a server", "_client", ("Watch",)),
    ("In the manner of subprocess", "_sync", ("run", "Popen", "call", "check_call", "check_output", "SyncClient")),
    ("Exceptions", "errors", None),
)


def main():
    text = reference()
    if sys.argv[1:] != ["--check"]:
        REFERENCE.write_text(text, encoding="utf-8")
    elif not REFERENCE.exists() or REFERENCE.read_text(encoding="utf-8") != text:
        sys.exit("REFERENCE.md is not up to date: run python3 clients/python/reference.py")


def reference():
    out = ["# Reference of the package troupe", "", "Written by `python3 reference.py`. [README.md](README.md) is the guide.", ""]
    for heading, module, names in SECTIONS:
        lines = (SOURCE / (module + ".py")).read_text(encoding="utf-8").splitlines()
        tree = ast.parse("\n".join(lines))
        found = {node.name: node for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
        out += ["## " + heading, ""]
        for name in names or [n for n, node in found.items() if isinstance(node, ast.ClassDef)]:
            node = found[name]
            if isinstance(node, ast.ClassDef):
                out += of_class(node, lines)
            else:
                out += ["### %s" % name, "", *signature(node, lines), "", *paragraphs(node), ""]
    out += [
        "## Types of the wire",
        "",
        "`troupe.wire` has a TypedDict for each object of [schema.json](../../docs/protocol/schema.json), with its description, and",
        "`Client.call` has the types of each method in [section 21](../../docs/PROTOCOL.md#21-all-methods).",
        "",
    ]
    return "\n".join(out)


def of_class(node, lines):
    bases = [ast.unparse(base) for base in node.bases]
    out = ["### %s%s" % (node.name, "(%s)" % ", ".join(bases) if bases else ""), "", *paragraphs(node), ""]
    attributes = list(attributes_of(node, lines))
    if attributes:
        out += ["| attribute | |", "|---|---|"]
        out += ["| `%s` | %s |" % (name, text.replace("|", "\\|")) for name, text in attributes] + [""]
    for method in node.body:
        if isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)) and ast.get_docstring(method) and not method.name.startswith("_"):
            if any(isinstance(d, ast.Name) and d.id == "property" for d in method.decorator_list):
                continue
            text = " ".join(ast.get_docstring(method).split())
            out += ["- `%s%s(%s)`%s: %s" % (
                "await " if awaited(method) else "", method.name, short(method.args), gives(method), text)]  # fmt: skip
    for method in node.body:
        if isinstance(method, ast.FunctionDef) and method.name == "__init__" and node.name in ("Popen", "SyncClient"):
            out += ["", *signature(method, lines, node.name)]
    return out + ([""] if out[-1] else [])


def awaited(method):
    returns = ast.unparse(method.returns) if method.returns else ""
    return isinstance(method, ast.AsyncFunctionDef) and not returns.startswith("AsyncIterator")


def gives(method):
    returns = ast.unparse(method.returns).strip("'\"") if method.returns else "None"
    return "" if returns == "None" else " → `%s`" % returns


def short(args):
    """Returns parameters with their defaults, without self."""
    plain = [a.arg for a in args.args if a.arg != "self"]
    defaults = [ast.unparse(d) for d in args.defaults]
    first = len(plain) - len(defaults)
    parts = [name if i < first else "%s=%s" % (name, defaults[i - first]) for i, name in enumerate(plain)]
    if args.kwonlyargs:
        parts.append("*")
        parts += [a.arg if d is None else "%s=%s" % (a.arg, ast.unparse(d)) for a, d in zip(args.kwonlyargs, args.kw_defaults)]
    if args.kwarg:
        parts.append("**" + args.kwarg.arg)
    return ", ".join(parts)


def signature(node, lines, name=None):
    """Returns the source of the signature."""
    begin, end = node.lineno - 1, node.body[0].lineno - 1
    text = lines[begin:end]
    indent = len(text[0]) - len(text[0].lstrip())
    text = [line[indent:] for line in text]
    if name:
        text[0] = text[0].replace("__init__", name)
    return ["```python", *text, "```"]


def paragraphs(node):
    return (ast.get_docstring(node) or "").splitlines()


def attributes_of(node, lines):
    """Yields the attributes with a comment #: above, fields, and properties."""
    bodies = [node.body] + [m.body for m in node.body if isinstance(m, ast.FunctionDef) and m.name == "__init__"]
    for body in bodies:
        said = ""
        for one in body:
            if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef)) or not isinstance(one, (ast.AnnAssign, ast.Assign)):
                if isinstance(one, ast.FunctionDef) and any(isinstance(d, ast.Name) and d.id == "property" for d in one.decorator_list):
                    if ast.get_docstring(one) and not one.name.startswith("_"):
                        yield one.name, " ".join(ast.get_docstring(one).split())
                continue
            target = one.target if isinstance(one, ast.AnnAssign) else one.targets[0]
            name = target.attr if isinstance(target, ast.Attribute) else target.id if isinstance(target, ast.Name) else "_"
            comment = comment_above(lines, one.lineno - 1)
            is_field = body is node.body and isinstance(one, ast.AnnAssign)
            if name.startswith("_") or not comment and not is_field and not said:
                said = ""
                continue
            said = comment
            yield name, comment


def comment_above(lines, at):
    text = []
    while at > 0 and lines[at - 1].strip().startswith("#:"):
        at -= 1
        text.insert(0, lines[at].strip()[2:].strip())
    return " ".join(text)


if __name__ == "__main__":
    main()
