#!/usr/bin/env bash
# Makes .venv with what the build needs; with "demo", what the examples need as well; with "test", what the tests need,
# examples included. Installs missing system packages with apt when it may, and otherwise prints the one line to run.
# "bench": the tests' and the rivals of whole networks.
# "wheel": what makes a wheel. "packages": the tests' and public packages that run unmodified; "hostile": the tests' and a cross compiler for 64-bit ARM.
# "versions": what the tests need that run without PyTorch, under CPython 3.12 to 3.14. PYTHON names the interpreter (python3.11),
# VENV the folder (.venv).
# Usage: tools/setup.sh [demo|test|bench|packages|hostile|wheel|versions]
set -euo pipefail
cd "$(dirname "$0")/.."

missing=()
command -v gcc >/dev/null || command -v clang >/dev/null || missing+=(gcc)
command -v pkg-config >/dev/null || missing+=(pkg-config)
command -v protoc-c >/dev/null || missing+=(protobuf-c-compiler)
pkg-config --exists libprotobuf-c 2>/dev/null || missing+=(libprotobuf-c-dev)
[[ "${1:-}" != @(test|bench|packages|hostile) ]] || [ -e /usr/include/cmocka.h ] || missing+=(libcmocka-dev)
name=${PYTHON:-python3.11} venv=${VENV:-.venv}
python=$(command -v "$name" || true)
[ -n "$python" ] || missing+=("$name")
if [ -z "$python" ] || ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then missing+=("$name-venv"); fi
if [ -z "$python" ] || [ ! -e "$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h" ]; then
    missing+=("$name-dev")
fi
if [ "${1:-}" = hostile ]; then # a cross build for 64-bit ARM and what runs its programs
    command -v aarch64-linux-gnu-gcc >/dev/null || missing+=(gcc-aarch64-linux-gnu)
    command -v qemu-aarch64 >/dev/null || missing+=(qemu-user)
    for library in libc6-dev libcmocka-dev libprotobuf-c-dev; do
        dpkg -s $library:arm64 >/dev/null 2>&1 || missing+=($library:arm64)
    done
    [ "$(id -u)" != 0 ] || dpkg --add-architecture arm64
fi
if [ ${#missing[@]} -gt 0 ]; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${missing[@]}" >/dev/null
        python=$(command -v "$name")
    else
        echo "narthex needs system packages. Run:  sudo apt-get install ${missing[*]}" >&2
        exit 1
    fi
fi

[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
version='import sys; print(*sys.version_info[:2])'
if [ "$("$venv/bin/python" -c "$version")" != "$("$python" -c "$version")" ]; then
    echo "$venv was made by another version of Python than $name: make clean takes it away" >&2
    exit 1
fi
install() { # a file of requirements, once for each content; what follows are pip's options
    local stamp=$venv/$(basename "$1").done
    cmp -s "$1" "$stamp" && return
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "${@:2}" -r "$1"
    cp "$1" "$stamp"
}
install requirements/build.txt
[[ "${1:-}" != versions ]] || { install requirements/versions.txt && exit; }
[[ "${1:-}" != @(demo|test|bench|packages|hostile) ]] || install requirements/demo.txt
[[ "${1:-}" != @(test|bench|packages|hostile|wheel) ]] || install requirements/wheel.txt
[[ "${1:-}" != @(test|bench|packages|hostile) ]] || install requirements/test.txt
# Public modules that are captured whole: without what else they ask for, and compiled when they are imported.
[[ "${1:-}" != @(test|packages) ]] || install requirements/modules.txt --no-deps --no-compile
[ "${1:-}" != bench ] || install requirements/bench.txt
[ "${1:-}" != packages ] || install requirements/packages.txt
# What asks for another torch, or for what does not load beside this one; the rest of its needs stands in packages.txt.
[ "${1:-}" != packages ] || install requirements/packages-alone.txt --no-deps
# torchvision, which does not load beside a PyTorch without CUDA, and what needs it: in a folder that only their tests see.
[ "${1:-}" != packages ] || install requirements/packages-apart.txt --no-deps --upgrade --target "$venv/apart"
