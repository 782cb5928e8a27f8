// Package export writes files of a tree as plain files below a directory of this
// machine, for programs, containers and systems that cannot have the mount.
//
//	report, err := export.Run(ctx, "/models/m", files, export.Options{Facts: facts, ModTime: m.ModTime})
//
// What is in the directory:
//
//	PATH...                        files that are complete, at their paths in the tree
//	.tensorfs-export/state.json    what they are made of: the facts
//	.tensorfs-export/log           what is complete, and which stretches of large files are
//	.tensorfs-export/*.partial     files that are not complete
//
// A file is written below another name, a stretch at a time by several workers,
// and gets its own name when all of it is on the disk. So a name in the tree is
// always a whole file, whatever ends the program, and the same call goes on where
// the last one stopped: files that the log has are kept, and so are the stretches
// of a large file that it has. Facts that differ are refused, so that nothing is
// ever composed of two states of a model.
//
// A file that equals a whole source file is cloned if the file system can (it then shares
// its blocks), linked if that is wanted, or copied by the kernel. All other files are read
// and written.
//
// The package knows nothing of models. It does not follow symbolic links below
// the directory, and never leaves it.
package export
