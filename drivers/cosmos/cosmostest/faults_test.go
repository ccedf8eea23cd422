package cosmostest

import (
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

func TestFaults(t *testing.T) {
	f := open(t, nil, azcosmos.ContainerProperties{})
	inject := func(fault Fault) {
		t.Helper()
		if err := f.Inject(fault); err != nil {
			t.Fatal(err)
		}
	}
	create := func(id string) error {
		_, err := f.c.CreateItem(t.Context(), pk(id), []byte(`{"id":"`+id+`"}`), nil)
		return err
	}
	read := func(id string) error {
		_, err := f.c.ReadItem(t.Context(), pk(id), id, nil)
		return err
	}
	before := f.Counts()
	inject(Fault{Ops: []Op{OpCreate}, Drop: true, Applied: true})
	if err := create("a"); err == nil || read("a") != nil {
		t.Errorf("an answer that is lost: %v, then %v", err, read("a"))
	}
	inject(Fault{Ops: []Op{OpCreate}, Status: 403, Count: 2})
	wantStatus(t, "the first", create("b"), 403, "")
	wantStatus(t, "what was not carried out", read("b"), 404, "")
	wantStatus(t, "the second", create("b"), 403, "")
	if err := create("b"); err != nil {
		t.Errorf("the third: %v", err)
	}
	inject(Fault{Status: 429, RetryAfter: time.Hour})
	wantStatus(t, "throttled", read("b"), 429, "3200")
	if got, want := f.Counts().Since(before), (Counts{Create: 4, Read: 3}); got != want {
		t.Errorf("counted %+v, want %+v", got, want)
	}
	inject(Fault{Status: 403, Count: 5})
	if left := f.ClearFaults(); left != 5 || read("b") != nil {
		t.Errorf("%d left", left)
	}
	f.SetThroughput(0.5)
	if err := read("b"); err != nil {
		t.Error(err)
	}
	wantStatus(t, "a read beyond the throughput", read("b"), 429, "3200")
	f.SetThroughput(0)
	for _, bad := range []Fault{{}, {Drop: true, Status: 500}, {Drop: true, Silence: true}, {Drop: true, Count: -1}} {
		if f.Inject(bad) == nil {
			t.Errorf("%+v was armed", bad)
		}
	}
	release := f.Hang()
	done := make(chan error, 1)
	go func() { done <- create("c") }()
	select {
	case err := <-done:
		t.Errorf("an account that hangs answered: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	release()
	release()
	if err := <-done; err != nil {
		t.Errorf("after it went on: %v", err)
	}
}

// Over HTTP/2 an answer is lost by a reset of its stream, with the code that the test chose. A
// silent connection is detected by the client's pings.
func TestFaultsOfHTTP2(t *testing.T) {
	f := open(t, &Options{HTTP2: true}, azcosmos.ContainerProperties{})
	for id, tt := range map[string]struct {
		fault Fault
		sent  uint64
		says  string
	}{
		"reset":   {fault: Fault{Drop: true, Applied: true}, sent: 1, says: "INTERNAL_ERROR"},
		"refused": {fault: Fault{Drop: true, Code: 7}, sent: 2},
		"silent":  {fault: Fault{Silence: true, Applied: true}, sent: 1, says: "client connection lost"},
	} {
		tt.fault.Ops = []Op{OpCreate}
		if err := f.Inject(tt.fault); err != nil {
			t.Fatal(err)
		}
		before := f.Counts()
		_, err := f.c.CreateItem(t.Context(), pk(id), []byte(`{"id":"`+id+`"}`), nil)
		if tt.says == "" && err != nil || tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)) {
			t.Errorf("%s: error %v, want %q in it", id, err, tt.says)
		}
		if sent := f.Counts().Since(before).Create; sent != tt.sent {
			t.Errorf("%s: it was sent %d times, want %d", id, sent, tt.sent)
		}
		f.doc(t, id)
	}
}
