"""python add_licenses.py WHEEL TARGET: the wheel with the license texts of the libraries that travel in it, as the
system that it was built on has them (/usr/share/doc). RECORD is written anew (PyPA: binary distribution format)."""

import base64
import hashlib
import sys
import zipfile
from pathlib import Path

DOCUMENTS = Path("/usr/share/doc")


def license_of(library: str) -> bytes:
    """library: "libprotobuf-c-b0ab857b.so.1.0.0", whose package is libprotobuf-c1."""
    name = library.split(".so")[0].rpartition("-")[0]
    for text in sorted(DOCUMENTS.glob(f"{name}*/copyright")):
        return text.read_bytes()
    raise SystemExit(f"wheel: no license text of {name} in {DOCUMENTS}")


def record_line(name: str, data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(data)}\n"


def main(wheel: str, target: str) -> None:
    with zipfile.ZipFile(wheel) as archive:
        files = {info.filename: archive.read(info) for info in archive.infolist() if not info.is_dir()}
    (record,) = (name for name in files if name.endswith(".dist-info/RECORD"))
    del files[record]
    for name in [name for name in files if name.startswith("narthex.libs/")]:
        library = name.split("/")[1]
        files[f"{record.removesuffix('RECORD')}licenses/{library.split('.so')[0]}.txt"] = license_of(library)
    lines = [record_line(name, data) for name, data in sorted(files.items())]
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in sorted(files.items()):
            archive.writestr(name, data)
        archive.writestr(record, "".join([*lines, f"{record},,\n"]))


if __name__ == "__main__":
    main(*sys.argv[1:])
