package cli

// words are the parts of messages that say something else on another system.
type words struct {
	NoJournal string
	Force     string // what umount -l does
	StillRuns string // why the server of an unmounted mount may keep running
}

// Messages has a row for every system.
var Messages = map[string]words{
	"linux": {
		NoJournal: "systemd's journal is not running here; name a file or syslog",
		Force:     "detach it with -l",
		StillRuns: "perhaps something has a copy of the mount, such as a container",
	},
	"darwin": {
		NoJournal: "macOS has no journal; name a file or syslog",
		Force:     "unmount it by force with -l",
		StillRuns: StillRead,
	},
}

const StillRead = "perhaps something still reads from it"
