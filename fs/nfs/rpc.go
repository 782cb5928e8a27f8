package nfs

import "context"

// RPC version 2 (RFC 5531). A call:
//
//	xid, CALL, 2, program, version, procedure,
//	credential: flavour, opaque<400>; verifier: flavour, opaque<400>; arguments
//
// and its reply:
//
//	xid, REPLY, accepted, verifier: none, 0 bytes; how it went; results
//	xid, REPLY, denied, why
const (
	markBytes  = 4 // of a record
	rpcVersion = 2

	msgCall  = 0
	msgReply = 1

	accepted = 0
	denied   = 1

	deniedVersion = 0
	deniedAuth    = 1
	authBadCred   = 1

	authNone    = 0
	authSys     = 1
	maxAuth     = 400
	maxMachine  = 255
	maxGroupIDs = 16
)

// How an accepted call went.
const (
	acceptSuccess = iota
	acceptProgUnavail
	acceptProgMismatch
	acceptProcUnavail
	acceptGarbageArgs
	acceptSystemErr
)

// program is a table of procedures by number.
type program struct {
	version    uint32
	procedures []procedure
}

// procedure is a row. Where fails, run returns a status, which stands before the results;
// after any but ok there are no results but a number of words that are zero.
type procedure struct {
	run   func(*call) uint32
	fails bool
	words int
}

// programs are what is answered, by number.
var programs = map[uint32]program{
	100003: {3, nfsProcedures},
	100005: {3, mountProcedures},
}

// call is a request that is being answered.
type call struct {
	*Server
	conn *conn
	ctx  context.Context
	user user
	args decoder
	out  *encoder // the results
	re   *reply
}

// user is the user that a client claims to act for.
type user struct {
	known bool
	uid   uint32
}

// credential reads a credential, false if its kind is unknown.
func credential(flavour uint32, body []byte) (user, bool) {
	if flavour == authNone {
		return user{}, true
	}
	d := decoder{b: body}
	d.uint32() // a stamp
	d.opaque(maxMachine)
	uid := d.uint32()
	d.uint32() // group
	n := d.uint32()
	if n > maxGroupIDs {
		return user{}, false
	}
	d.fixed(4 * n)
	return user{true, uid}, flavour == authSys && !d.bad
}

// call answers a record, or returns false if it is not a call.
func (c *conn) call(record []byte, r *reply) (ok bool) {
	d := decoder{b: record}
	xid, kind := d.uint32(), d.uint32()
	if d.bad || kind != msgCall {
		return false
	}
	r.head = make(encoder, markBytes, 256)
	r.head.uint32(xid, msgReply)
	start := len(r.head)
	accept := func(how uint32, rest ...uint32) bool {
		r.free()
		r.head = r.head[:start]
		r.head.uint32(accepted, authNone, 0, how)
		r.head.uint32(rest...)
		return true
	}
	defer func() {
		if v := recover(); v != nil {
			c.server.faults.Panicked(v)
			ok = accept(acceptSystemErr)
		}
	}()
	if v := d.uint32(); !d.bad && v != rpcVersion {
		r.head.uint32(denied, deniedVersion, rpcVersion, rpcVersion)
		return true
	}
	number, version, proc := d.uint32(), d.uint32(), d.uint32()
	flavour, cred := d.uint32(), d.opaque(maxAuth)
	d.uint32()
	d.opaque(maxAuth) // the verifier of those credentials is nothing
	if d.bad {
		return false
	}
	who, known := credential(flavour, cred)
	if !known {
		r.head.uint32(denied, deniedAuth, authBadCred)
		return true
	}
	prog, has := programs[number]
	switch {
	case !has:
		return accept(acceptProgUnavail)
	case version != prog.version:
		return accept(acceptProgMismatch, prog.version, prog.version)
	case proc >= uint32(len(prog.procedures)):
		return accept(acceptProcUnavail)
	}
	accept(acceptSuccess)
	p := prog.procedures[proc]
	results := len(r.head)
	if p.fails {
		r.head.uint32(ok3)
	}
	q := &call{c.server, c, c.ctx, who, d, &r.head, r}
	status := p.run(q)
	switch {
	case q.args.bad:
		return accept(acceptGarbageArgs)
	case status != ok3:
		r.free()
		r.head = r.head[:results]
		r.head.uint32(status)
		r.head.uint32(make([]uint32, p.words)...)
	}
	return true
}
