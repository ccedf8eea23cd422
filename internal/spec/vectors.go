package spec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Arithmetic is a case of A1 to A6.
type Arithmetic struct {
	Name     string `json:"name"`
	Policy   Policy `json:"policy"`
	Step     int64  `json:"step"`
	Created  int64  `json:"created"`
	Access   int64  `json:"access"`
	Cap      int64  `json:"cap"`
	Deadline int64  `json:"deadline"`
	Expiry   int64  `json:"expiry"`  // of a touch
	Written  int64  `json:"written"` // of a write of the value
}

// Rounding is a case of A6: an instant in nanoseconds, as a decimal text.
type Rounding struct {
	Nanos string `json:"nanos"`
	Floor int64  `json:"floor"`
	Ceil  int64  `json:"ceil"`
}

// PolicyText is a policy as text, and what it means. Policy is nil if it is refused.
type PolicyText struct {
	Text   string  `json:"text"`
	Policy *Policy `json:"policy"`
}

// Decision is a call on a stored record, nil for none.
type Decision struct {
	Name    string `json:"name"`
	Policy  Policy `json:"policy"`
	Step    int64  `json:"step"`
	Skew    int64  `json:"skew"`
	Early   int64  `json:"early,omitempty"` // J
	Foreign string `json:"foreign,omitempty"`
	Stored  *Life  `json:"stored"`
	Now     int64  `json:"now"`
	Do      string `json:"do"`
	Answer  string `json:"answer"`
	Writes  *Life  `json:"writes"` // nil: nothing
}

// History is a sequence of calls on one key, by one process. At first there is no record.
type History struct {
	Name  string `json:"name"`
	Step  int64  `json:"step"`
	Skew  int64  `json:"skew"`
	Calls []Call `json:"calls"`
}

// Call is a call of a history. Stored is the record after it, nil for none. A store may have removed a
// record that is dead by its expiry.
type Call struct {
	At     int64   `json:"at"`
	Do     string  `json:"do"`
	Policy *Policy `json:"policy,omitempty"` // from this call on
	Value  string  `json:"value,omitempty"`  // written, or read
	Answer string  `json:"answer"`
	Stored *Life   `json:"stored"`
}

// Form is a stored form: how a record is read from it, and what it is after a write. A "?" in a form
// stands for a digit of the version, which is drawn.
type Form[S any] struct {
	Name    string `json:"name"`
	Layout  string `json:"layout,omitempty"` // of the store's file; empty: the default
	Retain  int64  `json:"retain,omitempty"`
	Stored  *S     `json:"stored"`            // nil: none
	Refused bool   `json:"refused,omitempty"` // it is none that can be read
	Life    *Life  `json:"life,omitempty"`    // what is read
	Version string `json:"version,omitempty"`
	Value   string `json:"value,omitempty"` // JSON
	Now     int64  `json:"now,omitempty"`   // of the write
	Do      string `json:"do,omitempty"`    // "insert", "replace" or "touch"; empty: no write
	Writes  *Life  `json:"writes,omitempty"`
	Answer  string `json:"answer,omitempty"`
	After   *S     `json:"after,omitempty"`
}

// Touch and Replace are writes of a Form, over the record that was read.
const (
	Touch   = "touch"
	Replace = "replace"
)

// RedisString is a key of Redis: its string, and PEXPIRETIME, -1 for none.
type RedisString struct {
	String      string `json:"string"`
	PExpireTime int64  `json:"pexpiretime"`
}

// Item is an item of DynamoDB in its own JSON, without its key, and the item in the life table.
type Item struct {
	Item map[string]any `json:"item"`
	Life map[string]any `json:"life_item,omitempty"`
}

// Row is a row of a table, by column; the key is left out.
type Row map[string]any

// Load returns the vectors in spec/vectors/name.json, which is searched from the working
// directory upwards.
func Load[C any](name string) ([]C, error) {
	dir, err := Dir()
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(dir, name+".json"))
	if err != nil {
		return nil, err
	}
	var all []C
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&all); err != nil {
		return nil, fmt.Errorf("%s.json: %w", name, err)
	}
	return all, nil
}

// Dir returns the directory of the vectors.
func Dir() (string, error) {
	at, err := os.Getwd()
	for err == nil {
		dir := filepath.Join(at, "spec", "vectors")
		if _, missing := os.Stat(dir); missing == nil {
			return dir, nil
		}
		if at == filepath.Dir(at) {
			return "", os.ErrNotExist
		}
		at = filepath.Dir(at)
	}
	return "", err
}
