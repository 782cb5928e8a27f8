// Package web reads files of servers by ranges: the one HTTP engine of all protocols. A
// protocol is an [Origin], which forms the requests for the bytes of a file; package cache
// keeps fetched bytes.
//
//	File.ReadAt
//	  what is missing in the cache?          readers of the same bytes wait for one request
//	  demand: blocks of 1 MiB                before everything that is read ahead
//	  ahead:  parts of 8 MiB, as readahead says; 8 at a time, 12 or 16 where that is faster
//	    Client.fetch                         resumes, retries, resolves again, until the deadline
//	      Client.send                        one request: redirects by our own rules
//
// Nothing that a server sends is trusted: an answer counts only if it is the range
// that was asked for, of a file of the size that is known, and of the version that
// was pinned when the file was opened.
package web
