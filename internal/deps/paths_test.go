package deps

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// byPath are functions that follow a path by its name: what has it at that moment, and not
// what was there when it was checked.
var byPath = map[string]string{
	module + "/internal/source": "Map Abs ReadRegular StoredDigest",
	"path/filepath":             "EvalSymlinks",
	"os":                        "Stat Open OpenFile ReadFile ReadDir DirFS OpenRoot Lchown Chown",
	"golang.org/x/sys/unix":     "Open Stat Mount Chown Lchown",
	"syscall":                   "Open Stat Mount Chown Lchown",
}

// strangers are the directories, and all below, whose packages serve what others made: models,
// exports, recipes, adapters, stores of other users, attributes of volumes.
var strangers = []string{"formats", "views", "fs", "metal", "internal/source", "internal/environ", "internal/convert", "internal/compare", "internal/memory", "internal/export", "internal/stores", "internal/mounts", "internal/server", "internal/verify", "internal/describe", "internal/diff", "internal/stat", "cmd/tensorfs", "cmd/tensorfs-csi"}

// Reasons of more than one exception.
const (
	ownFile      = "the user of a command names the file, and is shown no more than they may read"
	ownOutput    = "the user of a command names where it is written; nothing of it is shown to others"
	systemFile   = "it belongs to the kernel or the system"
	mountPoint   = "it is the mount point, which its user names, or is compared with it"
	labelOnly    = "the path is a label, and nothing is opened by it"
	anywhereOnly = "only for a user who is shown no more than they may read: see source.Anywhere"
	listing      = "names and sizes of a library are listed by path; its models are opened below a handle"
	ownSettings  = "the user's own settings, read for what they name; nothing of them is shown to others"
	driversOwn   = "it is in the driver's own directory, which belongs to root"
	inWork       = "it is not held to the rule yet"
)

// pathUses are the exceptions, by the file and the called function: the number of calls there, and
// why their path is not a stranger's, or does no harm. There may be fewer calls.
var pathUses = map[string]struct {
	n   int
	why string
}{
	"cmd/tensorfs-csi/attributes.go unix.Open":       {1, "where it leads is asked of the handle; a server checks by its own handles what it opens"},
	"cmd/tensorfs-csi/driver.go os.OpenFile":         {1, systemFile},
	"cmd/tensorfs-csi/found.go os.ReadFile":          {1, systemFile},
	"cmd/tensorfs-csi/found.go os.Stat":              {1, systemFile},
	"cmd/tensorfs-csi/main.go filepath.EvalSymlinks": {1, driversOwn},
	"cmd/tensorfs-csi/main.go os.OpenFile":           {1, driversOwn},
	"cmd/tensorfs-csi/mounts.go os.ReadFile":         {1, systemFile},
	"cmd/tensorfs-csi/mounts.go unix.Mount":          {2, "both ends are handles, by their names in /proc/self/fd"},
	"cmd/tensorfs-csi/notify.go os.OpenFile":         {1, driversOwn},
	"cmd/tensorfs-csi/publish.go os.OpenRoot":        {1, driversOwn},
	"cmd/tensorfs-csi/secrets.go os.OpenFile":        {1, driversOwn},
	"cmd/tensorfs-csi/servers.go os.OpenFile":        {1, driversOwn},
	"cmd/tensorfs-csi/servers.go os.ReadFile":        {1, systemFile},
	"cmd/tensorfs-csi/servers.go os.Stat":            {1, "the program beside the driver"},
	"cmd/tensorfs-csi/start.go os.ReadDir":           {1, driversOwn},
	"cmd/tensorfs-csi/state.go os.OpenFile":          {1, driversOwn},
	"cmd/tensorfs-csi/state.go os.ReadFile":          {1, driversOwn},
	"cmd/tensorfs-csi/warm.go os.Open":               {1, "what is read is shown to nobody; it is a file of a server's mount"},

	"cmd/tensorfs/cat.go os.Open":                         {1, ownFile},
	"cmd/tensorfs/completion_names.go os.ReadDir":         {1, ownFile},
	"cmd/tensorfs/completion_names.go os.Stat":            {1, ownFile},
	"internal/server/daemon.go os.OpenFile":               {1, systemFile},
	"internal/server/daemon.go os.ReadDir":                {1, systemFile},
	"internal/verify/digest.go source.Map":                {2, ownFile},
	"internal/verify/digest.go source.StoredDigest":       {1, ownFile},
	"cmd/tensorfs/export.go os.Stat":                      {1, ownFile},
	"internal/server/handover.go os.Open":                 {1, systemFile},
	"cmd/tensorfs/keep.go os.Stat":                        {1, "only the size and the time of --imatrix are read, which tell one tree from another"},
	"internal/server/log.go os.OpenFile":                  {1, ownOutput},
	"cmd/tensorfs/mount_library.go filepath.EvalSymlinks": {1, "it compares two paths that the user names"},
	"cmd/tensorfs/report.go os.OpenFile":                  {1, ownOutput},
	"cmd/tensorfs/report.go os.Stat":                      {1, ownOutput},
	"internal/server/secrets.go os.OpenFile":              {1, "the pipe of the one who starts the server"},
	"cmd/tensorfs/umount.go os.ReadFile":                  {1, systemFile},
	"cmd/tensorfs/usage.go os.Open":                       {1, systemFile},

	"formats/library/forms.go source.ReadRegular":    {2, listing},
	"formats/library/library.go os.Stat":             {1, listing},
	"formats/library/model.go source.ReadRegular":    {1, listing},
	"formats/library/pipeline.go source.ReadRegular": {1, listing},
	"formats/library/stores.go os.Stat":              {1, listing},
	"formats/library/watch.go os.OpenFile":           {1, listing},
	"formats/library/watch.go os.Stat":               {2, listing},
	"formats/library/watch.go source.ReadRegular":    {1, listing},

	"formats/ollama/store.go source.Abs": {1, "it finds by the letters of a path which store a manifest is in; the store is opened as any path that the user names"},

	"fs/apart_linux.go unix.Open": {1, systemFile},

	"fs/images_linux.go unix.Open": {1, systemFile},
	"fs/passed_linux.go unix.Open": {1, "it is a handle, by its name in /proc/self/fd"},

	"fs/signals_linux.go os.ReadFile": {1, systemFile},

	"internal/mounts/device_linux.go os.ReadFile":           {1, systemFile},
	"internal/mounts/fuse_linux.go os.ReadFile":             {1, systemFile},
	"internal/mounts/fuse_linux.go unix.Mount":              {1, mountPoint},
	"internal/mounts/fuse_linux.go unix.Open":               {1, systemFile},
	"internal/mounts/path.go filepath.EvalSymlinks":         {1, mountPoint},
	"internal/mounts/point.go os.Stat":                      {1, mountPoint},
	"internal/mounts/point_hidden.go filepath.EvalSymlinks": {1, mountPoint},
	"internal/mounts/point_hidden.go os.Open":               {1, mountPoint},
	"internal/mounts/point_hidden.go os.ReadFile":           {1, systemFile},
	"internal/mounts/point_linux.go unix.Open":              {2, mountPoint},
	"internal/mounts/processes_linux.go os.ReadDir":         {1, systemFile},
	"internal/mounts/processes_linux.go os.ReadFile":        {3, systemFile},
	"internal/mounts/system_darwin.go unix.Open":            {1, mountPoint},
	"internal/mounts/table_linux.go os.ReadFile":            {1, systemFile},

	"internal/source/ahead_linux.go os.ReadFile":         {1, systemFile},
	"internal/source/confine.go os.Open":                 {1, "the directory that a server is confined to, which its administrator names"},
	"internal/source/dir.go filepath.EvalSymlinks":       {1, labelOnly},
	"internal/source/dir.go os.OpenFile":                 {1, anywhereOnly},
	"internal/source/dir.go os.Stat":                     {1, anywhereOnly},
	"internal/source/record.go os.Stat":                  {1, "when the user's own file was written"},
	"formats/remote/repair.go source.ReadRegular":        {1, "the user's own cache, for the commit that a revision is here"},
	"formats/remote/repair.go os.Stat":                   {1, "whether a store has a blob; what is there is only hashed"},
	"internal/environ/aws.go source.ReadRegular":         {1, ownSettings},
	"internal/environ/huggingface.go source.ReadRegular": {1, ownSettings},
	"internal/environ/lmstudio.go source.ReadRegular":    {2, ownSettings},
	"internal/environ/lmstudio.go os.ReadDir":            {2, "the user's own store, for completion"},
	"internal/source/direct/read_linux.go unix.Open":     {1, "it is a handle, by its name in /proc/self/fd"},
	"internal/source/local.go filepath.EvalSymlinks":     {1, "it is Abs"},
	"internal/source/local.go os.Stat":                   {1, "it is HasDir, which tells only whether a directory is there"},
	"internal/source/mapped.go os.OpenFile":              {1, "it is Map"},
	"internal/source/stored.go filepath.EvalSymlinks":    {1, "it is StoredDigest, which reads no file"},
	"internal/source/stored.go os.OpenFile":              {1, "it is ReadRegular"},
	"internal/source/walk.go os.OpenRoot":                {1, "the directory is compared with the handle by which it was found"},
	"internal/source/written_linux.go os.ReadFile":       {1, systemFile},

	"metal/kept.go filepath.EvalSymlinks": {1, "what has the path counts only if it is the file that the model has open"},
	"metal/kept.go os.OpenRoot":           {1, "the user's own cache"},
	"metal/kept.go source.StoredDigest":   {1, "as above"},
	"metal/kept.go unix.Stat":             {1, "as above"},

	"metal/system_linux.go os.ReadFile": {1, systemFile},

	"formats/models/merged/path.go source.ReadRegular": {1, anywhereOnly},
}

// pathCalls counts the calls of a file's code of functions of byPath.
func pathCalls(t *testing.T, file string) map[string]int {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	imported := map[string]string{}
	for _, spec := range f.Imports {
		of, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		name := path.Base(of)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		imported[name] = of
	}
	calls := map[string]int{}
	ast.Inspect(f, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := s.X.(*ast.Ident); ok && slices.Contains(strings.Fields(byPath[imported[x.Name]]), s.Sel.Name) {
			calls[path.Base(imported[x.Name])+"."+s.Sel.Name]++
		}
		return true
	})
	return calls
}

// TestPaths: a path that another user or program chose is resolved once, below the handle of a
// directory (internal/source Directory, os.Root), and from then on only the handle is used. So
// packages that serve other users' files follow paths by their names only with a reason.
func TestPaths(t *testing.T) {
	root := filepath.Join("..", "..")
	found := map[string]int{}
	for _, top := range strangers {
		err := filepath.WalkDir(filepath.Join(root, top), func(p string, d os.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), "test") && d.Name() != "testdata"):
				return filepath.SkipDir
			case d.IsDir() || !strings.HasSuffix(p, ".go") || strings.HasSuffix(p, "_test.go"):
				return nil
			}
			rel, err := filepath.Rel(root, p)
			if err != nil {
				return err
			}
			for call, n := range pathCalls(t, p) {
				found[filepath.ToSlash(rel)+" "+call] = n
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for use, n := range found {
		if x := pathUses[use]; x.n != n && (x.why != inWork || n > x.n) {
			t.Errorf("%s: %d calls, and %d have a reason: use a handle, or say in internal/deps whose path it is", use, n, x.n)
		}
	}
	for use, x := range pathUses {
		if found[use] == 0 && x.why != inWork {
			t.Errorf("%s: nothing calls it there: take the exception out of internal/deps", use)
		}
		if x.why == "" {
			t.Errorf("%s: no reason", use)
		}
	}
}

// TestPathCalls holds that the test can fail.
func TestPathCalls(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.go")
	text := `package x
import ("os"; paths "path/filepath"; "github.com/tensorfs/tensorfs/internal/source"; "golang.org/x/sys/unix")
func f() { os.Stat(""); os.Lstat(""); paths.EvalSymlinks(""); paths.Join(); source.Map("", ""); source.Dir("", true); unix.Mount("", "", "", 0, ""); open := os.Open; open("") }`
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	want := map[string]int{"os.Stat": 1, "filepath.EvalSymlinks": 1, "source.Map": 1, "unix.Mount": 1, "os.Open": 1}
	if calls := pathCalls(t, file); !maps.Equal(calls, want) {
		t.Errorf("%v, want %v", calls, want)
	}
}
