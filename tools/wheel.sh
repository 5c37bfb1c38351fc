#!/usr/bin/env bash
# Writes dist/narthex-…-manylinux_….whl: the library, what it links with beside glibc, and the license texts of that. Installs
# it into an empty environment, where no compiler is in reach, and runs tests/wheel/smoke.py there.
# Usage: tools/wheel.sh [FOLDER]      (after make; FOLDER: instead of dist)
set -euo pipefail
cd "$(dirname "$0")/.."
to=${1:-dist} work=build/wheel
export PATH=$PWD/.venv/bin:$PATH
rm -rf $work && mkdir -p $work "$to"
rm -f "$to"/narthex-*.whl

python -m pip wheel --quiet --disable-pip-version-check --no-build-isolation --no-deps -Cbuild-dir=build/release -w $work .
auditwheel repair -w $work/repaired $work/narthex-*.whl >$work/log 2>&1 || { tail -20 $work/log >&2; exit 1; }
python tools/add_licenses.py $work/repaired/*.whl "$to/$(basename $work/repaired/*.whl)"

python -m venv $work/empty
$work/empty/bin/python -m pip install --quiet --disable-pip-version-check "$to"/narthex-*.whl
env -i HOME=/nonexistent PATH="$PWD/$work/empty/bin" $work/empty/bin/python tests/wheel/smoke.py
ls -l "$to"/narthex-*.whl | awk '{ printf "%s, %.1f MB\n", $NF, $5 / 1e6 }'
