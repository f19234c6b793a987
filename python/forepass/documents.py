"""Documents in the forms that people hold them, as JSON text for the core."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias, TypeGuard

from forepass.errors import ConfigError
from forepass.strict_json import located, to_json

DocumentSource: TypeAlias = Mapping[str, Any] | str | bytes | os.PathLike[str]
"""A document: a mapping, JSON text or bytes, or a path to a JSON or YAML file."""

YAML_SUFFIXES = {".yaml", ".yml"}

MOST_YAML_VALUES = 1_000_000
"""Values of a YAML document with its aliases written out: a few lines could stand for billions."""


def document_text(source: object, what: str) -> str:
    """JSON text of a mapping, of JSON text or bytes, or of a JSON or YAML file by its path.

    Raises:
        ConfigError: a file that cannot be read, text that is not UTF-8 or not YAML, or a value
            that JSON does not have. JSON text is left for the core to judge.
    """
    match source:
        case Mapping():
            return to_json(source)
        case str() | os.PathLike() if is_path(source):
            return file_text(Path(source))
        case str() | bytes():
            return decoded(source, "")
        case other:
            kind = type(other).__name__
            message = f"{what} is a mapping, JSON text or a path, not {kind}"
            raise fault("invalid_type", "", message)


def is_path(source: object) -> TypeGuard[str | os.PathLike[str]]:
    """Whether this is a path, and not the text of a JSON object."""
    if isinstance(source, str):
        return not source.lstrip().startswith("{")
    return isinstance(source, os.PathLike)


def file_text(path: Path) -> str:
    """JSON text of a file, which is YAML where its name says so."""
    try:
        content = path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        reason = getattr(error, "strerror", None) or str(error)
        raise fault("unreadable", str(path), f"{path}: {reason}") from error
    try:
        yaml = path.suffix.lower() in YAML_SUFFIXES
        return yaml_text(content) if yaml else decoded(content, "")
    except ConfigError as error:
        raise ConfigError(f"{path}: {error.message}", error.code, error.path) from error


def yaml_text(content: str | bytes) -> str:
    """JSON text of YAML text."""
    return to_json(_yaml(content))


def _yaml(content: str | bytes) -> Any:
    try:
        import yaml  # noqa: PLC0415 (an optional package, wanted for YAML files alone)
    except ModuleNotFoundError as error:
        message = "reading YAML needs the package PyYAML: install it, or give the file as JSON"
        raise fault("missing_package", "", message) from error

    class Loader(yaml.SafeLoader):  # type: ignore[misc] # the package has no types
        """Refuses repeated keys, of which the last would count silently, and endless aliases."""

        def __init__(self, stream: Any) -> None:
            super().__init__(stream)
            self.sizes: dict[int, int] = {}

        def compose_node(self, parent: Any, index: Any) -> Any:
            node = super().compose_node(parent, index)
            if id(node) not in self.sizes:
                pairs = isinstance(node, yaml.MappingNode)
                inner = [] if isinstance(node, yaml.ScalarNode) else node.value
                inner = [each for pair in inner for each in pair] if pairs else inner
                self.sizes[id(node)] = 1 + sum(self.sizes[id(each)] for each in inner)
            if self.sizes[id(node)] > MOST_YAML_VALUES:
                line = node.start_mark.line + 1
                message = f"line {line}: aliases expand to over {MOST_YAML_VALUES:,} values"
                raise fault("invalid_yaml", "", message)
            return node

        def compose_mapping_node(self, anchor: Any) -> Any:
            node = super().compose_mapping_node(anchor)
            seen = set()
            # A key that is no scalar is refused as no string later on.
            for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
                name = (key.tag, key.value)
                if name in seen:
                    line = key.start_mark.line + 1
                    message = (
                        f"line {line}: `{key.value}` stands twice in this mapping: give it once"
                    )
                    raise fault("invalid_yaml", "", message)
                seen.add(name)
            return node

    try:
        return yaml.load(content, Loader)  # noqa: S506 (it is a safe loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise fault("invalid_yaml", "", " ".join(str(error).split())) from error


def decoded(text: str | bytes, path: str) -> str:
    """Text that can be handed over as UTF-8."""
    try:
        return text.decode() if isinstance(text, bytes) else text.encode().decode()
    except UnicodeError as error:
        raise fault("invalid_json", path, located(path, f"not UTF-8 text: {error}")) from error


def fault(code: str, path: str, message: str) -> ConfigError:
    """The error of a document."""
    return ConfigError(message, code, path)
