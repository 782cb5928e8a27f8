package deps

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/tensorfs/tensorfs"

// rule lists what a package may import from this module. "root" is the module's own package, "all"
// means every package.
type rule struct {
	imports string
	tests   string // what its tests may import beyond that
	why     string // no more than that
}

// everyTest has the packages that the tests of every package may import. They import
// nothing of this module.
var everyTest = []string{"internal/testing/testlimit", testpack}

// testpack makes the weights of testdata.
const testpack = "internal/testing/testpack"

// rules has a line for every package, by its directory. Arrows point down only.
var rules = map[string]rule{
	".": {"", "internal/testing/datatest formats views", "the vocabulary is what all others share: what it imported, everything would depend on"},

	"internal/source/readahead":          {"", "", "it knows reads and no files, so that local and remote files may use it"},
	"internal/source/direct":             {"internal/source/readahead", "", "it reads any open file, and knows neither what is in it nor whether it changed"},
	"internal/source":                    {"root internal/source/direct internal/source/readahead", "internal/testing/memory internal/testing/testmount internal/testing/testslow internal/testing/testwatch", "files are Data and know nothing of what is in them"},
	"internal/environ":                   {"root internal/source", "", "it reads settings, whoever needs them"},
	"internal/testing/memory":            {"root internal/source", "", "files in memory, for tests of parsers"},
	"internal/parallel":                  {"internal/rescue", "", "it runs functions, whatever they do"},
	"internal/opendir":                   {"root", "", "it makes files and gives them names, whatever they are of"},
	"internal/rescue":                    {"root", "", "it makes errors of panics, whatever panicked"},
	"internal/conceal":                   {"root", "", "it changes texts, whoever shows them"},
	"internal/near":                      {"root", "", "it compares and lists names, whatever they are of"},
	"internal/web":                       {"root internal/conceal internal/source/readahead internal/source internal/cache", "internal/testing/datatest", "it reads files of servers, whatever protocol names them and whatever is in them"},
	"internal/remote":                    {"root internal/opendir internal/parallel internal/source internal/cache internal/web formats/gguf", "", "it lists files of servers for parsers, and knows no protocol; of models it knows how the files of a split one are called"},
	"internal/remote/hub":                {"root internal/environ internal/opendir internal/source internal/cache internal/web internal/remote", "internal/testing/testhub internal/testing/testremote", "it knows the Hub, and not what is in the files that it lists"},
	"internal/remote/ollama":             {"root internal/cache internal/web internal/remote internal/remote/hub formats/ollama", "internal/testing/testhub internal/testing/testremote", "it lists a registry's blobs as a store of Ollama, whose names and manifests formats/ollama knows; the Hub is one of the registries, and has a token"},
	"internal/remote/plain":              {"root internal/conceal internal/environ internal/source internal/parallel internal/cache internal/remote internal/web formats/gguf", "internal/testing/testweb internal/testing/testremote", "it finds files by their addresses; of models it knows how the files of a split one are called"},
	"internal/testing/testhub":           {"", "", "it answers as the servers of others do, whatever asks"},
	"internal/testing/testnumbers":       {"", "", "it makes numbers, whatever quantises them"},
	"internal/testing/testweb":           {"", "", "it serves bytes, whoever asks and whatever they are"},
	"internal/remote/ms":                 {"root internal/jsonobj internal/cache internal/remote internal/web", "internal/testing/testremote", "it asks ModelScope for repositories; what is in them, parsers see"},
	"internal/remote/gs":                 {"root internal/environ internal/source internal/jsonobj internal/cache internal/remote internal/remote/bearer internal/web", "internal/testing/testremote", "it names objects of Google's buckets, and has tokens to ask for them; what they are of, parsers see"},
	"internal/remote/bearer":             {"root internal/remote internal/web", "", "it keeps tokens, whichever cloud gives them"},
	"internal/remote/az":                 {"root internal/environ internal/source internal/cache internal/remote internal/remote/bearer internal/web", "internal/testing/testremote", "it names blobs of Azure's containers, and signs requests for them; what they are of, parsers see"},
	"internal/remote/s3":                 {"root internal/environ internal/source internal/cache internal/remote internal/web", "internal/testing/testremote formats formats/gguf", "it names objects of buckets and signs requests for them; what they are of, parsers see"},
	"internal/remote/oci":                {"root internal/jsonobj internal/cache internal/remote internal/web", "internal/testing/testmodel internal/testing/testremote formats", "it names layers of artifacts and logs in for them; what they are of, parsers see"},
	"internal/cache":                     {"root", "", "it keeps bytes of files that are elsewhere, and directories; how they are fetched and what is in them is for others"},
	"internal/jsonobj":                   {"root", "", "it reads JSON, for parsers of any format"},
	"internal/testing/datatest":          {"root", "", "it holds Data of any package to its contract, for the tests of all"},
	"internal/testing/testclient":        {"", "", "it runs libraries of others, for the tests of any package"},
	"internal/testing/testnfs":           {"", "", "it is a client of NFS servers, which knows the protocol by itself"},
	"internal/testing/testmirror":        {"internal/testing/testlimit internal/testing/testremote", "", "it starts what people put before the Hub, whoever asks that"},
	"internal/testing/testremote":        {"root internal/testing/testlimit internal/cache internal/web internal/remote internal/testing/testmodel formats views", "", "it opens models as commands do, for the tests of protocols"},
	"internal/testing/testslow":          {"", "", "a slow disk is nothing of ours"},
	"internal/testing/testslow/slowdisk": {"internal/testing/testslow", "", "it shows a slow disk to other programs"},
	"internal/testing/testmount":         {"", "", "it asks what the system allows, for the tests of any package"},
	"internal/testing/testturn":          {"", "", "it measures any code, for the benchmarks of any package"},
	"internal/testing/testlimit":         {"", "", "it measures any code, so that the tests of any package may use it"},
	"internal/testing/testpack":          {"", "", "it makes files that the tests of any package read"},
	"internal/testing/testpack/pack":     {"internal/testing/testpack", "", "it writes recipes for testpack, and must read weights without the code that is tested with them"},
	"internal/testing/testwhole":         {"root formats formats/gguf internal/testing/memory internal/testing/testclient internal/testing/testmodel internal/testing/testpack views", "", "it opens golden models for the tests of whole ones"},
	"internal/testing/testoptions":       {"root formats/models", "", "it reads tables of options, for the tests of every program that has them"},
	"internal/testing/testwatch":         {"", "", "it makes a place where nobody may watch files, whatever is tested there"},
	"internal/testing/testmodel":         {"root", "", "it writes models for the tests of all parsers, so it must not read with one"},
	"internal/fewfiles":                  {"", "", "it has to be initialised before everything that opens a file"},
	"internal/sizes":                     {"", "", "it reads what people write, for whatever has a size"},
	"internal/cli":                       {"root internal/conceal internal/sizes", "", "it reads and prints for all commands, and knows no command and no model"},
	"internal/cli/theirs":                {"internal/conceal", "", "it knows the words of other programs, and no command here"},
	"internal/cli/manual":                {"root", "", "it makes pages of any command's help texts and flags"},
	"internal/deps":                      {"", "", "it looks at all packages from outside"},
	"views/kernel":                       {"", "internal/testing/testnumbers", "decoders know bytes alone, so that they can be tested and replaced block by block"},
	"formats/images":                     {"", "", "what image models are called is a fact about other projects, as names are"},
	"formats/names":                      {"formats/images", "", "names are facts about other projects; they hold whatever this module does"},
	"formats/architectures":              {"formats/names", "", "descriptions are facts about other projects; which model they are asked for is for those who ask"},
	"formats/config":                     {"root formats/architectures formats/names", "", "one schema for all formats must not know a single one of them"},
	"internal/assemble":                  {"root formats/architectures formats/images internal/jsonobj formats/names formats/config", "", "it puts together what any parser found, so it must not know one of them"},
	"formats/gguf":                       {"root internal/source formats/foreign formats/names formats/config internal/assemble", "internal/testing/testmodel internal/testing/memory", "a parser knows its own format and no view: siblings meet in formats alone; a shard of a split model may be something else, which only the parser sees"},
	"formats/pick":                       {"root internal/near formats/gguf formats/images", "", "it chooses among names, wherever the files are, and opens none"},
	"formats/packing":                    {"root", "internal/testing/datatest formats/safetensors internal/testing/memory", "it makes numbers of tensors, whatever file they are in and whatever shows them"},
	"formats/safetensors":                {"root internal/source", "internal/testing/testmodel internal/testing/memory", "it reads one file and gives source names; what a model is, hf and ollama know"},
	"formats/adapter":                    {"root internal/jsonobj internal/source", "internal/testing/testmodel internal/testing/memory", "it says what an opened adapter adds; opening it, and the model that it is for, is the business of others"},
	"formats/hf":                         {"root internal/source internal/jsonobj formats/adapter formats/images formats/names formats/config internal/assemble formats/safetensors formats/foreign formats/packing", "internal/testing/testmodel internal/testing/memory", "its files are safetensors files, and nothing else"},
	"formats/ollama":                     {"root internal/environ internal/source internal/near internal/jsonobj formats/names formats/config internal/assemble formats/safetensors formats/gguf", "internal/testing/testmodel internal/testing/memory", "its blobs are safetensors or GGUF files, and nothing else"},
	"formats/exported":                   {"root internal/source internal/jsonobj formats/config internal/assemble", "all", "it reads what views describe in index.json, and makes no view: its tensors are files"},
	"formats/imatrix":                    {"root formats/gguf", "", "it reads one kind of file, whose newer form is a GGUF file; what is made by it is for views"},
	"formats/recipe":                     {"root internal/near", "", "it reads a text and names tensors, and opens no model"},
	"formats/foreign":                    {"root", "", "it knows the first bytes and the names of what is not read, and nothing of what is"},
	"formats/hub":                        {"root internal/environ internal/source internal/near formats/pick", "", "it finds the files of a name; which format they have, formats finds out"},
	"formats":                            {"root internal/environ internal/source internal/near internal/rescue formats/adapter formats/images formats/pick formats/hub formats/foreign formats/gguf formats/safetensors formats/hf formats/ollama formats/exported", "internal/testing/testmodel internal/testing/memory internal/testing/testhub internal/cache internal/web internal/remote internal/remote/hub internal/remote/ollama views", "it only chooses a parser"},
	"formats/remote":                     {"root internal/conceal internal/environ internal/source internal/cache internal/web internal/remote internal/remote/hub internal/remote/ollama internal/remote/oci internal/remote/s3 internal/remote/gs internal/remote/az internal/remote/ms internal/remote/plain formats formats/hub formats/pick formats/ollama", "internal/testing/testhub internal/testing/testmodel internal/testing/testweb views", "it introduces protocols, connections and the cache to formats, for programs and commands; what a model is and how it is shown is not its business"},
	"formats/models":                     {"root internal/conceal internal/near internal/rescue internal/source formats formats/imatrix formats/library formats/ollama formats/pick views views/lora views/tree internal/convert internal/convert/hf internal/convert/preset formats/models/merged", "all", "it opens a model with what users ask of it, for every program; which servers there are, and how flags are written, it is told"},
	"views":                              {"root views/kernel", "internal/source internal/testing/testmodel internal/testing/datatest", "views compose Data; one that knew a format or opened a file would be a parser"},
	"internal/nfsstate":                  {"root", "internal/testing/testnfs", "it finds servers by the files that they leave; what they serve and where it is mounted is for others"},
	"internal/mounts":                    {"root internal/nfsstate", "internal/testing/testnfs", "it asks and tells the kernel about mounts, whatever is mounted and whoever serves it"},
	"fs/internal/erofs":                  {"", "", "it lays out files by their sizes, whatever they hold"},
	"internal/keep":                      {"", "", "it keeps descriptors, whatever they are of"},
	"internal/memlimit":                  {"internal/mounts", "", "it knows memory and not what it is for; control groups are found in the table of mounts"},
	"internal/server/loopback":           {"root internal/nfsstate internal/mounts internal/memlimit", "internal/testing/testnfs", "it mounts what its caller serves, whatever that is"},
	"fs":                                 {"root fs/internal/erofs internal/mounts internal/memlimit", "internal/nfsstate internal/source internal/testing/testmodel internal/testing/testmount internal/testing/testwatch", "the file system serves names and Data and knows nothing of models"},
	"views/mix":                          {"root views views/kernel", "formats internal/testing/testturn", "it computes numbers of tensors, whatever models they are of and whoever names them"},
	"formats/models/merged":              {"root internal/jsonobj internal/source formats formats/hub formats/recipe formats/safetensors views views/lora views/mix internal/convert internal/convert/hf", "all", "it opens a recipe as a directory of models; how that is shown is views/tree's business"},
	"internal/compare":                   {"root formats/images internal/convert internal/convert/hf views views/arrange views/measure", "all", "it finds what belongs together in two models; what to say of it is for commands"},
	"internal/convert/layout":            {"root formats/architectures formats/names views views/arrange", "all", "it moves tensors from one layout to another; what files say of models, and what types files have, it is told"},
	"internal/convert/internal/settings": {"root internal/jsonobj internal/source formats/architectures formats/tokenizer internal/convert/layout", "all", "it says in one format what a model says of itself in another; of tensors it knows shapes and what scales rotary embeddings"},
	"internal/convert":                   {"root internal/near internal/source formats/architectures formats/images formats/names formats/gguf formats/imatrix formats/tokenizer internal/convert/internal/settings internal/convert/layout internal/convert/preset views", "all", "it composes whole files of what parsers found and views give; how directories look is views/tree's business"},
	"internal/memory":                    {"root formats/architectures formats/config", "formats/gguf internal/testing/testwhole internal/convert", "it counts bytes by keys, shapes and the description of an architecture; which file they are of, and how it is asked, is for commands"},
	"internal/convert/preset":            {"root internal/near formats/architectures formats/images", "", "it knows what llama-quantize does with names and shapes, and reads nothing"},
	"internal/convert/hf":                {"root internal/jsonobj internal/source formats/architectures formats/images formats/names formats/gguf internal/assemble formats/safetensors formats/tokenizer internal/convert internal/convert/internal/settings internal/convert/layout views views/arrange", "all", "it composes directories of what parsers found and views give"},
	"formats/tokenizer":                  {"root formats/architectures internal/jsonobj", "internal/testing/memory internal/testing/testclient formats/gguf", "it reads the texts of a tokenizer, wherever they are, and no model"},
	"views/measure":                      {"root internal/parallel views/kernel", "", "it adds up numbers, whatever they are of"},
	"views/lora":                         {"root formats/adapter formats/architectures formats/gguf formats/names formats/safetensors views views/arrange views/kernel internal/convert/hf internal/convert/layout", "all", "it puts tensors into the place of others, before anything is made of a model, or writes them as an adapter of the other format; where adapters come from is not its business"},
	"views/arrange":                      {"root", "internal/testing/datatest internal/source", "it moves the rows and elements of tensors, whatever they are"},
	"formats/library":                    {"root internal/environ internal/near internal/source formats/architectures formats/images formats/names formats/gguf formats/pick formats/hub formats/ollama formats/exported", "all", "it finds models by their names and opens none; how they are shown is for commands"},
	"internal/demand":                    {"root formats/hub formats/ollama internal/describe views/tree", "", "it decides which names a server is asked for, and remembers the answers; how a model is opened, it is told"},
	"internal/libdir":                    {"root formats/library internal/convert internal/demand views/tree", "", "it lays out the models of libraries as directories; how a model is opened, it is told"},
	"internal/report":                    {"root views/measure", "internal/testing/testclient", "it draws numbers under names; which models they are of and how two belong together is for commands"},
	"internal/export":                    {"root internal/opendir internal/parallel", "internal/source", "it writes names and Data as plain files, whatever they are of"},
	"internal/stores":                    {"root internal/environ internal/opendir internal/source internal/remote/hub internal/export formats/gguf formats/hub formats/ollama", "internal/testing/testmodel", "it writes where other programs look, what it is told to; what they want to know of a GGUF file is formats/ollama's business"},
	"fs/nfs":                             {"root fs", "all", "it serves names and Data to clients of NFS and knows nothing of models; where it is mounted is for commands"},
	"views/tree":                         {"root internal/near internal/parallel internal/convert internal/convert/hf views formats/config formats/architectures formats/names formats/adapter formats/exported", "all", "it lays a model out as a directory; where models come from and how directories are served is not its business"},
	"internal/verify":                    {"root formats/architectures formats/hub formats/ollama internal/cache internal/cli internal/conceal internal/near internal/parallel internal/source views views/tree", "", "it reads a model that a command has opened, and compares its files with their digests"},
	"internal/describe":                  {"root formats/adapter formats/gguf formats/hub formats/images formats/library formats/names internal/cli internal/conceal internal/convert internal/memory internal/report internal/rescue internal/verify views/tree", "", "it says of a model and its tensors what commands print; which model, and where it is printed, is the command's business"},
	"internal/diff":                      {"root internal/cli internal/compare internal/conceal internal/describe internal/near internal/report internal/verify views views/measure views/tree", "", "it compares two models that a command has opened"},
	"internal/stat":                      {"root internal/cli internal/conceal internal/convert/hf internal/describe internal/near views views/measure", "", "it measures tensors of a model that a command has opened"},
	"internal/server":                    {"root internal/cli internal/conceal internal/environ internal/keep internal/memlimit internal/mounts internal/near internal/nfsstate internal/server/loopback internal/source internal/web formats formats/library fs fs/nfs views/tree", "internal/cli", "it serves what a command has opened; which model that is, and how it was asked for, is the command's business"},
	"cmd/tensorfs":                       {"all", "all", "it introduces the packages to each other"},

	"metal":                     {"root internal/source internal/cache internal/parallel internal/export formats formats/config formats/exported formats/models formats/names formats/safetensors views views/tree internal/convert internal/convert/hf", "all", "it puts what views, and hf/ and mlx/, give of a model into buffers, in the process that uses them; how models are mounted is not its business"},
	"metal/capi":                {"root internal/parallel formats/config formats/models formats/remote views metal", "internal/testing/testmount internal/testing/testoptions internal/testing/testtree", "the C interface is the loader's, with the files of a tree and the models of servers, for programs that cannot call Go; of root it has data and what errors mean"},
	"internal/testing/testhost": {"metal", "", "it is a device as any other"},
	"internal/testing/testtree": {"", "", "it writes a tree as a mount shows it, so it must not come from the code that makes mounts"},

	"scripts/packaging":       {"", "", "it looks at packages from outside"},
	"scripts/report":          {"", "", "it reads what the tests of any package say"},
	"scripts/browser/pair":    {"root internal/testing/testmodel", "", "it writes the models of two pictures"},
	"scripts/cluster/hub":     {"internal/testing/testhub", "", "it is the Hub of tests, as a program"},
	"scripts/quantisers":      {"views/kernel internal/testing/testnumbers", "", "it measures kernels, and knows libggml besides"},
	"scripts/mutate":          {"", "", "it changes any package, and tests it from outside"},
	"docs/examples/goengine":  {"metal", "", "an engine has no more than the loader"},
	"docs/examples/goweights": {"formats/remote metal", "", "an engine has the loader, and what opens models for it"},
}

// outside lists which packages may import from another module: each library has one job here, and
// its place is the package that does this job.
var outside = map[string]struct{ in, why string }{
	"github.com/hanwen/go-fuse/v2":         {"fs internal/testing/testslow", "FUSE is known in fs alone; a disk for tests is none of its files"},
	"github.com/spf13/cobra":               {"cmd/tensorfs internal/cli internal/cli/manual", "command lines are for commands"},
	"github.com/spf13/pflag":               {"cmd/tensorfs internal/cli internal/cli/manual", "command lines are for commands"},
	"golang.org/x/term":                    {"internal/cli", "what a terminal is, one package knows for all commands"},
	"golang.org/x/text":                    {"internal/cli", "its package width knows the characters that take two columns"},
	"github.com/ebitengine/purego":         {"metal scripts/quantisers", "it calls Metal, which the loader alone does, and libggml, which is only measured"},
	"github.com/x448/float16":              {"views views/kernel views/arrange metal formats/hf formats internal/testing/testmodel", "halves are made in kernels; elsewhere it serves single numbers and tests"},
	"github.com/go-json-experiment/json":   {"internal/jsonobj internal/remote/hub internal/remote/ollama formats/safetensors formats/ollama metal", "it reads JSON that strangers wrote; our own goes through encoding/json"},
	"go.yaml.in/yaml/v3":                   {"formats/recipe", "it parses recipes that strangers wrote, into a tree that is checked before anything is made of it"},
	"google.golang.org/protobuf":           {"formats/tokenizer", "it reads the fields of a SentencePiece model; only its package of the wire format, no generated code"},
	"gopkg.in/ini.v1":                      {"internal/environ", "it reads files of AWS's settings, as minio-go does by it"},
	"github.com/minio/minio-go/v7":         {"internal/remote/s3", "it signs requests and finds credentials as AWS's own tools do; the requests are ours"},
	"golang.org/x/oauth2":                  {"internal/remote/bearer internal/remote/gs internal/remote/az", "it exchanges Google's and Microsoft's credentials for tokens, at the hosts that are checked before; the requests are ours"},
	"cloud.google.com/go/compute/metadata": {"internal/remote/gs", "it asks a machine of Google's cloud for its token; oauth2 requires it already"},
	"oras.land/oras-go/v2":                 {"internal/remote/oci", "it finds Docker's credentials and turns them into tokens of registries; the requests are ours"},
	"github.com/klauspost/compress":        {"internal/remote/oci", "it undoes zstd, which the standard library has not; minio-go requires it already"},
	"golang.org/x/sys":                     {"", ""}, // the system is everywhere
}

// standard lists which directories must not import a package of the standard library or of the
// system, in their code.
var standard = []struct {
	names string
	in    func(dir string) bool
	why   string
}{
	{"os path/filepath io/ioutil golang.org/x/sys/unix", func(dir string) bool {
		return dir == "formats" || strings.HasPrefix(dir, "formats/") && dir != "formats/library" && dir != "formats/models" && dir != "formats/models/merged" && dir != "formats/remote"
	},
		"a parser reads what internal/source opens, wherever it is; a path of this machine is internal/source's"},
}

// imports returns the imports of the Go files in dir, for any system and build: the package's
// imports, and its tests'.
func imports(t *testing.T, dir string) (code, tests map[string]string) {
	t.Helper()
	code, tests = map[string]string{}, map[string]string{}
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range f.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(file, "_test.go") {
				tests[name] = filepath.Base(file)
			} else {
				code[name] = filepath.Base(file)
			}
		}
	}
	return code, tests
}

// packages returns the directories of the module's packages.
func packages(t *testing.T, root string) (dirs []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && p != root && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") || strings.HasPrefix(d.Name(), "_") || isModule(p)):
			return filepath.SkipDir
		case !d.IsDir() && strings.HasSuffix(p, ".go"):
			rel, err := filepath.Rel(root, filepath.Dir(p))
			if err != nil {
				return err
			}
			if rel = filepath.ToSlash(rel); !slices.Contains(dirs, rel) {
				dirs = append(dirs, rel)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return dirs
}

// isModule reports whether a directory is a module of its own.
func isModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

// ours returns an import as rules name it: "root", "views", "" for one of
// another module.
func ours(name string) string {
	if name == module {
		return "root"
	}
	dir, _ := strings.CutPrefix(name, module+"/")
	if dir == name {
		return ""
	}
	return dir
}

// check returns what is wrong with an import.
func check(dir string, allowed []string, name string) string {
	if to := ours(name); to != "" {
		// Tests of the package from outside import it.
		if to == dir || to == "root" && dir == "." || slices.Contains(allowed, to) || slices.Contains(allowed, "all") {
			return ""
		}
		return rules[dir].why
	}
	if !strings.Contains(strings.Split(name, "/")[0], ".") {
		return "" // the standard library
	}
	for m := name; m != "."; m = path.Dir(m) {
		if o, ok := outside[m]; ok {
			if o.in == "" || slices.Contains(strings.Fields(o.in), dir) {
				return ""
			}
			return o.why
		}
	}
	return "a new module is a decision: say in internal/deps what it is for and where it stands"
}

func TestImports(t *testing.T) {
	root := filepath.Join("..", "..")
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
		t.Fatal(err)
	}
	dirs := packages(t, root)
	if len(dirs) < 15 {
		t.Fatalf("only %d packages: %v", len(dirs), dirs)
	}
	for _, dir := range dirs {
		r, ok := rules[dir]
		if !ok {
			t.Errorf("%s is new: say in internal/deps what it may import, and why no more", dir)
			continue
		}
		code, tests := imports(t, filepath.Join(root, dir))
		allowed := strings.Fields(r.imports)
		for _, s := range standard {
			for _, name := range strings.Fields(s.names) {
				if file, ok := code[name]; ok && s.in(dir) {
					t.Errorf("%s (%s) must not import %s: %s", dir, file, name, s.why)
				}
			}
		}
		for name, file := range code {
			if why := check(dir, allowed, name); why != "" {
				t.Errorf("%s (%s) must not import %s: %s", dir, file, name, why)
			}
		}
		allowed = append(append(allowed, strings.Fields(r.tests)...), everyTest...)
		for name, file := range tests {
			if why := check(dir, allowed, name); why != "" {
				t.Errorf("tests of %s (%s) must not import %s: %s", dir, file, name, why)
			}
		}
	}
	for dir := range rules {
		if !slices.Contains(dirs, dir) {
			t.Errorf("there is no package %s any more", dir)
		}
	}
}

// TestTestdataIsMade: weights of testdata are made by testpack, so tests that read testdata
// import it.
func TestTestdataIsMade(t *testing.T) {
	root := filepath.Join("..", "..")
	reads := regexp.MustCompile(`"(\.\./)+testdata|"\.\.", "testdata"`)
	found := 0
	for _, dir := range packages(t, root) {
		files, err := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !reads.Match(text) {
				continue
			}
			found++
			if _, tests := imports(t, filepath.Join(root, dir)); tests[module+"/"+testpack] == "" {
				t.Errorf("%s reads testdata, so a test of the package has to import %s", file, testpack)
			}
			break
		}
	}
	if found < 20 {
		t.Errorf("only %d packages read testdata", found)
	}
}

// TestArrowsPointDown holds the rules themselves: no package may, over others,
// import itself, and tests lead to no circle of packages.
func TestArrowsPointDown(t *testing.T) {
	var reach func(from string, seen []string) bool
	reach = func(from string, seen []string) bool {
		if slices.Contains(seen, from) {
			t.Errorf("a circle: %s", strings.Join(append(seen, from), " -> "))
			return false
		}
		for to := range strings.FieldsSeq(rules[from].imports) {
			switch to {
			case "all":
				continue
			case "root":
				to = "."
			}
			if _, ok := rules[to]; !ok {
				t.Errorf("%s may import %s, which has no rule", from, to)
			} else if !reach(to, append(seen, from)) {
				return false
			}
		}
		return true
	}
	for dir, r := range rules {
		reach(dir, nil)
		if r.why == "" {
			t.Errorf("%s: no reason", dir)
		}
	}
}

// TestCheck holds that the test can fail.
func TestCheck(t *testing.T) {
	for _, test := range []struct {
		dir, name string
		want      bool
	}{
		{"views", module, true},
		{"views", module + "/views/kernel", true},
		{"views", module + "/views", true}, // its own tests
		{"views", module + "/formats/gguf", false},
		{"views", module + "/internal/source", false},
		{".", module + "/internal/source", false},
		{".", module, true},
		{"fs", module + "/views", false},
		{"fs", "github.com/hanwen/go-fuse/v2/fuse", true},
		{"views", "github.com/hanwen/go-fuse/v2/fuse", false},
		{"metal", module, true},
		{"metal", module + "/fs", false},
		{"formats/gguf", module + "/formats/safetensors", false},
		{"cmd/tensorfs", module + "/anything", true},
		{"cmd/tensorfs", "example.com/new/thing", false},
		{"views", "encoding/json", true},
		{"views", "golang.org/x/sys/unix", true},
		{"views/kernel", "github.com/mmcloughlin/avo/build", false}, // in a module of its own
	} {
		if why := check(test.dir, strings.Fields(rules[test.dir].imports), test.name); (why == "") != test.want {
			t.Errorf("%s imports %s: %q", test.dir, test.name, why)
		}
	}
}
