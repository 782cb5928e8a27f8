# shellcheck shell=bash disable=SC2154 # of scripts/try-cluster, which sources this: $work, $inside
# What runs in the cluster: programs, and the images of its pods.
cluster=${XDG_CACHE_HOME:-$HOME/.cache}/tensorfs-tests/cluster
packages="etcd-server busybox-static containernetworking-plugins libseccomp-dev"

# Versions are those of the go.mod files below: of Kubernetes the last minor one that takes cgroup v1; of containerd and runc
# ones that map the owners of volumes, which pods with hostUsers: false need and Debian 12's do not.

# programs fetches and builds what is not there yet. They are in $bin afterwards. Without inlining and debugging
# information they take a third of the time to build.
programs() {
  local -x CGO_ENABLED=0
  local package kubernetes version=k8s.io/component-base/version helm=helm.sh/helm/v3 containerd=github.com/containerd/containerd/v2
  kubernetes=$(required kubernetes k8s.io/kubernetes)
  bin=$cluster/$kubernetes-$({ echo "$packages"; cat scripts/cluster/{kubernetes,containerd}/go.{mod,sum}; } | sha256sum | cut -c 1-12)
  mkdir -p "$bin"
  if [ ! -e "$bin/debian.done" ]; then
    echo "fetching Debian's $packages"
    rm -rf "$bin/debian"
    mkdir "$bin/debian"
    (cd "$bin/debian" && beat "apt-get download" quietly download && for package in *.deb; do dpkg -x "$package" . && rm "$package"; done)
    touch "$bin/debian.done"
  fi
  for package in k8s.io/kubernetes/cmd/{kubelet,kube-apiserver,kubectl,kube-controller-manager,kube-scheduler} helm.sh/helm/v3/cmd/helm; do
    build kubernetes "$package" "" "-X $version.gitVersion=$kubernetes -X $version.gitMajor=1 -X $version.gitMinor=33 -X $helm/internal/version.version=$(required kubernetes helm.sh/helm/v3) -X $helm/pkg/chartutil.k8sVersionMajor=1 -X $helm/pkg/chartutil.k8sVersionMinor=33"
  done
  for package in "$containerd"/cmd/{containerd,containerd-shim-runc-v2,ctr}; do
    build containerd "$package" no_devmapper,no_zfs "-X $containerd/version.Version=$(required containerd $containerd)"
  done
  # runc is C in part, and linked with the libseccomp of the package above. pkg-config, which would look for an installed
  # one, is the program true.
  if [ ! -x "$bin/runc" ] && ! command -v gcc >/dev/null; then
    echo "installing gcc"
    beat "apt-get install" quietly sh -c 'apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends gcc libc6-dev'
  fi
  CGO_ENABLED=1 CC=gcc PKG_CONFIG=true CGO_CFLAGS="-O2 -I$bin/debian/usr/include" CGO_LDFLAGS="-L$(dirname "$bin"/debian/usr/lib/*/libseccomp.a) -lseccomp" \
    build containerd github.com/opencontainers/runc seccomp,urfave_cli_no_docs,netgo,osusergo "-linkmode external -extldflags -static"
}

# build writes a program that a module below scripts/cluster requires to $bin, unless it is there.
build() { # MODULE PACKAGE TAGS LDFLAGS
  local name=${2##*/}
  [ ! -x "$bin/$name" ] || return 0
  echo "building $name $(required "$1" "$2")"
  (cd "scripts/cluster/$1" && beat "building $name" nice -n 19 go build -trimpath -buildvcs=false -tags "$3" -o "$bin/$name.new" \
    "-gcflags=all=-l -dwarf=false" -ldflags "-s -w $4" "$2")
  mv "$bin/$name.new" "$bin/$name"
}
# required prints the version of the module that has a package.
required() { awk -v package="$2/" '$2 ~ /^v/ && index(package, $1 "/") == 1 { print $2; exit }' "scripts/cluster/$1/go.mod"; } # MODULE PACKAGE

download() {
  # shellcheck disable=SC2086 # a list
  apt-get download -q $packages || { apt-get update -q && apt-get download -q $packages; }
}
quietly() { "$@" >"$cluster/log" 2>&1 || { cat "$cluster/log" >&2; return 1; }; }

# images writes the images of pods into a directory: the driver's, as scripts/release makes it, and
# one of busybox, which is also what holds a pod together.
images() { # DIRECTORY
  local arch root=$work/root
  arch=$(go env GOARCH)
  echo "building tensorfs, tensorfs-csi and their image"
  mkdir -p "$1" "$root"/{bin,share/doc/tensorfs} "$work/bin"
  export CGO_ENABLED=0
  beat "building tensorfs" go build -trimpath -buildvcs=false -o "$root/bin/tensorfs" ./cmd/tensorfs
  beat "building tensorfs-csi" go -C cmd/tensorfs-csi build -trimpath -buildvcs=false -o "$root/bin/tensorfs-csi" .
  cp LICENSE "$root/share/doc/tensorfs"
  : >"$root/share/doc/tensorfs/THIRD-PARTY-LICENSES"
  beat "building what makes images" go -C scripts/packaging/_release build -trimpath -buildvcs=false -o "$work/release" .
  "$work/release" -version 0.1.0 -go-version v0.1.0 -commit "$(git rev-parse HEAD)" image-csi "$1/tensorfs-csi.tar" "linux/$arch=$root"
  ln "$root/bin/tensorfs" "$work/bin/tensorfs"
  beat "building a Hub" go build -o "$work/bin/hub" ./scripts/cluster/hub

  # An archive as docker save writes it: a layer, a configuration, and what names them.
  root=$work/busybox
  mkdir -p "$root"/{bin,tmp,model}
  cp "$bin/debian/bin/busybox" "$root/bin"
  for tool in sh sha256sum cat sleep ls cut dd echo find id sort stat xargs; do ln -s busybox "$root/bin/$tool"; done
  mkdir "$work/archive"
  tar -C "$root" -cf "$work/archive/layer.tar" .
  printf '{"architecture":"%s","os":"linux","config":{"Env":["PATH=/bin"],"Entrypoint":["/bin/sleep"],"Cmd":["2147483647"]},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' \
    "$arch" "$(sha256sum <"$work/archive/layer.tar" | cut -c 1-64)" >"$work/archive/config.json"
  printf '[{"Config":"config.json","RepoTags":["localhost/busybox:1"],"Layers":["layer.tar"]}]' >"$work/archive/manifest.json"
  tar -C "$work/archive" -cf "$1/busybox.tar" manifest.json config.json layer.tar
  rm -r "$work/archive" "$root"
}
