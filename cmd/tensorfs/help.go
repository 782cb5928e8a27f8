package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/tensorfs/tensorfs/internal/term"
)

// layOutHelp makes help begin with the usage and the examples, which are what most look
// for. The flags for models on other machines, which nearly all commands have, are named
// there and described once, in the text about these.
func layOutHelp(root *cobra.Command) {
	cobra.AddTemplateFunc("ownFlags", func(all *pflag.FlagSet) string { return flagUsages(all, false) })
	cobra.AddTemplateFunc("remoteFlags", func(all *pflag.FlagSet) string {
		var names []string
		all.VisitAll(func(f *pflag.Flag) {
			if f.Annotations[inGroup] != nil && !f.Hidden {
				names = append(names, "--"+f.Name)
			}
		})
		if names == nil {
			return ""
		}
		return strings.Join(term.Wrap("For models on other machines, see tensorfs help remote: "+strings.Join(names, ", "), term.Columns, 0), "\n")
	})
	const flags, subcommands = "{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}", "{{if .HasAvailableSubCommands}}{{$cmds"
	usage := strings.Replace(root.UsageTemplate(), flags, "{{ownFlags .LocalFlags}}{{with remoteFlags .LocalFlags}}\n\n{{.}}{{end}}", 1)
	usage = strings.ReplaceAll(usage, ".FlagUsages |", fmt.Sprintf(".FlagUsagesWrapped %d |", term.Columns))
	root.SetUsageTemplate(usage)
	at := strings.Index(usage, subcommands)
	const ifCommand, end = "{{if or .Runnable .HasSubCommands}}", "{{end}}"
	root.SetHelpTemplate(ifCommand + usage[:at] + "\n\n" + end + "{{or .Long .Short | trimTrailingWhitespaces}}\n" + ifCommand + usage[at:] + end)
}

// flagUsages describes flags: those for models on other machines, or all others.
func flagUsages(all *pflag.FlagSet, remote bool) string {
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	set.SortFlags = all.SortFlags
	all.VisitAll(func(f *pflag.Flag) {
		if (f.Annotations[inGroup] != nil) == remote {
			set.AddFlag(f)
		}
	})
	return strings.TrimRight(set.FlagUsagesWrapped(term.Columns), " \n")
}

// commandGroups are the commands as help lists them.
var commandGroups = []struct{ title, commands string }{
	{"Look into models:", "info ls cat stat diff verify list"},
	{"Mount models:", "mount umount status serve"},
	{"Keep files of models:", "export fetch cache"},
	{"About tensorfs itself:", "completion help man version"},
}

// groupCommands makes help list the commands by what they are for.
func groupCommands(root *cobra.Command) {
	for _, g := range commandGroups {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for name := range strings.FieldsSeq(g.commands) {
			if c, _, err := root.Find([]string{name}); err == nil && c != root {
				c.GroupID = g.title
			}
		}
	}
	root.SetHelpCommandGroupID(commandGroups[len(commandGroups)-1].title)
}

// remoteTopic is a text for tensorfs help.
func remoteTopic() *cobra.Command {
	var flags remoteFlags
	c := &cobra.Command{
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
tensorfs fetch MODEL brings in all of it and compares it with its digests; until
then only files of up to 16 MiB are, and tensorfs info says "not verified".

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
	flags.add(c)
	c.Long += "\n\nThe flags of all these commands:\n\n" + flagUsages(c.Flags(), true)
	c.ResetFlags()
	return c
}
