package main

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/tensorfs/tensorfs/internal/term"
)

// groupFlags makes help list the flags that are for models on other machines apart
// from a command's own.
func groupFlags(root *cobra.Command) {
	usages := func(all *pflag.FlagSet, grouped bool) string {
		set := pflag.NewFlagSet("", pflag.ContinueOnError)
		set.SortFlags = all.SortFlags
		all.VisitAll(func(f *pflag.Flag) {
			if (f.Annotations[inGroup] != nil) == grouped {
				set.AddFlag(f)
			}
		})
		return strings.TrimRight(set.FlagUsagesWrapped(term.Columns), " \n")
	}
	cobra.AddTemplateFunc("ownFlags", func(all *pflag.FlagSet) string { return usages(all, false) })
	cobra.AddTemplateFunc("remoteFlags", func(all *pflag.FlagSet) string { return usages(all, true) })
	const flags = "{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}"
	root.SetUsageTemplate(strings.Replace(root.UsageTemplate(), flags,
		"{{ownFlags .LocalFlags}}{{with remoteFlags .LocalFlags}}\n\nFor models on other machines (tensorfs help remote):\n{{.}}{{end}}", 1))
}

// remoteTopic is a text for tensorfs help.
func remoteTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "remote",
		Short: "How models on other machines are found, read and kept",
		Long: `Every command that takes a MODEL takes one that is on another machine:

  hf:ORG/NAME[@REVISION][:SELECT]  a repository of the Hugging Face Hub, also by
                                   the address of its page there
  ollama:NAME[:TAG]                a model of Ollama's registry, or of another
                                   one if NAME begins with its host
  oci://REGISTRY/REPOSITORY[:TAG]  an artifact of a registry (or @sha256:HEX)
  s3://BUCKET/KEY                  an object, or with a / at the end a directory
  https://HOST/PATH/FILE           a GGUF or safetensors file; of a split GGUF
                                   model any of its files
  http://HOST/PATH/FILE            the same on this machine or a private network

What this machine has is opened from here, and nobody is asked. Of a model that
is not here, or not all of it, only the parts that are read come, in pieces of 1
MiB, or in large parts ahead of who reads on through a tensor. A mount shows the
same files as that of a local model; source/ has the bytes of the model's files.

A name is looked up once, when the model is opened: a branch becomes a commit, a
file one version of it. The bytes never change afterwards. If the server has
another version, what came before can be read, and the rest is an error
(ESTALE); tensorfs status says so. Other errors: EACCES (no permission),
ETIMEDOUT (no answer within --timeout), EIO. Ctrl-C ends a read that waits.

What came is kept in a cache, see tensorfs cache --help, and not fetched again.
tensorfs fetch MODEL brings in all of it and compares it with its digests.

Where a server does not answer (no network, errors from 500 on, 429), the model
is opened as it was the last time, as far as it is in the cache. info, status,
README in the mount and the log say that, and which version it is. A refusal,
such as 401, 403 or 404, is an error. On a terminal a command that waits says
after a second whom it asks.

--offline asks nobody: it opens what is here or has been opened before, and
reads what is in the cache. TENSORFS_OFFLINE, HF_HUB_OFFLINE or
TRANSFORMERS_OFFLINE=1 are the same. --remote asks also for what this machine
has, for instance whether a branch has moved.

Some servers cannot send parts. Files of up to 64 MiB are then taken whole;
larger ones take --download, which fetches them first.

Credentials go to the server that they are for, and to nothing that it redirects
to:

  hf:      HF_TOKEN, or the file that 'hf auth login' writes; HF_ENDPOINT names
           the Hub. The same for ollama:hf.co/...
  oci:     what 'docker login' has stored (DOCKER_CONFIG), also by helpers
  s3:      the environment of AWS's tools: AWS_PROFILE, AWS_ACCESS_KEY_ID and so
           on; AWS_ENDPOINT_URL names another server than Amazon's
  https:   USER:PASSWORD@ in the address, or ~/.netrc (NETRC) for exactly that
           host, at any port, but not over http://

They are not shown and not kept, and neither is what follows ? in an address.
Proxies are those of HTTPS_PROXY, HTTP_PROXY and NO_PROXY, further certificates
those of SSL_CERT_FILE and SSL_CERT_DIR. http:// to a public address takes
--plain-http.

In /etc/fstab the flags are options: offline, remote, cache=DIR,
cache_size=SIZE, timeout=30s, download, plain_http. A mount at boot also wants
_netdev.`,
		Example: `  tensorfs info hf:ORG/NAME
  tensorfs mount https://HOST/model.gguf /mnt/m
  tensorfs fetch hf:ORG/NAME:Q4_K_M && tensorfs mount --offline hf:ORG/NAME:Q4_K_M /mnt/m`,
	}
}
