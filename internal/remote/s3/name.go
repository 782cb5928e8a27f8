package s3

import "github.com/tensorfs/tensorfs/internal/remote"

// Scheme begins the names of this package.
const Scheme = "s3://"

// maxKey is the length of the longest key.
const maxKey = 1024

// names are the names of objects and buckets, at AWS and elsewhere.
var names = remote.ObjectScheme{
	Scheme: Scheme,
	Bucket: remote.Pattern(`^[A-Za-z0-9][A-Za-z0-9._-]{1,254}$`),
	MaxKey: maxKey,
	Login:  "set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
}
