package nfs

import "slices"

// maxList is the most that one READDIR gives, and what a client is told to ask for.
const maxList = 64 << 10

func (c *call) readDir() uint32     { return c.list(false) }
func (c *call) readDirPlus() uint32 { return c.list(true) }

// list lists a directory. A cookie is how many names were given before: 0 is before
// ".", 1 before "..", 2+i before entry i. The verifier of cookies is zero, because they
// are good for ever.
//
// The limit on names without attributes (dircount) is only a hint and ignored: a client
// has room for all that the other limit allows, and listing takes half as many calls.
func (c *call) list(plus bool) uint32 {
	n, status := c.node(true)
	cookie := c.args.uint64()
	c.args.fixed(8)
	if plus {
		c.args.uint32()
	}
	limit := int(min(c.args.uint32(), maxList))
	if status != ok3 || c.args.bad {
		return status
	}
	d, ok := c.tree.Dir(n.number)
	if !ok {
		return errNotDir
	}
	end := uint64(d.Len()) + 2
	if cookie > end {
		return errBadCookie
	}
	const usual = 200 // bytes of an entry
	*c.out = slices.Grow(*c.out, min(limit, int(end-cookie+1)*usual))
	limit += len(*c.out)
	c.postAttr(n)
	c.out.uint64(0)
	const after = 8 // no more entries; whether that is all
	at := cookie
	for ; at < end; at++ {
		before := len(*c.out)
		e := n
		switch at {
		case 0:
			e.Name = "."
		case 1:
			e.number = d.Parent
			e.Entry, _ = c.tree.Entry(d.Parent)
			e.Name = ".."
		default:
			e = node{d.First + at - 2, d.Entry(int(at - 2))}
		}
		c.out.bool(true)
		c.out.uint64(e.number)
		c.out.text(e.Name)
		c.out.uint64(at + 1)
		if plus {
			c.postAttr(e)
			c.out.bool(true)
			c.handle(e.number)
		}
		if len(*c.out)+after > limit {
			*c.out = (*c.out)[:before]
			break
		}
	}
	if len(*c.out)+after > limit || at == cookie && at < end {
		return errTooSmall
	}
	c.out.bool(false)
	c.out.bool(at == end)
	return ok3
}
