// Package remote opens models that are on servers, as the command tensorfs does:
//
//	c := remote.New(remote.Options{})
//	defer c.Close()
//	m, err := c.Open(ctx, "hf:ORG/NAME:Q4_K_M")
//
// A model is then as any other: its tensors are fetched when they are read, by ranges,
// several at the same time, again where a connection breaks, and kept in the cache of the
// user, which the command shares. A name stands for what it was when it was opened: a
// file that changes on its server meanwhile is an error, and never other bytes.
//
// The environment says with which credentials servers are asked, as the programs of each
// server read it: HF_TOKEN
// and HF_ENDPOINT, or the login of hf; the AWS_ variables and files; the login of docker;
// ~/.netrc for https://. HTTPS_PROXY and NO_PROXY name proxies.
//
// Programs that only open models of this machine import package formats, which links no
// protocol.
package remote
