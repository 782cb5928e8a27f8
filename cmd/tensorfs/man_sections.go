package main

// rootSections are in tensorfs(1) alone.
var rootSections = []struct {
	name  string
	items []manItem
}{
	{"ENVIRONMENT", []manItem{
		{"HF_HUB_CACHE", "The Hugging Face cache, where hf: names are looked up. Without it, it is hub in HF_HOME, or huggingface/hub in XDG_CACHE_HOME or in ~/.cache."},
		{"HF_HOME", "The directory of Hugging Face's programs."},
		{"XDG_CACHE_HOME", "The directory of caches, by default ~/.cache."},
		{"XDG_RUNTIME_DIR", "The directory of the user's session: a mount without a mount point of its own is in tensorfs there, and so is the state of NFS servers."},
		{"TMPDIR", "The directory of temporary files: NFS servers keep their state in tensorfs-UID there, where the session has no directory."},
		{"HOME", "The home directory, which ~ stands for here."},
		{"OLLAMA_MODELS", "The Ollama store, where ollama: names are looked up: a directory that holds manifests and blobs. Without it, the stores of the user and of Ollama's service are searched."},
		{"TENSORFS_CACHE", "The directory of the cache of remote files. Without it, it is tensorfs in XDG_CACHE_HOME or in ~/.cache."},
		{"TENSORFS_OFFLINE, HF_HUB_OFFLINE, TRANSFORMERS_OFFLINE", "1, ON, YES or TRUE is the same as --offline."},
		{"HF_TOKEN, HF_TOKEN_PATH, HF_HUB_DISABLE_IMPLICIT_TOKEN", "The token for the Hub, the file that has it, and 1 not to use that file."},
		{"HF_ENDPOINT", "The Hub that is asked."},
		{"DOCKER_CONFIG", "The directory with Docker's configuration, which has the credentials for oci:// names."},
		{"AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, AWS_REGION, AWS_DEFAULT_REGION, AWS_NO_SIGN_REQUEST", "For s3:// names, as AWS's own tools have them: the server, its region, and 1 to ask without credentials."},
		{"AWS_PROFILE, AWS_EC2_METADATA_SERVICE_ENDPOINT", "Where credentials for s3:// are found. AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and the others of AWS's own tools count too."},
		{"NETRC", "The file with users and passwords of servers, by default ~/.netrc."},
		{"HTTPS_PROXY, HTTP_PROXY, NO_PROXY, SSL_CERT_FILE, SSL_CERT_DIR", "Proxies and certificates for models on other machines."},
		{"container, KUBERNETES_SERVICE_HOST", "Set in containers: advice about /dev/fuse is then about the container's options."},
		{"NOTIFY_SOCKET", "Set by systemd: where mount -f says that the mount can be used."},
		{"JOURNAL_STREAM", "Set by systemd: tells that the messages of mount -f go to its journal, which may be stopped and come back."},
		{"LC_ALL, LC_CTYPE, LANG", "The first that is set says whether bars and histograms may be drawn with the characters of UTF-8."},
		{"GOMAXPROCS", "How many processors are used, by default all that the process may use."},
		{"SOURCE_DATE_EPOCH", "The date in the pages that tensorfs man writes, in seconds since 1970."},
	}},
	{"FILES", []manItem{
		{"~/.cache/huggingface/hub", "The Hugging Face cache."},
		{"~/.ollama/models, /usr/share/ollama/.ollama/models", "The Ollama stores."},
		{"/etc/fstab", "May mount models; see tensorfs-mount(1)."},
		{"/etc/fuse.conf", "With user_allow_other, ordinary users may use --allow-other."},
		{"/etc/tensorfs/NAME.conf", "Settings of the service tensorfs@NAME where the package has it: MODEL, MOUNTPOINT and OPTIONS."},
		{"/dev/fuse", "Has to be there for mounts. The module fuse makes it."},
		{"tensorfs/PORT.json, tensorfs/PORT.sock", "In the directory of the user's session, or in tensorfs-UID among temporary files: what tensorfs status and umount, and a server that follows, need to know of an NFS server. They are for its user alone."},
		{"DIR/.tensorfs-export", "What an export to DIR holds."},
	}},
}

// seeAlso lists pages of others that matter to a command.
var seeAlso = map[string]string{
	"tensorfs": "fusermount3(1) fuse(4) fstab(5) mount(8)",
	"mount":    "tensorfs-umount(1) tensorfs-status(1) tensorfs-serve(1) fusermount3(1) fstab(5) nfs(5) mount(8)",
	"umount":   "tensorfs-mount(1) tensorfs-status(1) umount(8)",
	"status":   "tensorfs-mount(1)",
	"serve":    "tensorfs-mount(1)",
	"ls":       "tensorfs-cat(1)",
	"cat":      "tensorfs-ls(1) tensorfs-export(1)",
	"export":   "tensorfs-ls(1) tensorfs-cat(1)",
}
