package nfs

import "math"

// fsStat reports the size of the tree, and that nothing is free.
func (c *call) fsStat() uint32 {
	n, status := c.node(false)
	if status != ok3 {
		return status
	}
	nodes, bytes := c.tree.Total()
	c.postAttr(n)
	c.out.uint64(bytes, 0, 0, nodes, 0, 0)
	c.out.uint32(math.MaxUint32) // seconds for which that does not change
	return ok3
}

// FSINFO's properties of the file system: it has symbolic links, and is alike everywhere.
const properties = 0x2 | 0x8

// maxWrite is for clients that insist on a number: so large are requests that are
// refused with a reason.
const maxWrite = maxRecord / 2

func (c *call) fsInfo() uint32 {
	n, status := c.node(false)
	if status != ok3 {
		return status
	}
	c.postAttr(n)
	c.out.uint32(maxRead, maxRead, block, maxWrite, maxWrite, block, maxList)
	c.out.uint64(math.MaxInt64) // the largest file
	c.out.uint32(0, 1)          // times are exact to a nanosecond
	c.out.uint32(properties)
	return ok3
}

func (c *call) pathConf() uint32 {
	n, status := c.node(false)
	if status != ok3 {
		return status
	}
	c.postAttr(n)
	c.out.uint32(math.MaxUint16, maxName)
	c.out.bool(true)  // longer names are refused, not cut
	c.out.bool(true)  // files cannot be given away
	c.out.bool(false) // upper and lower case are not the same
	c.out.bool(true)  // and are kept
	return ok3
}
