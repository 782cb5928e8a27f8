# shellcheck shell=bash
# A Kubernetes of one node, in the namespaces that scripts/try-cluster made; that sources this.
node=node1 address=10.99.0.1 pods=10.99.1.0/24
server=https://$address:6443

# start runs a program in the background, with its output in a log and its id in a file.
start() { # NAME COMMAND...
  local name=$1
  shift
  "$@" >>"$work/log/$name" 2>&1 </dev/null &
  echo $! >"$work/pid/$name"
  disown # so that the shell says nothing when it is killed
}
# stop ends one, as a power cut does.
stop() { # NAME
  local pid
  pid=$(cat "$work/pid/$1")
  kill -KILL "$pid"
  eventually 10 "$1 is gone" gone "$pid"
}
gone() { ! kill -0 "$1" 2>/dev/null; }

# eventually runs a command until it succeeds, and says how long that took.
eventually() { # SECONDS WHAT COMMAND...
  local until=$((SECONDS + $1)) what=$2 began=$EPOCHREALTIME said=$SECONDS
  shift 2
  until "$@" >"$work/last" 2>&1; do
    if [ "$SECONDS" -ge "$until" ]; then
      echo "  NOT YET: $what: $(tail -n 3 "$work/last")"
      return 1
    fi
    [ $((SECONDS - said)) -lt 15 ] || { echo "      ... $what"; said=$SECONDS; }
    sleep 0.2
  done
  see "$what ($(awk "BEGIN { printf \"%.1f\", $EPOCHREALTIME - $began }") s)"
}
see() { printf '  %s\n' "$*"; }

# prepare makes directories of this cluster stand where those of a machine do, and a network.
prepare() {
  local controller of=/sys/fs/cgroup f
  mkdir -p "$work"/{log,pid,lib,run,sysctl,models,proc}
  mount --bind "$work" "$work" # so that what follows is shared below it
  mount --make-rshared /
  mount -t tmpfs -o mode=755 tmpfs /run
  mount --bind "$work/lib" /var/lib
  mkdir -p /var/lib/{kubelet,tensorfs,containerd,models} /etc/cni
  # kubelet sets these, which hold for the whole machine: here it writes files.
  for f in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
    [ -e "/proc/sys/$f" ] || continue
    cat "/proc/sys/$f" >"$work/sysctl/${f//\//.}"
    mount --bind "$work/sysctl/${f//\//.}" "/proc/sys/$f"
  done
  # A user namespace mounts a /proc only if some other one has nothing mounted upon it.
  mount -t proc proc "$work/proc"
  if [ -e $of/cgroup.controllers ]; then
    mkdir "$of/$group"
    for f in cpu cpuset memory io pids hugetlb; do echo "+$f" >$of/cgroup.subtree_control || true; done 2>/dev/null
  else
    for controller in "$of"/*/; do
      [ ! -L "${controller%/}" ] && mkdir "$controller/$group" 2>/dev/null || continue
      for f in cpuset.cpus cpuset.mems; do [ ! -e "$controller/$f" ] || cat "$controller/$f" >"$controller/$group/$f"; done
    done
  fi
  hostname $node
  ip link set lo up
  ip address add $address/32 dev lo
  echo 1 >/proc/sys/net/ipv4/ip_forward
}

configure() {
  openssl genrsa -out "$work/key" 2048 2>/dev/null
  openssl rsa -in "$work/key" -pubout -out "$work/key.pub" 2>/dev/null
  token=$(openssl rand -hex 16)
  echo "$token,admin,admin,system:masters" >"$work/tokens"
  cat >"$work/kubeconfig" <<END
apiVersion: v1
kind: Config
clusters: [{name: here, cluster: {server: "$server", insecure-skip-tls-verify: true}}]
users: [{name: admin, user: {token: $token}}]
contexts: [{name: here, context: {cluster: here, user: admin}}]
current-context: here
END
  mkdir -p "$work/cni"
  cat >"$work/cni/10-pods.conflist" <<END
{"cniVersion": "0.4.0", "name": "pods", "plugins": [
  {"type": "ptp", "ipam": {"type": "host-local", "subnet": "$pods", "routes": [{"dst": "0.0.0.0/0"}]}}]}
END
  # restrict_oom_score_adj: a machine may forbid what runc asks for otherwise.
  cat >"$work/containerd.toml" <<END
version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.snapshotter.v1.blockfile", "io.containerd.snapshotter.v1.erofs", "io.containerd.internal.v1.opt", "io.containerd.nri.v1.nri"]
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "native"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "localhost/busybox:1"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["$bin/debian/usr/lib/cni"]
    conf_dir = "$work/cni"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      BinaryName = "$bin/runc"
END
  cat >"$work/kubelet.yaml" <<END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
cgroupDriver: cgroupfs
cgroupRoot: /$group
failCgroupV1: false
failSwapOn: false
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
resolvConf: ""
clusterDNS: [10.98.0.10]
clusterDomain: cluster.local
enforceNodeAllocatable: []
evictionHard: {memory.available: 1Mi, nodefs.available: 0%, imagefs.available: 0%, nodefs.inodesFree: 0%}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
volumeStatsAggPeriod: 3s
syncFrequency: 5s
nodeStatusUpdateFrequency: 5s
shutdownGracePeriod: 0s
END
  export KUBECTL_REMOTE_COMMAND_WEBSOCKETS=false # by WebSocket kubectl exec loses output on a busy machine ("Unknown stream id 1")
  export KUBECONFIG=$work/kubeconfig HOME=$work PATH=$bin:$bin/debian/usr/bin:$bin/debian/usr/sbin:$work/bin:$PATH
}

start_control() {
  start etcd etcd --data-dir "$work/etcd" --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 --listen-peer-urls http://127.0.0.1:2380
  start kube-apiserver kube-apiserver --etcd-servers http://127.0.0.1:2379 --advertise-address $address --secure-port 6443 --cert-dir "$work/apiserver" \
    --token-auth-file "$work/tokens" --authorization-mode AlwaysAllow --anonymous-auth=false --disable-admission-plugins ServiceAccount --allow-privileged \
    --service-account-issuer https://kubernetes.default --service-account-key-file "$work/key.pub" --service-account-signing-key-file "$work/key" \
    --service-cluster-ip-range 10.98.0.0/24 --kubelet-preferred-address-types InternalIP
  eventually 180 "kube-apiserver answers" kubectl get --raw /readyz
  start kube-controller-manager kube-controller-manager --kubeconfig "$work/kubeconfig" --leader-elect=false --service-account-private-key-file "$work/key" \
    --controllers daemonset-controller,deployment-controller,replicaset-controller,persistentvolume-binder-controller,persistentvolume-protection-controller,persistentvolumeclaim-protection-controller,garbage-collector-controller,namespace-controller,node-lifecycle-controller,taint-eviction-controller
  start kube-scheduler kube-scheduler --kubeconfig "$work/kubeconfig" --leader-elect=false
}

start_node() {
  start containerd containerd --config "$work/containerd.toml"
  eventually 60 "containerd answers" ctr --address /run/containerd/containerd.sock version
  start_kubelet
}
start_kubelet() {
  start kubelet kubelet --config "$work/kubelet.yaml" --kubeconfig "$work/kubeconfig" --hostname-override $node --node-ip $address --cert-dir "$work/kubelet-certs" --v=2
}
images_into() { # FILE...
  local file
  for file; do ctr --address /run/containerd/containerd.sock --namespace k8s.io images import --local --snapshotter native "$file" >>"$work/log/images" 2>&1; done
}
node_ready() { kubectl wait --for=condition=Ready "node/$node" --timeout=1s; }

# main starts all, and runs the steps, each in a process of its own.
main() { # WORK GROUP BIN SHELL STEPS
  work=$1 group=$2 bin=$3
  local shell=$4 steps=$5 step failed='' status
  trap 'exit 130' INT TERM
  prepare
  configure
  echo "== a cluster of one node: Linux $(uname -r | cut -d - -f 1), containerd $(containerd --version | cut -d ' ' -f 3), runc $(runc --version | sed -n 's/^runc version //p'), Kubernetes $(kubectl version --client 2>/dev/null | sed -n 's/^Client Version: //p'), helm $(helm version --template '{{.Version}}')"
  start_control
  start_node
  images_into "$work"/images/*.tar
  eventually 120 "$node is registered and ready" node_ready
  make_models
  [ -n "$steps" ] || steps=$(sed -n 's/^step_\([a-z_]*\)() {.*/\1/p' scripts/cluster/steps.sh)
  case " $steps " in *install*) ;; *) steps="install $steps" ;; esac
  for step in $steps; do
    printf '\n== %s\n' "$(sed -n "s/^step_$step() { # //p" scripts/cluster/steps.sh)"
    set +e
    (set -e; "step_$step")
    status=$?
    set -e
    [ "$status" = 0 ] || { failed="$failed $step"; echo "FAILED: $step"; troubles; }
  done
  [ -z "$shell" ] || (echo "kubectl, helm and ctr are in PATH; exit ends the cluster"; PS1='cluster# ' bash --norc -i || true)
  printf '\n'
  [ -z "$failed" ] || { echo "failed:$failed"; exit 1; }
  echo "all of it as it should be: $(wc -w <<<"$steps") steps, $SECONDS s"
}

# troubles prints what helps to see why a step failed.
troubles() {
  kubectl get pods -A -o wide 2>&1 | sed 's/^/    /' || true
  kubectl get events -A --field-selector type=Warning --sort-by=.lastTimestamp 2>&1 | tail -n 8 | cut -c 1-400 | sed 's/^/    /' || true
  kubectl logs -n kube-system daemonset/tensorfs-csi --tail=15 2>&1 | cut -c 1-400 | sed 's/^/    driver: /' || true
}

make_models() {
  tensorfs export testdata/gguf/llama-xs.q8_0.gguf "$work/small" hf >/dev/null 2>&1
  mv "$work/small/hf" "$work/large"
  python3 scripts/cluster/model.py "$work/large" 3
  tensorfs cat "$work/large" gguf/model.gguf >/var/lib/models/llama.gguf
  cp testdata/gguf/llama-xs.q8_0.gguf /var/lib/models/small.gguf
  tensorfs export /var/lib/models/llama.gguf "$work/plain" f32 >/dev/null 2>&1
  (cd "$work/plain/f32" && LC_ALL=C && cat ./* | sha256sum | cut -c 1-16) >"$work/f32" # what a pod that reads all of f32/ reads
  rm -r "$work/large" "$work/small" "$work/plain"
}
