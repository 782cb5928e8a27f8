package server

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/tensorfs/tensorfs"
)

// secretEnv are the secrets that a server may be given through a pipe, by the names that Kubernetes and its tools have
// for them, and the variables that they are for the rest of the program.
var secretEnv = map[string]string{
	"token":             "HF_TOKEN",
	"accessKeyId":       "AWS_ACCESS_KEY_ID",
	"secretAccessKey":   "AWS_SECRET_ACCESS_KEY",
	"sessionToken":      "AWS_SESSION_TOKEN",
	"endpoint":          "AWS_ENDPOINT_URL",
	"region":            "AWS_REGION",
	".dockerconfigjson": "DOCKER_AUTH_CONFIG",
	"googleCredentials": "GOOGLE_CREDENTIALS",

	"azurestorageaccountname":     "AZURE_STORAGE_ACCOUNT",
	"azurestorageaccountkey":      "AZURE_STORAGE_KEY",
	"azurestorageaccountsastoken": "AZURE_STORAGE_SAS_TOKEN",
}

// maxSecrets bounds what is given at a time: Kubernetes keeps no larger ones.
const maxSecrets = 2 << 20

// takeSecrets waits for the first secrets at a named pipe and sets them only for this
// process. Secrets that are written there later replace them, for the next request to a
// server. It returns nil without a pipe.
func (s *Spec) takeSecrets(logger *slog.Logger) error {
	if s.Secrets == "" {
		return nil
	}
	wrong := func(err error) error { return fmt.Errorf("--secrets: %w", err) }
	// For writing too, so that it does not end with its writers. Opening a file never waits
	// for the other end.
	pipe, err := os.OpenFile(s.Secrets, os.O_RDWR|syscall.O_NONBLOCK, 0)
	if err != nil {
		return wrong(err)
	}
	st, err := pipe.Stat()
	if err == nil && st.Mode()&os.ModeNamedPipe == 0 {
		err = fmt.Errorf("%s is not a pipe; make one with mkfifo -m 600, and write a JSON object to it", tensorfs.Printable(s.Secrets))
	}
	lines := bufio.NewReaderSize(pipe, maxSecrets)
	if err == nil {
		err = setSecrets(lines)
	}
	if err != nil {
		pipe.Close()
		return wrong(err)
	}
	go func() {
		defer pipe.Close()
		for {
			if err := setSecrets(lines); errors.Is(err, errSecrets) {
				logger.Error("the secrets stay as they were", "error", err)
			} else if err != nil {
				logger.Error("no more secrets can be taken", "error", err)
				return
			} else {
				logger.Info("took other secrets")
			}
		}
	}()
	return nil
}

// errSecrets marks a line that is not what it should be. Errors say nothing of what it has.
var errSecrets = errors.New("want one JSON object a line, with texts for any of " + strings.Join(slices.Sorted(maps.Keys(secretEnv)), ", "))

// setSecrets takes a line, and with it all secrets: what it does not have is no more.
func setSecrets(lines *bufio.Reader) error {
	line, err := lines.ReadSlice('\n')
	for errors.Is(err, bufio.ErrBufferFull) { // to its end
		line = nil
		_, err = lines.ReadSlice('\n')
		if err == nil {
			return fmt.Errorf("%w: the line has more than %d bytes", errSecrets, maxSecrets)
		}
	}
	if err != nil {
		return err
	}
	var given map[string]string
	if json.Unmarshal(line, &given) != nil || given == nil {
		return errSecrets
	}
	for name, value := range given {
		if secretEnv[name] == "" || strings.ContainsRune(value, 0) {
			return errSecrets
		}
	}
	for name, variable := range secretEnv {
		value, ok := given[name]
		if !ok {
			os.Unsetenv(variable)
			continue
		}
		if err := os.Setenv(variable, value); err != nil {
			return errSecrets
		}
	}
	return nil
}
