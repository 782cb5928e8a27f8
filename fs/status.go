package fs

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// probeTime is how long a server may take to answer before it counts as hung.
const probeTime = 2 * time.Second

// ErrHung says that the server of a mount is there and takes more than two
// seconds to answer: it was stopped, or waits for the disk of the model.
var ErrHung = errors.New("its server does not answer")

// Status is what the server of a mount says about itself.
type Status struct {
	PID    int
	Hot    *HotStatus  // nil without Options.Hot
	Warm   *WarmStatus // nil without Options.Warm
	Health Health
	// Library is nil where a single tree is mounted.
	Library *LibraryStatus
}

// Status asks the server of a mount, which may be another process. An error
// means that it is gone (it wraps syscall.ENOTCONN), does not answer in time or
// lets only its owner in.
func (m MountInfo) Status() (Status, error) {
	type answer struct {
		s   Status
		err error
	}
	c := make(chan answer, 1)
	go func() { // if the server hangs, this goroutine remains until the server ends
		if m.token != "" {
			s, err := m.askLoopback()
			c <- answer{s, err}
			return
		}
		s, err := ask(m.Mountpoint)
		c <- answer{s, err}
	}()
	select {
	case a := <-c:
		if a.err != nil {
			return Status{}, fmt.Errorf("%s: %w", m.Mountpoint, a.err)
		}
		return a.s, nil
	case <-time.After(probeTime):
		return Status{}, fmt.Errorf("%s: %w", m.Mountpoint, ErrHung)
	}
}

func ask(mountpoint string) (Status, error) {
	var s Status
	buf := make([]byte, 64<<10)
	n, err := unix.Getxattr(mountpoint, pidAttr, buf)
	if err != nil {
		return s, err
	}
	if s.PID, err = strconv.Atoi(string(buf[:n])); err != nil {
		return s, fmt.Errorf("%s: %w", pidAttr, err)
	}
	if _, err := askJSON(mountpoint, healthAttr, buf, &s.Health); err != nil {
		return s, err
	}
	var hot HotStatus
	if found, err := askJSON(mountpoint, hotAttr, buf, &hot); err != nil {
		return s, err
	} else if found {
		s.Hot = &hot
	}
	var warm WarmStatus
	if found, err := askJSON(mountpoint, warmAttr, buf, &warm); err != nil {
		return s, err
	} else if found {
		s.Warm = &warm
	}
	var library LibraryStatus
	if found, err := askJSON(mountpoint, libraryAttr, buf, &library); err != nil {
		return s, err
	} else if found {
		s.Library = &library
	}
	return s, nil
}

// WarmStatus says how far a model was read ahead.
type WarmStatus struct {
	View  string `json:"view"`
	Done  int64  `json:"done"` // bytes
	Total int64  `json:"total"`
	Ended string `json:"ended,omitempty"` // why it ended before all was done
}

func (w WarmStatus) value() []byte {
	b, _ := json.Marshal(w) // numbers and texts
	return b
}

// askJSON reads an attribute into v and reports whether the server has it.
func askJSON(mountpoint, name string, buf []byte, v any) (found bool, err error) {
	n, err := unix.Getxattr(mountpoint, name, buf)
	if err != nil {
		return false, nil
	}
	if err := json.Unmarshal(buf[:n], v); err != nil {
		return false, fmt.Errorf("%s: %w", name, err)
	}
	return true, nil
}
