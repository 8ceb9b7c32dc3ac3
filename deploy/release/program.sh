#!/bin/sh
# Starts a program of this release with the Node that is first on PATH, or that DISKMESH_NODE names.
set -eu

fail() {
  echo "${0##*/}: $1" >&2
  exit 78
}

# Resolves links, so that a link in /usr/local/bin works.
file=$0
while [ -h "$file" ]; do
  target=$(readlink -- "$file")
  case $target in
  /*) file=$target ;;
  *) file=${file%/*}/$target ;;
  esac
done
root=$(CDPATH='' cd -- "${file%/*}/.." && pwd -P)

node=${DISKMESH_NODE:-node}
command -v "$node" >/dev/null 2>&1 ||
  fail "there is no $node on PATH: install Node 20.19 or newer, or name its program in DISKMESH_NODE"
version=$("$node" --version 2>/dev/null) || version=
major=${version#v}
minor=${major#*.}
major=${major%%.*}
minor=${minor%%.*}
case $major$minor in
'' | *[!0-9]*) fail "$(command -v "$node") is no Node: it says \"$version\" of its version" ;;
esac
if [ "$major" -lt 20 ] || { [ "$major" -eq 20 ] && [ "$minor" -lt 19 ]; }; then
  fail "$(command -v "$node") is Node $version: install 20.19 or newer, or name its program in DISKMESH_NODE"
fi
@SETTING@
exec "$node" --enable-source-maps "$root/lib/@LIB@/main.js" "$@"
