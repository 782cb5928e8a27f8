// Package remote opens models that are on servers, as the command tensorfs does:
//
//	c := remote.New(remote.Options{})
//	defer c.Close()
//	m, err := c.Open(ctx, "hf:ORG/NAME:Q4_K_M")
//
// The model is then like any other: its tensors are fetched by ranges when they are read,
// several concurrently and with retries, and kept in the user's cache, which the command
// shares. A name is resolved when the model is opened: if a file changes on its server
// afterwards, reading it is an error and never returns other bytes.
//
// Credentials come from the environment, as the programs of each server read them: HF_TOKEN
// and HF_ENDPOINT, or the login of hf; the AWS_ variables and files; the login of docker;
// ~/.netrc for https://. HTTPS_PROXY and NO_PROXY name proxies.
//
// Programs that only open models of this machine import package formats, which links no
// protocol.
package remote
