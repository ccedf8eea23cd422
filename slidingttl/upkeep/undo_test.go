package upkeep_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/upkeep"
)

// kept is what an adoption keeps for Undo.
type kept struct {
	sync.Mutex
	bytes.Buffer
}

func (k *kept) change(c upkeep.Change) error {
	k.Lock()
	defer k.Unlock()
	return json.NewEncoder(k).Encode(c)
}

// An adoption is taken back only for records that were not touched since. Half a
// line, as a killed process leaves it, does not stop the rest.
func TestUndo(t *testing.T) {
	f := open(t)
	for i := range 1000 {
		f.Add(fmt.Sprint("bare-", i), 0, 0)
	}
	f.Add("\xffbinary", 0, 2*day)
	f.Add("own", -day, 20*day)
	before := make(map[string]driver.Life)
	for _, key := range keysOf(f) {
		before[key] = metaOf(f, key).Life
	}
	k := new(kept)
	o := applied()
	o.Undo = k.change
	r, err := upkeep.Adopt(t.Context(), f, policy, o)
	ok(t, err)
	if lines := strings.Count(k.String(), "\n"); r.Counts["adopted"] != 1001 || lines != 1001 || r.Counts["write_units"] != 1001 {
		t.Fatalf("%d lines of\n%v", lines, r)
	}
	k.WriteString(`{"key":"YmFyZS0x","li`)

	m := metaOf(f, "bare-7")
	touched := driver.Life{CreatedAt: m.CreatedAt, ExpiresAt: m.ExpiresAt + 1}
	_, err = f.Touch(t.Context(), "bare-7", m, touched, f.Began)
	ok(t, err)
	ok(t, f.Delete(t.Context(), "bare-8"))
	undo := func(apply bool) *upkeep.Report {
		r, err := upkeep.Undo(t.Context(), f, bytes.NewReader(k.Bytes()), &upkeep.WriteOptions{Apply: apply, Options: upkeep.Options{Page: 100}})
		ok(t, err)
		return r
	}
	if r := undo(false); r.Applied || r.Counts["undone"] != 999 || metaOf(f, "bare-0").CreatedAt == 0 {
		t.Errorf("a dry run:\n%v", r)
	}
	if r := undo(true); !r.Applied || r.Counts["undone"] != 999 || r.Counts["changed"] != 1 || r.Counts["vanished"] != 1 || r.Counts["torn"] != 1 || r.Passed != 0 || !r.Done {
		t.Errorf("the report is\n%v", r)
	}
	for _, key := range keysOf(f) {
		want := before[key]
		if key == "bare-7" {
			want = touched
		}
		if got := metaOf(f, key).Life; got != want {
			t.Errorf("%q has %+v; want %+v", key, got, want)
		}
	}
	if r := undo(true); r.Counts["undone"] != 0 || r.Counts["already"] != 999 || r.Counts["changed"] != 1 {
		t.Errorf("a second time:\n%v", r)
	}
}

// A change of a key outside of the prefix is no line that was cut off, and a checkpoint is of its file.
func TestUndoOfAPart(t *testing.T) {
	f := open(t)
	for i := range 40 {
		f.Add(fmt.Sprint("a-", i), 0, 0)
		f.Add(fmt.Sprint("b-", i), 0, 0)
	}
	adopted := func(prefix string) string {
		k := new(kept)
		o := applied()
		o.Undo, o.Prefix = k.change, prefix
		_, err := upkeep.Adopt(t.Context(), f, policy, o)
		ok(t, err)
		return k.String()
	}
	a := adopted("a-")
	b := adopted("b-")
	part := &upkeep.WriteOptions{Apply: true, Options: upkeep.Options{Page: 10, Prefix: "a-"}}
	var place upkeep.Checkpoint
	part.Save = func(c upkeep.Checkpoint) error {
		place = c
		return errors.New("stopped")
	}
	_, err := upkeep.Undo(t.Context(), f, strings.NewReader(a+b), part)
	if err == nil || place.Segments == nil {
		t.Fatalf("it was to stop: %v", err)
	}
	part.Save, part.Resume = nil, &place
	if _, err := upkeep.Undo(t.Context(), f, strings.NewReader(b+a), part); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("resumed by another file: %v", err)
	}
	r, err := upkeep.Undo(t.Context(), f, strings.NewReader(a+b+a), part) // another adoption has appended to it
	ok(t, err)
	if r.Counts["undone"] != 40 || r.Counts["torn"] != 0 || r.Records != 40 {
		t.Errorf("the report is\n%v", r)
	}
}
