#!/usr/bin/env python3
"""Writes src/trunkline/types.py, the messages as TypedDicts, from protocol/schema, and src/trunkline/api.py, the answers of
the daemon, from its OpenAPI document. With --check it only compares."""

import json
import keyword
import re
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent
SCHEMAS = PACKAGE.parent.parent / "protocol" / "schema"
OPENAPI = PACKAGE.parent.parent / "runtime" / "gateway" / "openapi.json"
OUT = PACKAGE / "src" / "trunkline"
UNIONS = {
    "adapter-to-host": "AdapterMessage",
    "host-to-adapter": "HostMessage",
    "hub-to-relay": "HubMessage",
    "relay-to-hub": "RelayMessage",
}
ENTRIES = ("adapter-to-host", "relay-to-hub")  # what a journal may hold is in these
ENTRY = '''class Stored(TypedDict, total=False):
    """What a journal adds to a message that it holds, which makes it an entry ([journal.3])."""

    seq: int
    epoch: int
    time: str'''
API = (
    "Agent", "Conversation", "Decided", "EntryPage", "ForkedSession", "LastingRule", "ListedSession", "Me", "SearchHit",
    "Session", "SessionPage", "StreamedChange", "UsedInDay",
)  # fmt: skip
SCALARS = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}


def class_name(title):
    return "".join(part.capitalize() for part in title.replace(".", "_").split("_"))


def type_of(schema):
    """The Python type of a schema, without None: absent and null are the same."""
    if schema is True or not schema:
        return "Any"
    if "$ref" in schema:
        return schema["$ref"].rsplit("/", 1)[1]
    if "const" in schema:
        return f"Literal[{json.dumps(schema['const'])}]"
    if "enum" in schema:
        return "Literal[" + ", ".join(json.dumps(value) for value in schema["enum"] if value is not None) + "]"
    for key in ("anyOf", "oneOf"):
        if key in schema:
            kinds = [type_of(kind) for kind in schema[key] if kind.get("type") != "null"]
            consts = [kind["const"] for kind in schema[key] if "const" in kind]
            if len(consts) == len(kinds):
                return "Literal[" + ", ".join(map(json.dumps, consts)) + "]"
            return " | ".join(dict.fromkeys(kinds))
    kinds = schema.get("type")
    kinds = [kind for kind in ([kinds] if isinstance(kinds, str) else kinds or []) if kind != "null"]
    if kinds == ["array"]:
        return f"list[{type_of(schema.get('items'))}]"
    if kinds == ["object"]:
        return f"dict[str, {type_of(schema.get('additionalProperties'))}]"
    if kinds and all(kind in SCALARS for kind in kinds):
        return " | ".join(SCALARS[kind] for kind in kinds)
    return "Any"


def doc_of(schema, otherwise):
    text = " ".join((schema.get("description") or otherwise).split()).replace("\\", "\\\\")
    lines, line = [], ""
    for word in text.split():
        if len(line) + len(word) > 105:
            lines.append(line)
            line = ""
        line = f"{line} {word}".strip()
    return "\n    ".join([*lines, line])


def is_nullable(schema):
    """Whether a member may be null."""
    return isinstance(schema, dict) and (
        "null" in (schema.get("type") or ()) or any(is_nullable(each) for each in schema.get("anyOf") or schema.get("oneOf") or ())
        or schema.get("type") == "null"
    )  # fmt: skip


def typed_dict(name, schema, base="TypedDict", nulls=False):
    required = set(schema.get("required", ()))
    members = schema.get("properties", {})
    if any(keyword.iskeyword(member) for member in members):  # such as `from`
        kinds = {member: type_of(members[member]) for member in sorted(members)}
        whole = [
            f"    {json.dumps(member)}: " + (json.dumps(kind) if member in required else f'NotRequired[{kind!r}]')
            for member, kind in kinds.items()
        ]
        return "\n".join([f"{name} = TypedDict({json.dumps(name)}, {{", *(line + "," for line in whole), "})"])
    lines = [f"class {name}({base}):", f'    """{doc_of(schema, f"A `{name}`.")}"""', ""]
    for member in sorted(members, key=lambda member: (member not in required, member)):
        kind = type_of(members[member])
        if nulls and member in required and is_nullable(members[member]):
            kind += " | None"
        lines.append(f"    {member}: {kind}" if member in required else f"    {member}: NotRequired[{kind}]")
    return "\n".join(lines)


def kind_of(schema, defs):
    """The JSON type of a member that is not null; `any` if it may have several."""
    if schema is not True and "$ref" in schema:
        return kind_of(defs[schema["$ref"].rsplit("/", 1)[1]], defs)
    if schema is True or not schema:
        return "any"
    kinds = {kind_of(each, defs) for each in schema.get("anyOf") or schema.get("oneOf") or () if each.get("type") != "null"}
    kinds |= set([schema["type"]] if isinstance(schema.get("type"), str) else schema.get("type") or ())
    kinds |= {"string"} if isinstance(schema.get("const"), str) else set()
    kinds.discard("null")
    return kinds.pop() if len(kinds) == 1 else "any"


def alias(name, schema):
    return f"{name}: TypeAlias = {type_of(schema)!r}"


def generate_types():
    """Returns the text of types.py, and of each definition in it by name."""
    defs, blocks, unions, fields = {}, {}, [], {}
    for file, union in UNIONS.items():
        schema = json.loads((SCHEMAS / f"{file}.schema.json").read_text())
        names = []
        for message in schema["oneOf"]:
            name = class_name(message["title"])
            names.append(name)
            if message["title"] not in fields:
                members = {member: kind_of(message["properties"][member], schema.get("$defs", {})) for member in message["properties"]}
                fields[message["title"]] = dict(sorted(members.items())), sorted(message["required"])
                is_stored = file in ENTRIES and not {"seq", "epoch", "time"} & {*message["properties"]}
                blocks[name] = typed_dict(name, message, "Stored" if is_stored else "TypedDict")
        for name, definition in schema.get("$defs", {}).items():
            defs.setdefault(name, definition)
        unions.append(f"{union} = " + " | ".join(dict.fromkeys(names)))
    aliases = {}
    for name, definition in sorted(defs.items()):
        if name in blocks:
            continue  # the object within a message has the same members as the message
        if definition is not True and definition.get("properties"):
            blocks[name] = typed_dict(name, definition)
        else:
            aliases[name] = alias(name, definition)
    table = ["FIELDS: dict[str, dict[str, str]] = {"]
    table += [f"    {json.dumps(title)}: {json.dumps(kinds)}," for title, (kinds, _) in sorted(fields.items())]
    table += ["}", '"""The members of each message, and the JSON type of each; `any` if it may have several."""', ""]
    table += ["REQUIRED: dict[str, frozenset[str]] = {"]
    table += [f"    {json.dumps(title)}: frozenset({json.dumps(names)})," for title, (_, names) in sorted(fields.items())]
    table += ["}", '"""The members without which a message is ignored."""']
    head = [
        '"""The messages of the protocol, made from its schemas by scripts/generate.py: do not edit.',
        "",
        "In every member null equals absent. An enumerated member may hold values of later versions.",
        '"""',
        "",
        "from __future__ import annotations",
        "",
        "from typing import Any, Literal, NotRequired, TypeAlias, TypedDict",
        "",
        "# fmt: off",
        "# ruff: noqa: E501",
    ]
    parts = ["\n".join(head), "\n".join(aliases.values()), ENTRY, *blocks.values(), "\n".join(unions), "\n".join(table)]
    return "\n\n\n".join(parts) + "\n", aliases | blocks


def generate_api(types):
    """Returns the text of api.py: the schemas that answers use, and those that they use in turn. It imports what `types` has."""
    document = json.loads(OPENAPI.read_text())
    schemas = document["components"]["schemas"]
    changes = schemas["StreamedChange"]["anyOf"]
    for place, change in enumerate(changes):
        if "$ref" not in change:  # such as `reset`: a class of its own
            name = f"{change['properties']['type']['enum'][0].capitalize()}Change"
            schemas[name] = {"description": f"An event of type `{name[:-6].lower()}`.", **change}
            changes[place] = {"$ref": f"#/components/schemas/{name}"}
    wanted, used = list(API), {"Entry"}
    while wanted:
        name = wanted.pop()
        if name not in used:
            used.add(name)
            wanted += re.findall(r'"#/components/schemas/(\w+)"', json.dumps(schemas[name]))
    aliases, blocks, imports = ["Entry: TypeAlias = 'AdapterMessage | RelayMessage'"], [], ["AdapterMessage", "RelayMessage"]
    for name in sorted(used - {"Entry"}):
        schema = schemas[name]
        is_class = isinstance(schema, dict) and schema.get("properties")
        text = typed_dict(name, schema, nulls=True) if is_class else alias(name, schema)
        if types.get(name) == text:
            imports.append(f"{name} as {name}")  # a part of this module, too
        else:
            (blocks if is_class else aliases).append(text)
    head = [
        '"""The answers of the daemon, made from its OpenAPI document by scripts/generate.py: do not edit.',
        "",
        "In a member that may be absent null equals that. An enumerated member may hold values of later versions.",
        '"""',
        "",
        "from __future__ import annotations",
        "",
        "from typing import Any, Literal, NotRequired, TypeAlias, TypedDict",
        "",
        "from .types import (",
        *(f"    {name}," for name in sorted(imports)),
        ")",
        "",
        "# fmt: off",
        "# ruff: noqa: E501",
    ]
    return "\n\n\n".join(["\n".join(head), "\n".join(aliases), *blocks]) + "\n"


types_py, definitions = generate_types()
for name, text in {"types.py": types_py, "api.py": generate_api(definitions)}.items():
    if "--check" not in sys.argv:
        (OUT / name).write_text(text)
    elif not (OUT / name).exists() or (OUT / name).read_text() != text:
        sys.exit(f"{name} is not what the schemas make: run scripts/generate.py")
