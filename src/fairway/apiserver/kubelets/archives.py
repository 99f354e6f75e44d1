"""tar, as `kubectl cp` runs it: an archive of files on standard output, or unpacked from standard input.

Archives come from outside: members are counted against the file system's limits before they are read, absolute names
lose their slash, names with `..` are refused, and anything but files and directories is.

Source: kubectl pkg/cmd/cp/cp.go; the messages are GNU tar's.
"""

from __future__ import annotations

import io
import posixpath
import tarfile

from fairway.apiserver.kubelets.files import MAX_BYTES, FileError, Files, absolute

_BLOCK = 512
_END = bytes(2 * _BLOCK)


def pack(files: Files, names: list[str], directory: str) -> tuple[bytes, list[str]]:
    """The archive of some paths, and what tar complains about. Names in it have no slash in front."""
    out = io.BytesIO()
    said: list[str] = []
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name in names:
            path = absolute(name, directory)
            if not files.exists(path):
                said.append(f"tar: {name}: Cannot stat: No such file or directory")
                continue
            if name.startswith("/"):
                said.append("tar: Removing leading `/' from member names")
            for each in files.below(path):
                inside = each[len(path) :].lstrip("/")
                _add(archive, files, each, posixpath.join(name.lstrip("/") or ".", inside).rstrip("/"))
    return out.getvalue(), list(dict.fromkeys(said))


def _add(archive: tarfile.TarFile, files: Files, path: str, name: str) -> None:
    entry = files.entry(path)
    member = tarfile.TarInfo(name)
    member.mode, member.mtime = entry.mode, entry.modified_s
    member.uname = member.gname = "root"
    if entry.data is None:
        member.type = tarfile.DIRTYPE
        archive.addfile(member)
    else:
        member.size = len(entry.data)
        archive.addfile(member, io.BytesIO(entry.data))


def unpack(files: Files, data: bytes, directory: str, now_s: int) -> list[str]:
    """Put an archive's members below a directory; returns what tar complains about, nothing if all went well."""
    said: list[str] = []
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
            for member in archive:
                said += _unpacked(files, archive, member, directory, now_s)
    except (tarfile.TarError, EOFError, ValueError, OverflowError) as broken:
        said.append(f"tar: This does not look like a tar archive: {broken}")
    return list(dict.fromkeys(said))


def _unpacked(
    files: Files, archive: tarfile.TarFile, member: tarfile.TarInfo, directory: str, now_s: int
) -> list[str]:
    name = member.name
    if ".." in name.split("/"):
        return [f"tar: {name}: Member name contains '..'"]
    path = absolute(name.lstrip("/"), directory)
    try:
        if member.isdir():
            files.make_directories(path, now_s)
        elif member.isreg():
            if member.size > MAX_BYTES:
                return [f"tar: {name}: Cannot write: No space left on device"]
            content = archive.extractfile(member)
            files.make_directories(posixpath.dirname(path), now_s)
            files.write(path, content.read() if content else b"", now_s, mode=member.mode & 0o777)
        else:
            return [f"tar: {name}: Cannot create: links and devices do not exist in a simulated container"]
    except FileError as why:
        return [f"tar: {name}: Cannot open: {why}"]
    return []


def is_complete(data: bytes | bytearray) -> bool:
    """Whether an archive's end has come: two empty blocks where a member would begin.

    Clients of the channel protocol before v5 cannot say that their input has ended.
    """
    at = 0
    while at + 2 * _BLOCK <= len(data):
        block = bytes(data[at : at + _BLOCK])
        if not any(block):
            return bytes(data[at : at + 2 * _BLOCK]) == _END
        size = _number(block[124:136])
        if size is None:
            return False
        at += _BLOCK + -(-size // _BLOCK) * _BLOCK
    return False


def _number(field: bytes) -> int | None:
    """A header's number: octal digits, or binary where the first bit is set. None: neither."""
    if field[0] & 0x80:
        return int.from_bytes(bytes((field[0] & 0x7F,)) + field[1:], "big")
    digits = field.split(b"\0")[0].strip()
    return int(digits or b"0", 8) if all(c in b"01234567" for c in digits) else None
