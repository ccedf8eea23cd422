package session

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// forLocalhost reports whether r came from this machine, for one of its names, without a
// sign of another host or a proxy.
func forLocalhost(r *http.Request) bool {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !peer.Addr().Unmap().IsLoopback() || !localName(r.Host) {
		return false
	}
	for name, values := range r.Header {
		switch {
		case strings.HasPrefix(name, "X-Forwarded-"), name == "Forwarded", name == "X-Real-Ip", name == "Via":
			return false
		case name == "Origin":
			for _, origin := range values {
				if u, err := url.Parse(origin); err != nil || !localName(u.Host) {
					return false
				}
			}
		}
	}
	return true
}

// localName reports whether host, with a port or without, is this machine.
func localName(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.IsLoopback()
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}
