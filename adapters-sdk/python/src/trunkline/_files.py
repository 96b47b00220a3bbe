"""Files for the user, files of the user, and members that lie in files ([file.1] to [file.7], [large.1] to [large.3])."""

from __future__ import annotations

import hashlib
import itertools
import mimetypes
import os
import stat
from typing import Any

from ._json import Message, parse

_numbers = itertools.count(1)
UNKNOWN = "application/octet-stream"
LARGE_BYTES = 64 * 1024 * 1024


def digest(path: str) -> tuple[int, str]:
    """The size of a regular file in bytes, and their SHA-256. Blocks; raises OSError for what is not one."""
    if not stat.S_ISREG(os.stat(path).st_mode):  # before it is opened: a FIFO would wait for its writer
        raise OSError("not a regular file")
    sha256, size = hashlib.sha256(), 0
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            sha256.update(chunk)
            size += len(chunk)
    return size, sha256.hexdigest()


def differs(file: Message) -> str | None:
    """How a file differs from what the host announced; None where it does not, or cannot be read."""
    size, sha256 = file.get("size"), file.get("sha256")
    if size is None and sha256 is None:
        return None
    try:
        found = os.stat(file["file_path"]).st_size
        if size is not None and size != found:
            return f"the file has {found} bytes, not the {size} that were announced"
        if sha256 is not None and digest(file["file_path"])[1] != sha256:
            return "the file's SHA-256 is not the one that was announced"
    except (OSError, ValueError):
        return None
    return None


def announced(path: str, name: str | None, mime: str | None, with_digest: bool) -> Message:
    """The `file.output` of a file. Blocks; raises OSError where there is no such regular file."""
    path = os.path.abspath(path)
    path.encode()  # a path that is not UTF-8 has no JSON
    name = name or os.path.basename(path)
    told: Message = {"type": "file.output", "file_name": name, "file_mime_type": mime or type_of(name), "file_path": path}
    if with_digest:
        told["size"], told["sha256"] = digest(path)
    elif not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError("not a regular file")
    return told


def type_of(name: str) -> str:
    """The MIME type that a name's extension suggests."""
    return mimetypes.guess_type(name)[0] or UNKNOWN


def make(folder: str, name: str, data: bytes) -> tuple[str, str]:
    """Writes a file into a folder of its own. Returns that folder and the file's path. Blocks."""
    own = os.path.join(folder, f"made-{os.getpid()}-{next(_numbers)}")
    os.makedirs(own)
    label = os.path.basename(name)
    if label in ("", ".", "..") or "\0" in label or len(label.encode("utf-8", "replace")) > 255:
        label = "file"
    path = os.path.join(own, label)
    with open(path, "wb") as file:
        file.write(data)
    return own, path


def keep(folder: str, text: str) -> Message:
    """Puts a member's JSON into a file of the exchange folder. Blocks."""
    data = text.encode()
    path = os.path.join(folder, f"large-{os.getpid()}-{next(_numbers)}.json")
    with open(path, "xb") as file:
        file.write(data)
    return {"file_path": path, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def take_text(folder: str | None, member: Message) -> str:
    """The text of an input that was too long for a line; its file is removed. Blocks; raises ValueError."""
    path, size, sha256 = member.get("file_path"), member.get("size"), member.get("sha256")
    if folder is None:
        raise ValueError("the session has no exchange folder")
    if not isinstance(path, str) or os.path.dirname(path) != folder.rstrip("/"):
        raise ValueError("it does not lie in the exchange folder")
    if not isinstance(size, int) or not 0 <= size <= LARGE_BYTES:
        raise ValueError(f"it is over {LARGE_BYTES} bytes")
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(handle, "rb") as file:
            found = os.fstat(handle)
            if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
                raise ValueError("it is not a regular file with one link")
            data = file.read(size + 1)
    except OSError as error:
        raise ValueError(str(error.strerror)) from error
    if len(data) != size or hashlib.sha256(data).hexdigest() != sha256:
        raise ValueError("it is not what was announced")
    os.unlink(path)
    value: Any = (parse(b'{"text":' + data + b"}") or {}).get("text")
    if not isinstance(value, str):
        raise ValueError("it is not a text")
    return value
