package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// secretNames are the secrets that a server takes.
var secretNames = []string{"token", "accessKeyId", "secretAccessKey", "sessionToken", "endpoint", "region", ".dockerconfigjson", "googleCredentials", "azurestorageaccountname", "azurestorageaccountkey", "azurestorageaccountsastoken"}

// Secrets are what other machines ask for. They are in memory and in pipes, and nowhere else.
type secrets struct {
	line []byte // of JSON; may be nil
	sum  string // SHA-256 of it; "" for none
}

// String hides them: a secret that is printed by mistake is not shown.
func (s secrets) String() string { return "secrets" }

// GoString is String.
func (s secrets) GoString() string { return s.String() }

// readSecrets takes what a server understands of a secret of Kubernetes.
func readSecrets(given map[string]string) (secrets, error) {
	known := map[string]string{}
	for _, name := range secretNames {
		value, ok := given[name]
		if strings.ContainsRune(value, 0) {
			return secrets{}, status.Errorf(codes.InvalidArgument, "the secret's %s has a NUL", name)
		}
		if ok {
			known[name] = value
		}
	}
	if len(known) == 0 && len(given) > 0 {
		return secrets{}, status.Errorf(codes.InvalidArgument, "the secret has none of %s", strings.Join(secretNames, ", "))
	}
	if len(known) == 0 {
		return secrets{}, nil
	}
	line, err := json.Marshal(known) // sorted by name
	if err != nil {
		return secrets{}, status.Error(codes.InvalidArgument, "the secret is not text")
	}
	sum := sha256.Sum256(line)
	return secrets{append(line, '\n'), hex.EncodeToString(sum[:])}, nil
}

// pipeTime is how long a server may take to take a line. It is there, and does nothing else with its pipe.
const pipeTime = 10 * time.Second

// makePipe makes a named pipe that only this user can open, and leaves one that is there.
func makePipe(path string) error {
	if err := unix.Mkfifo(path, 0o600); err != nil && !errors.Is(err, unix.EEXIST) {
		return &os.PathError{Op: "mkfifo", Path: path, Err: err}
	}
	st, err := os.Lstat(path)
	if err == nil && st.Mode().Type() != os.ModeNamedPipe {
		err = fmt.Errorf("%s is not a pipe", path)
	}
	return err
}

// pass gives a running server other secrets. It does not wait for a server that is gone.
func (s secrets) pass(path string) error {
	pipe, err := os.OpenFile(path, os.O_WRONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer pipe.Close()
	return s.write(pipe)
}

func (s secrets) write(pipe *os.File) error {
	if err := pipe.SetWriteDeadline(time.Now().Add(pipeTime)); err != nil {
		return err
	}
	_, err := pipe.Write(s.line)
	return err
}

// agree reports whether all of some records were published with secrets of that sum.
func agree(records []record, sum string) bool {
	return !slices.ContainsFunc(records, func(r record) bool { return r.Secrets != sum })
}
