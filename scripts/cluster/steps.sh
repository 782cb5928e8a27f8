# shellcheck shell=bash disable=SC2154 # of up.sh: $work, $node, $address, $bin
# What scripts/try-cluster tries, in this order. Each step runs in a process of its own.
chart=cmd/tensorfs-csi/chart deploy=cmd/tensorfs-csi/deploy
dir=/var/lib/tensorfs
model=/var/lib/models/llama.gguf

fail() { echo "  NOT SO: $*"; exit 1; }
same() { [ "$2" = "$3" ] || fail "$1: $2, and not $3"; see "$1: $2"; }

# pod creates a pod that has a model at /model.
pod() { # NAME ATTRIBUTES [COMMAND [SECRET [FIELD OF SPEC]]]
  kubectl apply -f - >/dev/null <<END
apiVersion: v1
kind: Pod
metadata: {name: $1}
spec:
  terminationGracePeriodSeconds: 0
  ${5:-}
  containers:
    - name: reader
      image: localhost/busybox:1
      imagePullPolicy: Never
      command: [/bin/sh, -c, '${3:-sleep 2147483647}']
      volumeMounts: [{name: model, mountPath: /model, readOnly: true}]
  volumes:
    - name: model
      csi:
        driver: csi.tensorfs.dev
        readOnly: true
        volumeAttributes: {$2}
        ${4:+nodePublishSecretRef: {name: $4\}}
END
}
have() { kubectl get pod "$1" >/dev/null 2>&1 || pod "$@"; } # the same, unless it is there
running() { local name; for name; do kubectl wait --for=condition=Ready "pod/$name" --timeout=1s || return; done; }
inside() { kubectl exec "$1" -- /bin/sh -c "$2"; } # POD COMMAND
volume() { # POD: its directory on the node
  find "/var/lib/kubelet/pods/$(kubectl get pod "$1" -o 'jsonpath={.metadata.uid}')/volumes/kubernetes.io~csi" -mindepth 2 -maxdepth 2 -name mount
}
device() { stat -c %d "$(volume "$1")"; }
restarts() { kubectl get pod "$1" -o 'jsonpath={.status.containerStatuses[0].restartCount}'; }
servers() { pgrep -f '^[^ ]*tensorfs mount' || true; } # their processes
count() { servers | wc -l; }
serve() { [ "$(count)" = "$1" ]; } # NUMBER
server_of() { pgrep -f "^[^ ]*tensorfs mount.*$(root_of "$1")"; } # POD
root_of() { # POD: the mount of the server
  awk -v device="$(mountinfo_device "$(volume "$1")")" -v below="$dir/mounts/" '$3 == device && index($5, below) == 1 { print $5; exit }' /proc/self/mountinfo
}
mountinfo_device() { awk -v at="$1" '$5 == at { d = $3 } END { print d }' /proc/self/mountinfo; }
driver() { pgrep -x tensorfs-csi; }
memory() { awk '/^VmRSS/ { rss = $2 } /^RssAnon/ { own = $2 } END { printf "%.1f MiB, %.1f of its own", rss / 1024, own / 1024 }' "/proc/$1/status"; } # PROCESS
driver_ready() { kubectl rollout status -n kube-system daemonset/tensorfs-csi --timeout=1s; }
metrics() { # a request to the driver, from its pod's network
  local ip
  ip=$(kubectl get pods -n kube-system -l app.kubernetes.io/component=driver --field-selector status.phase=Running -o 'jsonpath={.items[0].status.podIP}')
  python3 -c 'import sys, urllib.request; sys.stdout.write(urllib.request.urlopen("http://" + sys.argv[1], timeout=5).read().decode())' "$ip:9808/metrics"
}
# drop has the kernel forget the pages of the files of a pod's volume.
drop() { find "$(volume "$1")/" -type f -exec dd if={} iflag=nocache count=0 status=none \; ; }
lines() { kubectl logs "$1" | wc -l; }
more_lines() { [ "$(lines "$1")" -gt "$2" ]; }
warned() { kubectl get events --field-selector "involvedObject.name=$1" -o 'jsonpath={range .items[*]}{.message}{"\n"}{end}' | grep -F "$2"; }
no_pod() { ! kubectl get pod "$1" >/dev/null 2>&1; }

step_lint() { # helm lint
  helm lint --strict $chart | sed 's/^/  /'
  ! helm lint $chart --set cacheSize=lots >"$work/lint" 2>&1 || fail "cacheSize=lots passes"
  see "a wrong value: $(grep -o "cacheSize.*" "$work/lint" | head -n 1)"
  scripts/cluster/render --check
  see "$deploy is what the chart says"
}

step_dry_run() { # what the API server says of the objects
  kubectl apply --dry-run=server -f $deploy | sed 's/^/  /'
  helm template tensorfs-csi $chart --namespace kube-system --kube-version 1.33 --set controller.enabled=true | kubectl apply --dry-run=server -f - | sed 's/^/  /'
  find $deploy/examples -name '*.yaml' | sort | while read -r file; do kubectl apply --dry-run=server -f "$file" | sed 's/^/  /'; done
}

step_install() { # helm install
  helm install tensorfs-csi $chart --namespace kube-system --set image.tag=0.1.0,local=/var/lib/models,linger=5s >"$work/helm" || fail "$(cat "$work/helm")"
  eventually 120 "the driver runs" driver_ready
  eventually 60 "the keeper runs" sh -c "[ \$(kubectl get -n kube-system daemonset/tensorfs-csi-keeper -o 'jsonpath={.status.numberReady}') = 1 ]"
  eventually 60 "kubelet knows the driver" sh -c "kubectl get csinode $node -o 'jsonpath={.spec.drivers[*].name}' | grep csi.tensorfs.dev"
  kubectl get csidriver,csinode,pods -A 2>/dev/null | sed 's/^/  /'
}

step_share() { # pods a (f32) and b (f16) of one model, and g, which wants gguf/ as Q8_0
  pod a "model: $model, path: f32"
  pod b "model: $model, path: f16"
  pod g "model: $model, path: gguf, ggufType: q8_0"
  eventually 90 "a, b and g run" running a b g
  same "device of b as of a" "$(device b)" "$(device a)"
  [ "$(device g)" != "$(device a)" ] || fail "g has the device of a though it shows something else"
  see "device of g: $(device g)"
  same "servers" "$(count)" 2
  findmnt -rno TARGET,OPTIONS -T "$(volume a)" | sed 's,/pods/[^/]*/,/pods/.../,; s/^/  /'
}

q8_0() { tensorfs cat --gguf-type q8_0 $model gguf/model.gguf | sha256sum | cut -c 1-16; }

step_digests() { # what pods read is what tensorfs cat prints
  local tensor name
  for tensor in layers.0.attention.q.weight layers.2.ffn.down.weight; do
    same "f32/$tensor in a" "$(inside a "sha256sum </model/$tensor" | cut -c 1-16)" "$(tensorfs cat $model "f32/$tensor" | sha256sum | cut -c 1-16)"
    same "f16/$tensor in b" "$(inside b "sha256sum </model/$tensor" | cut -c 1-16)" "$(tensorfs cat $model "f16/$tensor" | sha256sum | cut -c 1-16)"
  done
  same "gguf/model.gguf in g" "$(inside g "sha256sum </model/model.gguf" | cut -c 1-16)" "$(q8_0)"
  ! inside a 'echo x >/model/new' 2>/dev/null || fail "a can write"
}

# sums prints the digests of the files of gguf/ and hf/, by name. It runs in pods and on the node.
sums='find gguf hf -type f | sort | xargs sha256sum'
owners='find . gguf hf -maxdepth 1 | xargs stat -c %u:%g | sort -u'

step_userns() { # a pod with a user namespace of its own (hostUsers: false) reads what the node reads
  local small=/var/lib/models/small.gguf want process uid first before
  before=$(count)
  if [ "$(printf '%s\n' 6.12 "$(uname -r)" | sort -V | head -n 1)" != 6.12 ]; then
    see "NOT TESTED: Linux maps the owners of FUSE mounts from 6.12 on, and this is $(uname -r)"
    return
  fi
  pod mapped "model: $small" 'sleep 2147483646' '' 'hostUsers: false'
  pod plain "model: $small"
  eventually 90 "mapped and plain run" running mapped plain
  process=$(pgrep -of 'sleep 2147483646$') # what its container began with
  see "/proc/self/uid_map in mapped: $(inside mapped 'cat /proc/self/uid_map' | xargs)"
  see "/proc/self/uid_map in plain: $(inside plain 'cat /proc/self/uid_map' | xargs)"
  read -r first uid _ <<<"$(inside mapped 'cat /proc/self/uid_map')"
  [ "$first" = 0 ] && [ "$uid" -ge 65536 ] || fail "root in mapped is user $uid of the node"
  same "user in mapped" "$(inside mapped 'id -u')" 0
  same "user of its process on the node" "$(stat -c %u "/proc/$process")" "$uid"
  same "user in plain is the node's root" "$(inside plain 'cat /proc/self/uid_map' | xargs)" "0 0 4294967295"
  awk '$5 == "/model" { print $6 }' "/proc/$process/mountinfo" | grep -w idmapped >/dev/null || fail "/model in mapped is not mapped"
  see "options of /model in mapped: $(awk '$5 == "/model" { print $6 }' "/proc/$process/mountinfo")"

  inside mapped "cd /model && $sums" >"$work/sums" # first, so that mapped asks the server
  tensorfs export $small "$work/plain" gguf hf >/dev/null 2>&1
  want=$(cd "$work/plain" && eval "$sums")
  rm -r "$work/plain"
  cut -c 1-16,65- <<<"$want" | sed 's/^/    /'
  [ "$(grep -c ' gguf/model.gguf$' <<<"$want")" = 1 ] && [ "$(grep -c ' hf/' <<<"$want")" -ge 3 ] || fail "these are not the files of gguf/ and hf/"
  [ "$(cat "$work/sums")" = "$want" ] || fail "mapped read $(cat "$work/sums")"
  [ "$(inside plain "cd /model && $sums")" = "$want" ] || fail "plain read $(inside plain "cd /model && $sums")"
  [ "$(cd "$(volume mapped)" && eval "$sums")" = "$want" ] || fail "the node reads other bytes in the volume of mapped"
  see "$(wc -l <<<"$want") digests: mapped, plain, the node in the volume, and tensorfs export have the same"
  same "owners of files in mapped" "$(inside mapped "cd /model && $owners")" 0:0
  same "owners of files in plain" "$(inside plain "cd /model && $owners")" 0:0
  same "device of mapped as of plain" "$(device mapped)" "$(device plain)"
  ! inside mapped 'echo x >/model/new' 2>/dev/null || fail "mapped can write"
  kubectl delete pod mapped plain --now >/dev/null
  eventually 60 "their server is gone" serve "$before"
}

drops() { awk '$1 == "drop_pagecache" { print $2 }' /proc/vmstat; } # how often the machine's page cache was dropped

step_pages() { # four pods on one model: one server, one copy of the pages
  local name sum before pages dropped
  pod c "model: $model, path: f32"
  pod d "model: $model, path: f32"
  pod e "model: $model, path: f32"
  eventually 60 "c, d and e run too" running c d e
  same "servers" "$(count)" 2
  for _ in 1 2 3; do
    dropped=$(drops) pages=''
    inside a 'cat /model/* | sha256sum' >/dev/null
    before=$(awk '{ print $14 + $15 }' "/proc/$(server_of a)/stat")
    for name in a c d e; do
      sum=$(fincore -bnro RES "$(volume $name)"/layers.*.weight | awk '{ s += $1 } END { print s }')
      see "$name: $((sum / 1048576)) MiB of its files are in the page cache, inode $(stat -c %i "$(volume $name)/layers.0.attention.q.weight") of device $(device $name)"
      pages="$pages $sum:$(device $name)"
      inside $name 'cat /model/* | sha256sum' >/dev/null
    done
    [ "$dropped" != "$(drops)" ] || break
    see "something on this machine dropped its page cache; once more"
  done
  [ "$(tr ' ' '\n' <<<"${pages# }" | sort -u | wc -l)" = 1 ] || fail "they differ"
  see "each of the four read all of it again, which cost the server $((10 * ($(awk '{ print $14 + $15 }' "/proc/$(server_of a)/stat") - before))) ms of a processor"
  see "memory: the server $(memory "$(server_of a)"), the driver $(memory "$(driver)"), the keeper $(memory "$(pgrep -f '^/usr/bin/tensorfs keep')")"
  kubectl delete pod c d e --now >/dev/null
}

step_wrong() { # attributes that are wrong, and models that are not there, in the events of pods
  pod wrong "model: $model, nonsense: yes-please"
  eventually 60 "an attribute: " warned wrong 'no attribute'
  sed 's/^/    /' "$work/last" | tail -n 1
  kubectl delete pod wrong --now >/dev/null
  pod wrong "model: /etc/passwd"
  eventually 60 "a path elsewhere: " warned wrong '/etc/passwd'
  sed 's/^/    /' "$work/last" | tail -n 1
  kubectl delete pod wrong --now >/dev/null
  pod wrong "model: /var/lib/models/none.gguf"
  eventually 60 "no such model: " warned wrong 'none.gguf'
  sed 's/^/    /' "$work/last" | tail -n 1
  kubectl delete pod wrong --now >/dev/null
}

step_stats() { # capacity and inodes of volumes as kubelet tells them, and the driver's metrics
  eventually 120 "kubelet has them" sh -c "kubectl get --raw /api/v1/nodes/$node/proxy/stats/summary | python3 -c '
import json, sys
for pod in json.load(sys.stdin)[\"pods\"]:
    for v in pod.get(\"volume\", []):
        if pod[\"podRef\"][\"name\"] == \"a\" and v[\"name\"] == \"model\" and v.get(\"capacityBytes\"):
            print({k: v[k] for k in (\"capacityBytes\", \"usedBytes\", \"availableBytes\", \"inodes\", \"inodesUsed\")}); sys.exit()
sys.exit(\"not yet\")'"
  sed 's/^/    /' "$work/last"
  metrics >"$work/metrics"
  grep '^tensorfs_' "$work/metrics" | grep -v '_bucket\|_sum' | sed 's/^/    /'
  grep -q '^tensorfs_volumes' "$work/metrics" || fail "no metrics"
}

# loop starts pod k, which reads all of its model again and again, and prints a digest each time.
loop() {
  have k "model: $model, path: f32" 'while :; do cat /model/* | sha256sum; done 2>&1'
  eventually 60 "k runs" running k
  eventually 60 "k has read its model" more_lines k 0
}
# goes_on holds that k reads on, with nothing but the same digest, and did not restart.
goes_on() { # LINES
  eventually 120 "k reads on" more_lines k "$1"
  eventually 120 "and on" more_lines k $(($1 + 1))
  same "what k printed, each different line once" "$(kubectl logs k | cut -c 1-16 | sort -u | tr '\n' ' ')" "$(cat "$work/f32") "
  same "restarts of k" "$(restarts k)" 0
}

step_server_killed() { # kill -9 of the server under a pod that reads, 3 s without one
  local before pid
  loop
  pid=$(server_of k)
  kill -STOP "$(driver)" # or it would have another one at once
  before=$(lines k)
  kill -KILL "$pid"
  drop k &
  sleep 3
  see "3 s without a server: k printed $(($(lines k) - before)) lines, its pages were dropped"
  before=$(lines k)
  kill -CONT "$(driver)"
  goes_on "$before"
  wait
  [ "$(server_of k)" != "$pid" ] || fail "the server is the same"
  see "another server: yes"
  metrics | grep '^tensorfs_takeovers' | sed 's/^/    /'
}

step_driver_killed() { # kill -9 of the driver, with which the servers in its container end
  local before
  loop
  before=$(lines k)
  kill -KILL "$(driver)"
  goes_on "$before"
  eventually 120 "the driver runs again" driver_ready
  same "f16 in b" "$(inside b 'sha256sum </model/output_norm.weight' | cut -c 1-16)" "$(tensorfs cat $model f16/output_norm.weight | sha256sum | cut -c 1-16)"
}

step_upgrade() { # helm upgrade, which replaces the driver's pods
  local before
  loop
  before=$(lines k)
  helm upgrade tensorfs-csi $chart --namespace kube-system --reuse-values --set metrics.annotations.upgraded=yes >"$work/helm" || fail "$(cat "$work/helm")"
  eventually 120 "the new driver runs" driver_ready
  goes_on "$before"
}

step_secrets() { # two users, a private model of a Hub
  local url commit found
  start hub hub /var/lib/models/small.gguf team/private=alice-token
  eventually 20 "a Hub runs" sh -c "[ \$(wc -l <$work/log/hub) = 2 ]"
  url=$(sed -n 1p "$work/log/hub") commit=$(sed -n 2p "$work/log/hub")
  # The Hub listens at 127.0.0.1.
  helm upgrade tensorfs-csi $chart --namespace kube-system --reuse-values --set "hostNetwork=true,env[0].name=HF_ENDPOINT,env[0].value=$url" >"$work/helm" || fail "$(cat "$work/helm")"
  eventually 120 "the driver knows it" driver_ready
  kubectl create secret generic alice --from-literal=token=alice-token >/dev/null
  kubectl create secret generic bob --from-literal=token=bob-token >/dev/null
  pod alice "model: \"hf:team/private@$commit\", path: gguf" '' alice
  pod alice2 "model: \"hf:team/private@$commit\", path: f16" '' alice
  pod bob "model: \"hf:team/private@$commit\", path: gguf" '' bob
  eventually 60 "alice's pods run" running alice alice2
  same "gguf/model.gguf in alice" "$(inside alice 'sha256sum </model/model.gguf' | cut -c 1-16)" "$(sha256sum </var/lib/models/small.gguf | cut -c 1-16)"
  same "device of alice2 as of alice" "$(device alice2)" "$(device alice)"
  eventually 60 "bob's does not: " warned bob 'SetUp failed'
  sed 's/^/    /' "$work/last" | tail -n 1
  pod local1 "model: $model, path: f16" '' alice
  pod local2 "model: $model, path: f16" '' bob
  eventually 60 "pods with the two secrets on one model of the node run" running local1 local2
  [ "$(device local1)" != "$(device local2)" ] || fail "they share a server"
  see "they have servers of their own: devices $(device local1) and $(device local2)"
  printf '%s\n' alice-token bob-token >"$work/patterns" # a pattern among grep's own arguments would be found there
  found=$(grep -rlaf "$work/patterns" $dir /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null || true)
  same "tokens are found below $dir and in arguments and environments of processes: only the Hub's" "$found" "/proc/$(cat "$work/pid/hub")/cmdline"
  kubectl delete pod alice alice2 bob local1 local2 --now >/dev/null
}

step_pv() { # a PersistentVolume and a claim
  kubectl apply -f - >/dev/null <<END
apiVersion: v1
kind: PersistentVolume
metadata: {name: llama}
spec:
  accessModes: [ReadOnlyMany]
  capacity: {storage: 1Gi}
  storageClassName: models
  csi:
    driver: csi.tensorfs.dev
    volumeHandle: llama
    readOnly: true
    volumeAttributes: {model: $model, path: hf}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: llama}
spec:
  accessModes: [ReadOnlyMany]
  storageClassName: models
  volumeName: llama
  resources: {requests: {storage: 1Gi}}
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  terminationGracePeriodSeconds: 0
  containers:
    - name: reader
      image: localhost/busybox:1
      imagePullPolicy: Never
      volumeMounts: [{name: model, mountPath: /model, readOnly: true}]
  volumes: [{name: model, persistentVolumeClaim: {claimName: llama, readOnly: true}}]
END
  eventually 60 "p runs" running p
  kubectl get pv,pvc | sed 's/^/  /'
  same "model.safetensors in p" "$(inside p 'sha256sum </model/model.safetensors' | cut -c 1-16)" "$(tensorfs cat $model hf/model.safetensors | sha256sum | cut -c 1-16)"
  kubectl delete pod p --now >/dev/null
  kubectl delete pvc,pv llama >/dev/null
}

step_kubelet() { # kubelet is killed and started again
  local before
  loop
  before=$(lines k)
  stop kubelet
  start_kubelet
  eventually 60 "kubelet answers" kubectl get --raw "/api/v1/nodes/$node/proxy/healthz"
  goes_on "$before"
  have new "model: $model, path: f32"
  eventually 60 "a new pod runs" running new
  same "its device as k's" "$(device new)" "$(device k)"
}

no_record() { ! grep -qs "$1" $dir/volumes/*.json; } # UID OF A POD

step_evict() { # eviction, and deletion without grace
  local uid
  have new "model: $model, path: f32"
  eventually 60 "new runs" running new
  printf '{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "new", "namespace": "default"}}' |
    kubectl create --raw /api/v1/namespaces/default/pods/new/eviction -f - >/dev/null
  eventually 60 "it was evicted, and is gone" no_pod new
  pod new "model: $model, path: gguf"
  eventually 60 "another one runs" running new
  uid=$(kubectl get pod new -o 'jsonpath={.metadata.uid}')
  grep -qs "$uid" $dir/volumes/*.json || fail "no record names the pod"
  kubectl delete pod new --grace-period=0 --force >/dev/null 2>&1
  eventually 60 "its volume is gone" no_record "$uid"
}

# no_cgroups removes the cgroups of pods, as soon as their processes have ended.
no_cgroups() {
  find /sys/fs/cgroup/{,*/}"$group" -mindepth 1 -depth -type d -exec rmdir {} + 2>/dev/null || true
  ! find /sys/fs/cgroup/{,*/}"$group" -mindepth 1 -type d 2>/dev/null | grep .
}

step_reboot() { # the node loses its power: everything on it ends, what is on the disk stays
  local at
  loop
  have b "model: $model, path: f16"
  eventually 60 "b runs" running b
  for at in kubelet containerd; do stop $at; done
  # The processes of pods, with their shims; etcd and the servers of the cluster are on another machine in truth.
  for at in $(pgrep -f 'containerd-shim|^[^ ]*tensorfs(-csi)? |^/bin/s[hl]'); do kill -KILL "$at" 2>/dev/null || true; done
  awk '$5 ~ "^/(var/lib/(kubelet|tensorfs|containerd)|run)/" { print $5 }' /proc/self/mountinfo | sort -r | while read -r at; do umount -l "$at" 2>/dev/null || true; done
  find /run -mindepth 1 -delete 2>/dev/null || true
  eventually 20 "the cgroups of pods are gone" no_cgroups # kubelet would spend seconds on each
  see "mounts left: $(grep -c ' fuse' /proc/self/mountinfo || true), servers: $(count), records: $(find $dir/volumes -name '*.json' | wc -l)"
  start_node
  eventually 120 "kubelet has started the driver again" sh -c "pgrep -x tensorfs-csi"
  eventually 120 "b and k run again" running b k
  eventually 120 "k has read its model" more_lines k 0
  same "digest that k prints" "$(kubectl logs k | tail -n 1 | cut -c 1-16)" "$(cat "$work/f32")"
  same "f16 in b" "$(inside b 'sha256sum </model/output_norm.weight' | cut -c 1-16)" "$(tensorfs cat $model f16/output_norm.weight | sha256sum | cut -c 1-16)"
}

step_end() { # pods end: the last one of a model ends its server, and nothing is left
  have g "model: $model, path: gguf, ggufType: q8_0"
  eventually 60 "g runs" running g
  kubectl delete pod a b k --ignore-not-found --now >/dev/null
  eventually 60 "their server is gone, that of g stays" serve 1
  same "gguf/model.gguf in g" "$(inside g 'sha256sum </model/model.gguf' | cut -c 1-16)" "$(q8_0)"
  kubectl delete pods --all --now >/dev/null
  eventually 60 "no server is left" serve 0
  same "records" "$(find $dir/volumes -type f | wc -l)" 0
  eventually 20 "no mount of a model is left" sh -c "! grep -E ' ($dir|/var/lib/kubelet)/.* - fuse.tensorfs' /proc/self/mountinfo"
  eventually 20 "no directory of a mount is left" sh -c "! find $dir/mounts -mindepth 1 | grep ."
  helm uninstall tensorfs-csi --namespace kube-system >/dev/null
  eventually 60 "the driver's pods are gone" sh -c "[ -z \"\$(kubectl get pods -n kube-system -o name)\" ]"
}
