"""torch.hub: models from a folder of this machine or a file URL. Nothing is fetched from a network."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import tempfile
from urllib.parse import urlparse
from urllib.request import url2pathname

from ._absent import getter

HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
_directory = None


def _get_torch_home() -> str:
    cache = os.path.join(os.getenv("XDG_CACHE_HOME", "~/.cache"), "torch")
    return os.path.expanduser(os.getenv("TORCH_HOME", cache))


def get_dir() -> str:
    """Where files are kept: what set_dir was given, else $TORCH_HOME/hub, else ~/.cache/torch/hub."""
    return os.path.join(_get_torch_home(), "hub") if _directory is None else _directory


def set_dir(d) -> None:
    """Files are kept in `d` from here on."""
    global _directory
    _directory = os.path.expanduser(d)


def download_url_to_file(url: str, dst: str, hash_prefix: str | None = None, progress: bool = True) -> None:
    """Copies a file:// URL to `dst` and compares the beginning of its SHA-256; another URL raises."""
    parts = urlparse(url)
    if parts.scheme not in ("", "file"):
        raise NotImplementedError(f"torch.hub fetches nothing from a network: put {url} at {dst} yourself")
    source = url2pathname(parts.path)
    folder = os.path.dirname(os.path.abspath(os.path.expanduser(dst)))
    digest = hashlib.sha256()
    with tempfile.NamedTemporaryFile(dir=folder, delete=False) as out:
        try:
            with open(source, "rb") as file:
                while block := file.read(1 << 20):
                    digest.update(block)
                    out.write(block)
            out.close()
            if hash_prefix is not None and digest.hexdigest()[: len(hash_prefix)] != hash_prefix:
                raise RuntimeError(f'invalid hash value (expected "{hash_prefix}", got "{digest.hexdigest()}")')
            shutil.move(out.name, os.path.expanduser(dst))
        except BaseException:
            out.close()
            os.unlink(out.name)
            raise


def load_state_dict_from_url(url: str, model_dir: str | None = None, map_location=None, progress: bool = True,
                             check_hash: bool = False, file_name: str | None = None,
                             weights_only: bool = False):  # fmt: skip
    """torch.load of a URL's file, which is kept in `model_dir` (default: get_dir()/checkpoints)."""
    from .serialization import load

    folder = os.path.join(get_dir(), "checkpoints") if model_dir is None else model_dir
    os.makedirs(folder, exist_ok=True)
    name = os.path.basename(urlparse(url).path) if file_name is None else file_name
    kept = os.path.join(folder, name)
    if not os.path.exists(kept):
        wanted = HASH_REGEX.search(name) if check_hash else None
        download_url_to_file(url, kept, wanted and wanted[1], progress)
    return load(kept, map_location=map_location, weights_only=weights_only)


def _hubconf(repo_or_dir, source: str):
    if source != "local":
        raise NotImplementedError(
            f"torch.hub fetches nothing from a network: clone {repo_or_dir} and pass its folder with source='local'"
        )
    from importlib.util import module_from_spec, spec_from_file_location

    folder = os.path.expanduser(repo_or_dir)
    sys.path.insert(0, folder)
    try:
        spec = spec_from_file_location("hubconf", os.path.join(folder, "hubconf.py"))
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(folder)
    missing = [name for name in getattr(module, "dependencies", ()) if _is_missing(name)]
    if missing:
        raise RuntimeError(f"Missing dependencies: {', '.join(missing)}")
    return module


def _is_missing(name: str) -> bool:
    from importlib.util import find_spec

    return find_spec(name) is None


def _entry(module, name: str):
    if not isinstance(name, str):
        raise ValueError("Invalid input: model should be a str of function name")
    entry = getattr(module, name, None)
    if not callable(entry):
        raise RuntimeError(f"Cannot find callable {name} in hubconf")
    return entry


def list(github, force_reload=False, skip_validation=False, trust_repo=None, verbose=True, source="local") -> list:
    """The names of the functions in the folder's hubconf.py."""
    module = _hubconf(github, source)
    return [name for name in dir(module) if callable(getattr(module, name)) and not name.startswith("_")]


def help(github, model, force_reload=False, skip_validation=False, trust_repo=None, source="local"):
    """What a function of hubconf.py says of itself."""
    return _entry(_hubconf(github, source), model).__doc__


def load(repo_or_dir, model, *args, source="github", trust_repo=None, force_reload=False, verbose=True,
         skip_validation=False, **kwargs):  # fmt: skip
    """Calls a function of the folder's hubconf.py; source="local" is the only one."""
    return _entry(_hubconf(repo_or_dir, source), model)(*args, **kwargs)


class _NoBar:
    """Stands for tqdm where that package is not: takes what it takes, shows nothing."""

    def __init__(self, iterable=(), *args, **kwargs) -> None:
        self.iterable = iterable

    def __iter__(self):
        return iter(self.iterable)

    def __enter__(self) -> _NoBar:
        return self

    def __exit__(self, *error) -> None:
        self.close()

    def update(self, n=1) -> None:
        """Nothing."""

    def set_description(self, *args, **kwargs) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


_absent = getter("torch.hub")


def __getattr__(name: str):
    if name != "tqdm":
        return _absent(name)
    try:
        from tqdm import tqdm
    except ImportError:
        tqdm = _NoBar
    globals()["tqdm"] = tqdm
    return tqdm
