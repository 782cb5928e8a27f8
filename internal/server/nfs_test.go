package server

import (
	"strings"
	"testing"
)

func TestNFSCommand(t *testing.T) {
	const token = "00112233445566778899aabbccddeeff"
	program, args := NFSClients["darwin"].command(2050, token, "/m")
	const want = "/sbin/mount_nfs -o rdonly,nosuid,nodev,noexec,nobrowse,vers=3,tcp,rsize=1048576,readahead=16,dsize=65536,rdirplus,locallocks,actimeo=3600,soft,intr,timeo=100,retrans=3,deadtimeout=60,noresvport,port=2050,mountport=2050 127.0.0.1:/" + token + " /m"
	if got := program + " " + strings.Join(args, " "); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}
