# shellcheck shell=bash
# What scripts/release checks before a release, and how the release is published; it sources this.

# ready says everything that keeps the commit here from being released as TAG; nothing if it is ready.
# With a second argument the tag need not exist yet.
ready() { # TAG [dry-run]
  local tag=$1 plain=${1#v} at heading
  [[ $tag =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-(alpha|beta|rc)[0-9]+)?$ ]] || { echo "$tag is not a release's tag; want one like v0.1.0 or v0.1.0-rc1"; return; }
  [ -z "$(git status --porcelain)" ] || printf 'there are changes that are not committed:\n%s\n' "$(git status --porcelain | sed -n '1,5s/^/  /p')"
  at=$(git rev-parse -q --verify "refs/tags/$tag^{commit}" || true)
  if [ -n "$at" ] && [ "$at" != "$(git rev-parse HEAD)" ]; then
    echo "$tag is the tag of another commit, ${at:0:12}"
  elif [ -z "$at" ] && [ -z "${2:-}" ]; then
    echo "there is no tag $tag; to make it: git tag -a $tag -m 'tensorfs $plain'; to try without it: scripts/release --dry-run $tag"
  fi
  heading=$(grep -m 1 '^## ' CHANGELOG.md || true)
  [ "$heading" = "## ${plain%%-*}" ] || echo "CHANGELOG.md: the first heading is \"$heading\"; want \"## ${plain%%-*}\""
  version_in python/tensorfs/__init__.py '^__version__ = "\(.*\)"$' "${plain/-/}"
  version_in scripts/packaging/default.nix '^ *version = "\(.*\)";$' "$plain"
}

version_in() { # FILE EXPRESSION WANT
  local got
  got=$(sed -n "s/$2/\1/p" "$1")
  [ "$got" = "$3" ] || echo "$1: the version is \"$got\"; want \"$3\""
}

# publishing sets commands to three words for each step: its name, the command that publishes, and the command
# that tries the same without publishing. VERSION, go_version, dist and work are set.
publishing() {
  local tap="install -D -m 644 $dist/tensorfs.rb tap/Formula/tensorfs.rb && git -C tap add . && git -C tap commit -q -m 'tensorfs $VERSION' && git -C tap push -q"
  local images="for i in tensorfs tensorfs-csi; do skopeo%s copy --quiet --all oci-archive:$dist/\$i-$VERSION-image.tar %s\$i:$VERSION; done"
  # shellcheck disable=SC2059 # a format of ours
  commands=(
    "Go proxy" "git push origin $go_version && GOPROXY=https://proxy.golang.org go list -m github.com/tensorfs/tensorfs@$go_version"
    try_module
    "GitHub release" "gh release create $go_version --verify-tag --title 'tensorfs $VERSION' --notes 'https://github.com/tensorfs/tensorfs/blob/$go_version/CHANGELOG.md' \$(find $dist -maxdepth 1 -type f)"
    try_assets
    "PyPI" "python3 -m twine upload $dist/*.whl"
    "\$(twine) -m twine check --strict $dist/*.whl && try_name $dist/*.whl"
    "Homebrew tap" "git clone -q git@github.com:tensorfs/homebrew-tap tap && $tap"
    "try_formula && git init -q --bare origin && git clone -q origin tap && $tap"
    "images" "$(printf "$images" '' docker://ghcr.io/tensorfs/)"
    "command -v skopeo >/dev/null || cannot 'skopeo is not installed'; $(printf "$images" ' --insecure-policy' dir:)"
  )
}

# cannot ends a try that lacks something here.
cannot() { echo "$*" >&2; exit 77; }

# try_module installs the program from the proxy of modules, as a user's go install does.
try_module() {
  local said
  GOPROXY=file://$dist/goproxy,$(go env GOPROXY) GONOSUMDB=github.com/tensorfs/tensorfs GOFLAGS="-modcacherw -trimpath" GOMODCACHE=$PWD/cache GOBIN=$PWD CGO_ENABLED=0 \
    go install "github.com/tensorfs/tensorfs/cmd/tensorfs@$go_version"
  said=$(./tensorfs --version)
  [[ $said == "tensorfs ${go_version#v} "* ]] || { echo "the installed program is $said"; return 1; }
}

# try_assets checks the files that GitHub would get: their digests, and that it keeps their names.
try_assets() {
  local odd
  (cd "$dist" && sha256sum --check --strict --quiet SHA256SUMS)
  odd=$(find "$dist" -maxdepth 1 -type f -printf '%f\n' | grep '[^A-Za-z0-9._-]' || true)
  [ -z "$odd" ] || { echo "GitHub would store these under other names: $odd"; return 1; }
}

# try_formula checks that the formula's archive is the one beside it.
try_formula() {
  local archive
  archive=$(sed -n 's,^ *url ".*/\(.*\)"$,\1,p' "$dist/tensorfs.rb")
  [ "$(sed -n 's/^ *sha256 "\(.*\)"$/\1/p' "$dist/tensorfs.rb")" = "$(sha256sum <"$dist/$archive" | cut -d ' ' -f 1)" ] || { echo "the formula has another digest than $archive"; return 1; }
  if command -v ruby >/dev/null; then ruby -c "$dist/tensorfs.rb" >/dev/null; fi
}

# try_name asks PyPI whether the wheels' name is free or this project's.
try_name() { # WHEEL...
  local name status
  name=$(basename "$1")
  name=${name%%-*}
  status=$(curl --silent --location --max-time 60 --output json --write-out '%{http_code}' "https://pypi.org/pypi/$name/json" || true)
  case $status in
    404) ;;
    200) grep -q '"https://github.com/tensorfs/tensorfs"' json || { echo "on PyPI $name is another project: change DISTRIBUTION in python/tensorfs/_program.py"; return 1; } ;;
    *) cannot "PyPI does not say whether the name $name is free" ;;
  esac
}

# twine prints a Python that has twine, which it fetches from PyPI first.
twine() {
  local place=${XDG_CACHE_HOME:-$HOME/.cache}/tensorfs-build/twine-7.0.0
  if ! [ -e "$place/made" ]; then
    { python3 -m venv --clear "$place" && "$place/bin/pip" install -q --disable-pip-version-check twine==7.0.0 'readme-renderer[md]' && touch "$place/made"; } >&2
  fi
  echo "$place/bin/python"
}

# publish prints the commands; with try, it tries each first, and fails if a try does.
publish() { # [try]
  local i status failed=0 commands result
  publishing
  printf '\nTo publish %s, run these:\n' "$go_version"
  for ((i = 0; i < ${#commands[@]}; i += 3)); do
    result=
    if [ -n "${1:-}" ]; then
      mkdir -p "$work/try/$i"
      set +e # in a condition, bash would go on after what fails
      (set -e; cd "$work/try/$i"; eval "${commands[i + 2]}") >"$work/try/log" 2>&1
      status=$?
      set -e
      case $status in
        0) result=" (tried: ok)" ;;
        77) result=" (NOT TRIED: $(tail -n 1 "$work/try/log"))" ;;
        *) result=" (tried: FAILED: $(cat "$work/try/log"))" failed=1 ;;
      esac
    fi
    printf '\n# %s%s\n%s\n' "${commands[i]}" "$result" "${commands[i + 1]}"
  done
  return "$failed"
}
