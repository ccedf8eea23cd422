package policyfile

import (
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
)

// File is the last good content of a file of policies. Its methods are safe for
// concurrent use.
type File struct {
	path  string
	names []string
	set   atomic.Pointer[set]

	refused  atomic.Bool  // when it was last read
	accepted atomic.Int64 // when set was stored, in nanoseconds since the Unix epoch
}

// Open reads the file at path. names are those that the program uses: a file without
// one of them does not count. Others may be there too.
//
// Errors are those of os.ReadFile and encoding/json, and an *slidingttl.InvalidError
// for a policy that is missing, doubled or not valid.
func Open(path string, names ...string) (*File, error) {
	f := &File{path: path, names: names}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("policyfile: %w", err)
	}
	s, err := f.parse(content, nil)
	if err != nil {
		return nil, err
	}
	f.accept(s)
	return f, nil
}

func (f *File) accept(s set) {
	f.set.Store(&s)
	f.accepted.Store(time.Now().UnixNano())
}

// LastReload returns whether the file counts as it was last read, by Open or by Follow. accepted is
// when what is in force was accepted.
func (f *File) LastReload() (successful bool, accepted time.Time) {
	return !f.refused.Load(), time.Unix(0, f.accepted.Load())
}

// Policy returns the policy of that name, and whether the file has one. It always has one
// for a name that was given to Open. The call costs a look-up in a map.
func (f *File) Policy(name string) (slidingttl.Policy, bool) {
	p, ok := (*f.set.Load())[name]
	return p, ok
}

// parse reads content, which must have the names of f and of more.
func (f *File) parse(content []byte, more []string) (set, error) {
	s, err := parse(content)
	if err != nil {
		return nil, fmt.Errorf("policyfile: %s: %w", f.path, err)
	}
	for _, names := range [][]string{f.names, more} {
		for _, name := range names {
			if _, ok := s[name]; !ok {
				return nil, fmt.Errorf("policyfile: %s: %w", f.path, &slidingttl.InvalidError{
					Field: "policy " + strconv.Quote(name), Value: "missing", Rule: "must be there, for this program uses it",
				})
			}
		}
	}
	return s, nil
}
