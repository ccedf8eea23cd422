package main

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// parameters maps the parameters that a kind of store's URIs may have to what they take.
type parameters map[string]value

// value is what a parameter takes.
type value int

const (
	text    value = iota + 1 // anything
	truth                    // true or false
	span                     // a duration, in the form that policies have
	client                   // passed to the store's own client
	clients                  // the same, and may be repeated
)

// address is a store's URI, checked against the table of its kind.
type address struct {
	*url.URL // with the parameters for the store's client only
	own      map[string]string
	retain   time.Duration // the drivers' option Retain
	writes   bool          // the command writes records
	sizes    bool          // a scan must return the records' sizes
}

// errForm says that a URI does not have the form of its kind of store.
var errForm = errors.New("malformed URI")

// parseAddress reads uri, of one of kinds.
func parseAddress(uri string) (*address, *kind, error) {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme == "" {
		return nil, nil, fmt.Errorf("%w: the store must be a URI such as dynamodb://table; see slidingttl --help", errUsage) // err would quote a password
	}
	k := kindOf(uri)
	if strings.Contains(uri, "#") {
		return nil, nil, fmt.Errorf("%w: the store's URI has a #, after which URIs name nothing: write %%23", errUsage)
	}
	if k == nil {
		return nil, nil, fmt.Errorf("%w: no store has the scheme %q; see slidingttl --help", errUsage, u.Scheme)
	}
	if revealed(u) {
		return nil, nil, fmt.Errorf("%w: a password on the command line is seen by all: leave it out of the store's URI, and %s", errUsage, k.credentials)
	}
	a := &address{URL: u, own: make(map[string]string)}
	if err := a.take(k); err != nil {
		return nil, nil, fmt.Errorf("%w; the store must have the form %s", err, k.form)
	}
	return a, k, nil
}

// kindOf is the kind of the store at uri, nil if there is none.
func kindOf(uri string) *kind {
	scheme, _, _ := strings.Cut(uri, ":")
	i := slices.IndexFunc(kinds, func(k kind) bool { return slices.Contains(k.schemes, strings.ToLower(scheme)) })
	if i < 0 {
		return nil
	}
	return &kinds[i]
}

// take moves the parameters that the command uses from a's URL to a.own.
func (a *address) take(k *kind) error {
	q, err := url.ParseQuery(a.RawQuery)
	if err != nil {
		return fmt.Errorf("%w: the parameters of the store's URI cannot be read", errUsage)
	}
	for name, values := range q {
		takes, known := k.params[name]
		switch v := values[0]; {
		case !known:
			return fmt.Errorf("%w: the store's URI has the parameter %q, which is unknown", errUsage, name)
		case takes == clients:
			continue
		case len(values) > 1:
			return fmt.Errorf("%w: the store's URI has the parameter %q more than once", errUsage, name)
		case takes == client:
			continue
		case v == "":
			return fmt.Errorf("%w: %s is empty in the store's URI", errUsage, name)
		case takes == truth && v != "true" && v != "false":
			return fmt.Errorf("%w: %s is %q in the store's URI: must be true or false", errUsage, name, v)
		case takes == span:
			if (*period)(&a.retain).Set(v) != nil {
				return fmt.Errorf("%w: %s is %q in the store's URI: must be a duration such as 30d or 12h", errUsage, name, v)
			}
		}
		a.own[name] = values[0]
		q.Del(name)
	}
	a.RawQuery = q.Encode()
	return nil
}

// revealed reports whether u contains a password.
func revealed(u *url.URL) bool {
	if _, ok := u.User.Password(); ok {
		return true
	}
	for name := range u.Query() {
		if strings.Contains(strings.ToLower(name), "passw") {
			return true
		}
	}
	return false
}
