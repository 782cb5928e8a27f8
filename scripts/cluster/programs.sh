# shellcheck shell=bash disable=SC2154 # of scripts/try-cluster, which sources this: $work, $inside
# What runs in the cluster: programs, and the images of its pods.
cluster=${XDG_CACHE_HOME:-$HOME/.cache}/tensorfs-tests/cluster
kubernetes=v1.33.13 # the last ones that take cgroup v1, and Debian 12's containerd
packages="etcd-server containerd runc busybox-static containernetworking-plugins"

# programs fetches and builds what is not there yet. They are in $bin afterwards. Without inlining and debugging
# information they take a third of the time to build.
programs() {
  local package name version=k8s.io/component-base/version helm=helm.sh/helm/v3
  bin=$cluster/$kubernetes-$(cat scripts/cluster/kubernetes/go.{mod,sum} | sha256sum | cut -c 1-12)
  mkdir -p "$bin"
  if [ ! -e "$bin/debian.done" ]; then
    echo "fetching Debian's $packages"
    rm -rf "$bin/debian"
    mkdir "$bin/debian"
    # shellcheck disable=SC2086 # a list
    (cd "$bin/debian" && beat "apt-get download" quietly apt-get download -q $packages && for package in *.deb; do dpkg -x "$package" . && rm "$package"; done)
    touch "$bin/debian.done"
  fi
  for package in k8s.io/kubernetes/cmd/{kubelet,kube-apiserver,kubectl,kube-controller-manager,kube-scheduler} helm.sh/helm/v3/cmd/helm; do
    name=${package##*/}
    [ ! -x "$bin/$name" ] || continue
    echo "building $name"
    (cd scripts/cluster/kubernetes && beat "building $name" env CGO_ENABLED=0 nice -n 19 go build -trimpath -buildvcs=false -o "$bin/$name.new" \
      "-gcflags=all=-l -dwarf=false" -ldflags "-s -w -X $version.gitVersion=$kubernetes -X $version.gitMajor=1 -X $version.gitMinor=33 -X $helm/internal/version.version=v3.18.6 -X $helm/pkg/chartutil.k8sVersionMajor=1 -X $helm/pkg/chartutil.k8sVersionMinor=33" "$package")
    mv "$bin/$name.new" "$bin/$name"
  done
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
  for tool in sh sha256sum cat sleep ls cut dd echo; do ln -s busybox "$root/bin/$tool"; done
  mkdir "$work/archive"
  tar -C "$root" -cf "$work/archive/layer.tar" .
  printf '{"architecture":"%s","os":"linux","config":{"Env":["PATH=/bin"],"Entrypoint":["/bin/sleep"],"Cmd":["2147483647"]},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' \
    "$arch" "$(sha256sum <"$work/archive/layer.tar" | cut -c 1-64)" >"$work/archive/config.json"
  printf '[{"Config":"config.json","RepoTags":["localhost/busybox:1"],"Layers":["layer.tar"]}]' >"$work/archive/manifest.json"
  tar -C "$work/archive" -cf "$1/busybox.tar" manifest.json config.json layer.tar
  rm -r "$work/archive" "$root"
}
