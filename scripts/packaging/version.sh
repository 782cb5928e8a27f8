# shellcheck shell=bash disable=SC2034 # who sources this uses them
# What scripts/package and scripts/release say of the commit that they build; they source this.
commit=$(git rev-parse HEAD)
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}

# version sets VERSION, which all but apk and Go can compare, apk_version, go_version and REF,
# from what git describe prints: v0.1.0, v0.1.0-rc1, v0.1.0-5-g0123abc, 0123abc, each
# perhaps -dirty.
version() {
  local given=${1#v} dirty= day second
  day=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y%m%d) second=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y%m%d%H%M%S)
  case $given in *-dirty) dirty=+dirty given=${given%-dirty} ;; esac
  if [[ $given =~ ^([0-9]+\.[0-9]+\.[0-9]+)-([0-9]+)-g([0-9a-f]+)$ ]]; then
    VERSION=${BASH_REMATCH[1]}+${BASH_REMATCH[2]}.g${BASH_REMATCH[3]} apk_version=${BASH_REMATCH[1]}_p${BASH_REMATCH[2]}
    go_version=v${BASH_REMATCH[1]%.*}.$((${BASH_REMATCH[1]##*.} + 1))-0.$second-${commit:0:12}
  elif [[ $given =~ ^([0-9]+\.[0-9]+\.[0-9]+)(-((alpha|beta|rc)[0-9]*))?$ ]]; then
    VERSION=${BASH_REMATCH[1]}${BASH_REMATCH[3]:+"~${BASH_REMATCH[3]}"} apk_version=${BASH_REMATCH[1]}${BASH_REMATCH[3]:+"_${BASH_REMATCH[3]}"}
    go_version=v$given
  elif [[ $given =~ ^[0-9a-f]{7,40}$ ]]; then # there is no tag
    VERSION=0.0.0~git$day.$given apk_version=0.0.0_git$day
    go_version=v0.0.0-$second-${commit:0:12}
  else
    echo "$0: $1 is not a version; want one like 0.1.0 or 0.1.0-rc1" >&2
    exit 2
  fi
  VERSION=$VERSION$dirty
  # What links of packages point to, which stays as the package was: the tag, or else the commit.
  REF=$commit
  [ "$go_version" != "v$given" ] || REF=$go_version
  export REF
}
