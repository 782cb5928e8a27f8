package mounts

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// TestCheckOptions: what is done with options of fstab.
func TestCheckOptions(t *testing.T) {
	for opt, want := range map[string]string{
		"kernel_cache": "", "big_writes": "", "async_read": "", "x-systemd.automount": "", "_netdev": "", "noatime": "", "umask=0": "", "uid=0": "", "allow_other": "",
		"nonsense": `unknown mount option "nonsense"`, "uid": `unknown mount option "uid"`, "ro=1": "unknown", "context": "unknown", "context=": "unknown", `context=""`: "unknown", "remount": "cannot be changed",
		"context=system_u:object_r:container_file_t:s0": "", "nosymfollow": "", "iversion": "", "mand": "",
		"uid=root": "the number that id -u prints", "gid=-1": "id -g", "umask=8": "octal", "umask=7777": "octal",
		"allow_root": "use allow_other", "auto_unmount": "leave it out", "subtype=x": "the type of the mount is fuse.tensorfs", "fsname=x": "the source of the mount is the model",
	} {
		_, err := CheckOptions([]string{opt})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", opt, err, want)
		}
		if errors.Is(err, ErrUnknownOption) != strings.Contains(want, "unknown") {
			t.Errorf("%s: %v", opt, err)
		}
	}
	useful, err := CheckOptions([]string{"ro", "noatime", "nofail", "umask=027", "x-a", "allow_other"})
	if want := []string{"noatime", "umask=027", "allow_other"}; err != nil || !slices.Equal(useful, want) {
		t.Errorf("%q, %v; want %q", useful, err, want)
	}
}

func TestParseOptions(t *testing.T) {
	for _, c := range []struct {
		extra       string
		flags, data string
		fails       bool
	}{
		{extra: "rw"},
		{extra: "defaults,noauto,x-systemd.automount,_netdev,comment=x,user=me,suid,dev,exec"},
		{extra: "noatime,allow_other", flags: "noatime", data: "allow_other,default_permissions"},
		{extra: "default_permissions", data: "default_permissions"},
		{extra: "default_permissions,allow_other", data: "default_permissions,allow_other"},
		{extra: "nosymfollow,iversion,nomand", flags: "nosymfollow"},
		{extra: `fscontext=a:b:c:s0,rootcontext="a:b:c:s0:c1,c2",noatime`, flags: "noatime", data: `fscontext=a:b:c:s0,rootcontext="a:b:c:s0:c1,c2"`},
		{extra: `context="a:b,ro`, fails: true},
		{extra: `context=a"b,c"d`, fails: true},
		{extra: "fd=7", fails: true},
		{extra: "", fails: true},
	} {
		o, err := ParseOptions(SplitOptions(c.extra))
		if strings.Join(o.Flags, ",") != c.flags || strings.Join(o.Data, ",") != c.data || (err != nil) != c.fails {
			t.Errorf("%q: %+v, %v", c.extra, o, err)
		}
	}
}
