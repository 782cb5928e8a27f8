// What scripts/release makes besides packages. It is a module of its own, so that what it
// uses is no dependency of tensorfs.
module release

go 1.26.0

require (
	github.com/opencontainers/go-digest v1.0.0
	github.com/opencontainers/image-spec v1.1.1
	golang.org/x/crypto/x509roots/fallback v0.0.0-20261030153154-30a33513ff6d
	golang.org/x/mod v0.43.0
)
