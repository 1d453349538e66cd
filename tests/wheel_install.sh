#!/usr/bin/env bash
# Build sdist and wheel, install the wheel in a clean environment, use it from an unrelated folder.
# Usage: wheel_install.sh BUILDER, a python that has `build` and `hatchling` (make wheel-test calls it).
set -euo pipefail
cd "$(dirname "$0")/.."

builder=${1:?usage: wheel_install.sh PYTHON_WITH_BUILD}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$builder" -m build --no-isolation --outdir "$work/dist" .   # the wheel is built from the sdist
"${PYTHON:-python3}" -m venv "$work/venv"
# PIP_EXTRA is a list of words.
# shellcheck disable=SC2086
"$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check ${PIP_EXTRA:-} \
    -c constraints.txt "$work"/dist/*.whl

mkdir "$work/elsewhere"
cd "$work/elsewhere"
unset PYTHONPATH LRBENCH_PLUGINS
lrbench="$work/venv/bin/lrbench"

"$lrbench" --help > "$work/help.txt"
"$lrbench" tasks > "$work/tasks.txt"
"$lrbench" train task=sum model=blockdiag output_dir="$work/outputs" \
    protocol.max_steps=20 protocol.look_every=10 protocol.test_size=50 'protocol.further_lengths=[]'
"$lrbench" report --runs "$work/outputs" > "$work/report.txt"
"$lrbench" report --published fan2024_table2 --runs "$work/outputs" --compact > "$work/published.txt"

expect() {
    grep -q -e "$1" "$2" || { echo "wheel-test: '$1' is missing from the output:" >&2; cat "$2" >&2; exit 1; }
}
expect train "$work/help.txt"
expect mod_arith "$work/tasks.txt"
expect blockdiag "$work/report.txt"
expect 'blockdiag, our recipe' "$work/published.txt"
[ -n "$(find "$work/outputs" -name result.json)" ] || { echo "wheel-test: no result.json" >&2; exit 1; }
[ -z "$(ls -A .)" ] || { echo "wheel-test: the working folder was littered:" >&2; ls -A >&2; exit 1; }
echo "wheel-test: ok"
