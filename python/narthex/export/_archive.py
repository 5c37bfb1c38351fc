"""The zip archive of an exported program: files under one folder, uncompressed. Whoever reads one trusts nothing:
names, sizes and offsets are checked before anything is used."""

import io
import os
import zipfile

from ..serialization import _replacing

_MAX_FILES, _MAX_BYTES = 200_000, 1 << 40


class Broken(RuntimeError):
    """The file is no archive of an exported program, or a damaged one."""


def _fill(file, folder: str, files: dict) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(f"{folder}/{name}"), data)


def write(f, files: dict) -> None:
    """Writes {name: bytes} to a path or a file that is open for writing, whole or not at all."""
    if isinstance(f, (str, os.PathLike)):
        with _replacing(os.fspath(f)) as file:
            _fill(file, os.path.splitext(os.path.basename(os.fspath(f)))[0] or "archive", files)
        return
    room = io.BytesIO()
    _fill(room, "archive", files)
    f.write(room.getbuffer())


class Archive:
    """The files of an archive by name, without the folder that all of them are in."""

    def __init__(self, f) -> None:
        try:
            self._zip = zipfile.ZipFile(f)
            infos = self._zip.infolist()
        except (zipfile.BadZipFile, zipfile.LargeZipFile, ValueError, EOFError, NotImplementedError) as error:
            raise Broken(f"torch.export.load: not a zip archive: {error}") from None
        if not infos or len(infos) > _MAX_FILES:
            raise Broken(f"torch.export.load: an archive of {len(infos)} files")
        folders = {info.filename.partition("/")[0] for info in infos}
        if len(folders) != 1:
            raise Broken("torch.export.load: the archive's files are not in one folder")
        self._infos = {info.filename.partition("/")[2]: info for info in infos}
        if self.text("archive_format", "") != "pt2":
            raise Broken("torch.export.load: the archive is not of the format pt2")
        if self.text("byteorder", "little") != "little":
            raise NotImplementedError("torch.export.load: an archive of the other byte order")

    def __contains__(self, name: str) -> bool:
        return name in self._infos

    def names(self, prefix: str) -> list:
        """The files whose names begin so."""
        return [name for name in self._infos if name.startswith(prefix)]

    def read(self, name: str) -> bytes:
        """A file's bytes."""
        info = self._infos.get(name)
        if info is None:
            raise Broken(f"torch.export.load: the archive has no {name}")
        if (
            info.compress_type != zipfile.ZIP_STORED
            or not 0 <= info.file_size <= _MAX_BYTES
            or info.file_size != info.compress_size
        ):
            raise Broken(f"torch.export.load: {name} is compressed, or of a size that cannot be")
        try:
            data = self._zip.read(info)
        except (zipfile.BadZipFile, ValueError, EOFError, OSError, RuntimeError, NotImplementedError) as error:
            raise Broken(f"torch.export.load: {name}: {error}") from None
        if len(data) != info.file_size:
            raise Broken(f"torch.export.load: {name} is cut off")
        return data

    def text(self, name: str, default: str) -> str:
        """A short file's text."""
        return self.read(name).decode(errors="replace").strip() if name in self._infos else default
