// Package s3 finds models in buckets: AWS S3 and what speaks its protocol.
//
//	s3://BUCKET/KEY       an object, with the other files of a split GGUF model
//	s3://BUCKET/PREFIX/   all objects whose keys begin with it, as a directory
//
// Where: AWS_ENDPOINT_URL_S3, else AWS_ENDPOINT_URL, else AWS itself in AWS_REGION,
// AWS_DEFAULT_REGION or us-east-1. A server that names another region is asked there.
// Who: see credentials.go; without any, requests are not signed.
//
// An object is pinned by its ETag, which is sent with every range (If-Match) and compared
// in every answer, and by its version if the bucket keeps versions. An ETag is not a
// digest: the ETag of a multipart object depends on how it was uploaded.
//
// What it does not do: write, and list more than one model's worth of objects.
package s3
