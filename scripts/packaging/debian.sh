# A minimal Debian for try-deb and try-service, which source this: it makes the
# directory $work, which they lose when they end, with the root $root in it.
# new_root NAME INCLUDE [PACKAGE.deb]   INCLUDE: packages that debootstrap adds, or ""
new_root() {
  local name=$1 include=$2 suite=${SUITE:-bookworm}
  shift 2
  [ "$(id -u)" = 0 ] || { echo "$name: run it as root: it makes a root directory" >&2; exit 1; }
  command -v debootstrap >/dev/null || { echo "$name: please install debootstrap" >&2; exit 1; }
  [ -c /dev/fuse ] || { echo "$name: there is no /dev/fuse here" >&2; exit 1; }
  work=$(mktemp -d)
  trap 'rm -rf --one-file-system "$work"' EXIT
  root=$work/root
  if [ $# = 0 ]; then
    TARGETS=linux/$(go env GOARCH) FORMATS=deb DIST=$work scripts/package >/dev/null
    set -- "$work"/tensorfs_*.deb
  fi
  http_proxy=${http_proxy:-$(apt-config dump Acquire::http::Proxy --format '%v')}
  export http_proxy
  debootstrap --variant=minbase ${include:+--include="$include"} "$suite" "$root" ${MIRROR:+"$MIRROR"} >"$work/log" 2>&1 ||
    { tail -n 20 "$work/log" >&2; exit 1; }
  cp /etc/hosts "$root/etc/hosts"
  cp "$1" "$root/root/tensorfs.deb"
  cp testdata/gguf/llama-xs.q8_0.gguf "$root/root/model.gguf"
  mknod -m 666 "$root/dev/fuse" c 10 229 2>/dev/null || true
}
