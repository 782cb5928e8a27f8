package web

import (
	"net/netip"
	"strings"
)

// special are the addresses that are not on the Internet, by IANA's registries of special
// addresses (RFC 6890), except addresses that package netip knows: they belong to this
// machine, or to one of its networks or its cloud.
var special = prefixes(
	"0.0.0.0/8 100.64.0.0/10 192.0.0.0/24 192.0.2.0/24 192.88.99.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 240.0.0.0/4 " +
		"168.63.129.16/32 " + // not in the registry: Azure's machines find their host there
		"2001::/23 2001:db8::/32 3fff::/20")

// internet is where all public IPv6 addresses are.
var internet = netip.MustParsePrefix("2000::/3")

// Addresses that hold an IPv4 address, to which they lead.
var (
	nat64     = netip.MustParsePrefix("64:ff9b::/96")
	sixToFour = netip.MustParsePrefix("2002::/16")
)

func prefixes(list string) (all []netip.Prefix) {
	for s := range strings.FieldsSeq(list) {
		all = append(all, netip.MustParsePrefix(s))
	}
	return all
}

// Public is what clients go by whose options do not say it. Tests replace it.
var Public = public

// public reports whether an address belongs to the Internet, and not to a machine or
// network of its own.
func public(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	switch b := a.As16(); {
	case nat64.Contains(a):
		return public(netip.AddrFrom4([4]byte(b[12:])))
	case sixToFour.Contains(a):
		return public(netip.AddrFrom4([4]byte(b[2:6])))
	case !a.IsGlobalUnicast() || a.IsPrivate() || a.Is6() && !internet.Contains(a):
		return false
	}
	for _, p := range special {
		if p.Contains(a) {
			return false
		}
	}
	return true
}
