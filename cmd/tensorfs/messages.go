package main

// words are the parts of messages that say something else on another system.
type words struct {
	noJournal string
	force     string // what umount -l does
	stillRuns string // why the server of an unmounted mount may keep running
}

// messages has a row for every system.
var messages = map[string]words{
	"linux": {
		noJournal: "systemd's journal is not running here; name a file or syslog",
		force:     "detach it with -l",
		stillRuns: "perhaps something has a copy of the mount, such as a container",
	},
	"darwin": {
		noJournal: "macOS has no journal; name a file or syslog",
		force:     "unmount it by force with -l",
		stillRuns: stillRead,
	},
}

const stillRead = "perhaps something still reads from it"
