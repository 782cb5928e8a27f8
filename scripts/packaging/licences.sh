# shellcheck shell=bash
# scripts/package and scripts/release source this.

# licences prints those of a program. Programs hold the code of others, whose licences want to come with it.
licences() { # GOOS PACKAGE CGO_ENABLED [DIRECTORY OF ITS MODULE]
  echo "tensorfs contains code of these projects, under their licences."
  { echo "the Go standard library and runtime|$(go env GOROOT)"
    GOOS=$1 CGO_ENABLED=$3 go -C "${4:-.}" list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}|{{.Dir}}{{end}}{{end}}' "$2" |
      grep -v '^github.com/tensorfs/tensorfs ' | sort -u
  } | while IFS='|' read -r name dir; do
    printf '\n%s\n%s\n\n' "$name" "${name//?/=}"
    find "$dir" -maxdepth 1 \( -name 'LICENSE*' -o -name 'COPYING*' \) -type f | sort | tr '\n' '\0' | xargs -0 cat
  done
  for notice in formats/*/NOTICE; do printf '\n'; cat "$notice"; done
}
