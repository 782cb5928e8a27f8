package demand

import (
	"slices"
	"strings"
	"sync"
)

// probes are names that programs look for in every directory that they come across: version
// control, editors, languages, desktops. No request is sent for them. Names that begin with
// a dot are not well-formed, and are not listed.
var probes = sync.OnceValue(func() map[string]bool {
	all := map[string]bool{}
	for name := range strings.FieldsSeq(`
		HEAD objects refs branches worktrees hooks CVS CVSROOT RCS SCCS _darcs _svn _MTN BitKeeper _FOSSIL_

		package.json package-lock.json node_modules bower_components tsconfig.json jsconfig.json deno.json yarn.lock
		pyproject.toml setup.py setup.cfg Pipfile requirements.txt __pycache__ __init__ __main__ venv site-packages
		Cargo.toml go.mod go.work Makefile GNUmakefile CMakeLists.txt meson.build configure build.gradle pom.xml Gemfile Rakefile
		BUILD BUILD.bazel WORKSPACE WORKSPACE.bazel MODULE.bazel Dockerfile Containerfile Vagrantfile Jenkinsfile Justfile Procfile
		compile_commands.json compile_flags.txt tags GTAGS GPATH GRTAGS cscope.out cscope.files

		autorun.inf autorun desktop.ini Thumbs.db ehthumbs.db folder.htt RECYCLER RECYCLED
		folder.jpg cover.jpg albumart.jpg DCIM VIDEO_TS AUDIO_TS BDMV mach_kernel Backups.backupdb

		bin lib lib32 lib64 libexec sbin etc usr dev proc sys tls glibc-hwcaps haswell x86_64 aarch64 atomics locale LC_MESSAGES
		README LICENSE COPYING INSTALL api models datasets spaces
	`) {
		all[strings.ToLower(name)] = true
	}
	return all
})

// probeEndings are how further such names end: files of programs, of editors and of desktops.
var probeEndings = sync.OnceValue(func() []string {
	return strings.Fields(`
	.so .dll .dylib .exe .com .bat .cmd .ps1 .sh .bash .zsh .fish .jar .class
	.py .pyc .pyd .pyi .egg .whl .js .mjs .cjs .ts .jsx .tsx .vue .rb .php .lua .cpp .hpp .java .ipynb .git
	.json .jsonc .toml .lock .ini .inf .cfg .conf .yml .yaml .xml .plist .properties .db .sqlite .mod .nix .vim .code-workspace
	.txt .md .rst .html .htm .css .log .pid .sock .tmp .temp .swp .swo .bak .orig .rej .part .crdownload .desktop .directory .lnk .url
	.jpg .jpeg .png .gif .svg .webp .ico .bmp .pdf .nfo .mo
`)
})

// isProbe reports whether a part of a path is the name of something that programs look for,
// and not the name of a model.
func isProbe(name string) bool {
	name = strings.ToLower(name)
	return probes()[name] || strings.Contains(name, ".so.") || slices.ContainsFunc(probeEndings(), func(end string) bool { return strings.HasSuffix(name, end) })
}
