"""The page docs/api.md from the signatures and docstrings of the package; kept by `--write`.

It is read from the sources, so that it is the same whatever Python writes it.
"""

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "python" / "forepass"
PAGE = ROOT / "docs" / "api.md"
WIDTH = 88

SECTIONS = {
    "The model": ("model", "_core"),
    "Configuration": ("config",),
    "Replay and inspection": ("replay", "replay_result"),
    "Launches and speculation": ("launch", "schemes"),
    "Errors": ("errors",),
}
ALIASES = (
    "model",
    "config",
    "documents",
    "sources",
    "replay",
    "launch",
    "schemes",
    "strict_json",
)

INTRODUCTION = """\
# API reference

The public names of `forepass`, from its docstrings (`make docs` writes this page). Times go in as
seconds (`wall_time`) and come out as milliseconds (`*_ms`). What stands for a type in a signature
is told [below](#types). Objects with fields are made by keywords; a field without a default must
be given.
"""

Function = ast.FunctionDef


def parsed(name: str) -> list[ast.stmt]:
    """The statements of a module of the package."""
    return ast.parse((PACKAGE / name).read_text(encoding="utf-8")).body


def public_names() -> dict[str, str]:
    """What `forepass.__all__` lists, each with the module that has it."""
    modules = {
        alias.name: statement.module.removeprefix("forepass.") if statement.module else ""
        for statement in parsed("__init__.py")
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }
    (listed,) = (
        ast.literal_eval(statement.value)
        for statement in parsed("__init__.py")
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__"
    )
    return {name: modules[name] for name in listed}


def page() -> str:
    """The whole page."""
    public, told = public_names(), set[str]()
    text = [INTRODUCTION]
    for title, modules in SECTIONS.items():
        text.append(f"## {title}\n")
        for module in modules:
            for name, statement, _ in _defined(module):
                if isinstance(statement, ast.AnnAssign):
                    continue
                if public.get(name) == module:
                    told.add(name)
                    text += _entry(name, statement)
                elif module == "config" and isinstance(statement, ast.ClassDef):
                    text += _entry(f"config.{name}", statement)
    text += ["## Constants\n", _constants(public.keys() - told), "## Types\n", _types()]
    return "\n".join(text)


def _defined(module: str) -> Iterator[tuple[str, ast.stmt, str | None]]:
    """What a module defines, and the text that follows it."""
    body = parsed("_core.pyi" if module == "_core" else f"{module}.py")
    for statement, following in zip(body, [*body[1:], None], strict=True):
        match statement:
            case (
                ast.ClassDef(name=name)
                | ast.FunctionDef(name=name)
                | ast.AnnAssign(target=ast.Name(id=name))
            ):
                yield name, statement, _string(following)


def _entry(name: str, statement: ast.stmt) -> Iterator[str]:
    yield f"### `{name}`\n"
    match statement:
        case ast.ClassDef():
            yield from _class(name, statement)
        case ast.FunctionDef():
            yield _code(_signature(name, statement))
            yield _prose(ast.get_docstring(statement), name)


def _class(name: str, statement: ast.ClassDef) -> Iterator[str]:
    constructor = _method(statement, "__init__") or _method(statement, "__new__")
    if constructor is None or name.endswith("Error"):  # errors are made by the package
        bases = ", ".join(ast.unparse(base) for base in statement.bases)
        yield _code(f"class {name}({bases})" if bases else f"class {name}")
    else:
        yield _code(_signature(name, constructor, without_result=True))
    yield _prose(ast.get_docstring(statement), name)
    if fields := _fields(statement):
        yield _table(("Field", "Type", "Default"), fields)
    methods, properties = list[str](), list[tuple[str, str, str]]()
    for method, docstring in _methods(statement):
        kinds = [ast.unparse(decorator) for decorator in method.decorator_list]
        whole = f"{name}.{method.name}"
        if "property" in kinds:
            meaning = " ".join(_prose(docstring, whole).split())
            properties.append((f"`{method.name}`", _cell(method.returns), meaning))
        else:
            signature = _signature(whole if "classmethod" in kinds else method.name, method)
            methods += [f"#### `{whole}`\n", _code(signature), _prose(docstring, whole)]
    if properties:
        yield _table(("Property", "Type", "Meaning"), properties)
    yield from methods


def _fields(statement: ast.ClassDef) -> list[tuple[str, str, str]]:
    """The fields of a dataclass; annotations of others are no fields."""
    if not any("dataclass" in ast.unparse(decorator) for decorator in statement.decorator_list):
        return []
    return [
        (f"`{field.target.id}`", _cell(field.annotation), _cell(field.value))
        for field in statement.body
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and not field.target.id.startswith("_")
    ]


def _cell(node: ast.expr | None) -> str:
    return "" if node is None else "`" + _annotation(node).replace("|", "\\|") + "`"


def _method(statement: ast.ClassDef, name: str) -> Function | None:
    found = (member for member in statement.body if isinstance(member, Function))
    return next((member for member in found if member.name == name), None)


def _methods(statement: ast.ClassDef) -> Iterator[tuple[Function, str | None]]:
    """The public methods, first those that are the core's own, whose types are there."""
    for name, docstring in _slots(statement).items():
        if not name.startswith("_"):
            (core,) = (found for of, found, _ in _defined("_core") if of == "CoreModel")
            method = _method(core, name) if isinstance(core, ast.ClassDef) else None
            if method is None:
                raise LookupError(f"CoreModel has no {name}")
            method.args.args[1].annotation = ast.Name("Iteration")
            yield method, docstring
    for member in statement.body:
        if isinstance(member, Function) and not member.name.startswith("_"):
            yield member, ast.get_docstring(member)


def _slots(statement: ast.ClassDef) -> dict[str, str]:
    for member in statement.body:
        if isinstance(member, ast.Assign) and ast.unparse(member.targets[0]) == "__slots__":
            slots: dict[str, str] = ast.literal_eval(member.value)
            return slots
    return {}


def _signature(name: str, function: Function, *, without_result: bool = False) -> str:
    arguments = function.args
    positional = arguments.posonlyargs + arguments.args
    defaults = [None] * (len(positional) - len(arguments.defaults)) + arguments.defaults
    pairs = [*zip(positional, defaults, strict=True)]
    if pairs and pairs[0][0].arg in {"self", "cls"}:
        pairs = pairs[1:]
    told = [_argument(*pair) for pair in pairs]
    if arguments.kwonlyargs:
        keywords = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        told += ["*", *(_argument(*pair) for pair in keywords)]
    result = "" if without_result else f" -> {_annotation(function.returns)}"
    line = f"{name}({', '.join(told)}){result}"
    if len(line) <= WIDTH:
        return line
    lines = "".join(f"    {argument},\n" for argument in told)
    return f"{name}(\n{lines}){result}"


def _argument(argument: ast.arg, default: ast.expr | None) -> str:
    text = f"{argument.arg}: {_annotation(argument.annotation)}"
    return text if default is None else f"{text} = {ast.unparse(default)}"


def _annotation(node: ast.expr | None) -> str:
    text = "None" if node is None else ast.unparse(node)
    return text.removeprefix("_core.").strip("'")


def _string(statement: ast.stmt | None) -> str | None:
    match statement:
        case ast.Expr(value=ast.Constant(value=str(text))):
            return inspect.cleandoc(text)
    return None


def _code(text: str) -> str:
    return f"```text\n{text}\n```\n"


def _prose(docstring: str | None, name: str) -> str:
    """A docstring as Markdown: what it raises as a list, examples as code."""
    if not docstring:
        raise LookupError(f"{name}: no docstring")
    text = inspect.cleandoc(docstring)
    text = re.sub(r"^((?:>>>|\.\.\.).*(?:\n\S.*)*)", r"```pycon\n\1\n```", text, flags=re.MULTILINE)
    raises = re.compile(r"^Raises:\n((?:    .*\n?)+)", re.MULTILINE)
    return raises.sub(lambda found: _raises(found[1]), text).rstrip() + "\n"


def _raises(block: str) -> str:
    entries = re.split(r"\n(?=\S)", textwrap.dedent(block).strip())
    lines = (re.sub(r"\s*\n\s+", " ", entry) for entry in entries)
    told = (re.sub(r"^(\w+): ", r"- `\1`: ", line) for line in lines)
    return "Raises:\n\n" + "\n".join(told) + "\n"


def _constants(names: Collection[str]) -> str:
    rows = [
        (f"`{name}`", _cell(statement.annotation), " ".join(_prose(text, name).split()))
        for name, statement, text in _defined("_core")
        if name in names and isinstance(statement, ast.AnnAssign)
    ]
    if len(rows) != len(names):
        raise LookupError(f"in no section of docs/api_reference.py: {', '.join(sorted(names))}")
    return _table(("Name", "Type", "Meaning"), rows)


def _types() -> str:
    rows = [
        (f"`{name}`", _cell(statement.value), " ".join(_prose(text, name).split()))
        for module in ALIASES
        for name, statement, text in _defined(module)
        if isinstance(statement, ast.AnnAssign) and "TypeAlias" in _cell(statement.annotation)
    ]
    return _table(("Name", "Type", "Meaning"), rows)


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    if "--write" in sys.argv[1:]:
        PAGE.write_text(page(), encoding="utf-8")
    else:
        sys.stdout.write(page())
