package redis_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/slidingttl/slidingttl/drivers/redis"
	"github.com/slidingttl/slidingttl/drivers/redis/internal/wire"
	"github.com/slidingttl/slidingttl/drivers/redis/redistest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// scanned scans n segments and returns the records, the number of pages, and the number of keys
// that were no records.
func scanned(t *testing.T, d *redis.Driver[profile], n, limit int) (all map[string]driver.Scanned, pages, passed int) {
	t.Helper()
	segments, err := d.Segments(t.Context(), n)
	ok(t, "Segments", err)
	if len(segments) == 0 || len(segments) > n {
		t.Fatalf("Segments(%d): %q", n, segments)
	}
	all = make(map[string]driver.Scanned)
	for _, at := range segments {
		for at != "" {
			page, err := d.Scan(t.Context(), at, limit)
			ok(t, "Scan", err)
			for _, r := range page.Records {
				all[r.Key] = r
			}
			passed += page.Passed
			at = page.Next
			pages++
		}
	}
	return all, pages, passed
}

func testScan(t *testing.T, client rueidis.Client) {
	const own, theirs, prefix = 300, 20, `s[1]*:`
	ctx := t.Context()
	d := open[profile](t, client, redis.Options{Prefix: prefix})
	now := driver.Floor(time.Now())
	want := make(map[string]driver.Meta)
	life := driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}
	for i := range own {
		key := fmt.Sprint("own", i)
		version, err := d.Insert(ctx, key, profile{}, life, now)
		ok(t, "Insert", err)
		want[key] = driver.Meta{Life: life, Version: version}
	}
	set := func(key, value string) {
		ok(t, "SET", client.Do(ctx, client.B().Set().Key(key).Value(value).Build()).Error())
	}
	for i := range theirs {
		key := fmt.Sprint("theirs", i)
		set(prefix+key, fmt.Sprintf(`{"name":"%d"}`, i))
		e, err := d.Get(ctx, key)
		ok(t, "Get", err)
		want[key] = driver.Meta{Life: e.Life} // its version is a hash of its value, which no scan reads
	}
	set(prefix+"odd", "\x00sl1 odd")
	set("another prefix", "x")
	set("s1x:a pattern's", "x")
	ok(t, "LPUSH", client.Do(ctx, client.B().Lpush().Key(prefix+"a list").Element("x").Build()).Error())
	for _, n := range []int{1, 2, 100} {
		all, pages, passed := scanned(t, d, n, 50)
		if pages < own/100 {
			t.Errorf("%d pages of about 50 for %d records", pages, own)
		}
		if passed != 1 {
			t.Errorf("%d keys were passed over; want the list", passed)
		}
		if odd := all["odd"]; !errors.Is(odd.Problem, driver.ErrInvalid) || odd.Size != len("\x00sl1 odd") {
			t.Errorf("a malformed record was scanned as %+v", odd)
		}
		delete(all, "odd")
		for key, m := range want {
			size := 54 + len(`{"name":""}`)
			if strings.HasPrefix(key, "theirs") {
				size = len(`{"name":""}`) + len(key) - len("theirs")
			}
			if r, ok := all[key]; !ok || r.Meta != m || r.Problem != nil || r.Size != size {
				t.Errorf("%s was scanned as %+v, %t; want %+v of %d bytes", key, r, ok, m, size)
			}
		}
		if len(all) != len(want) {
			t.Errorf("%d records were scanned; want %d", len(all), len(want))
		}
	}
}

// at returns the cursor at the beginning of some parts.
func at(parts ...string) driver.Cursor {
	places := make([]map[string]any, len(parts))
	for i, p := range parts {
		places[i] = map[string]any{"Part": p}
	}
	return driver.EncodeCursor(places)
}

func TestScan(t *testing.T) { testScan(t, redistest.Start(t).Client(t)) }

func TestScanInCluster(t *testing.T) {
	client := redistest.StartCluster(t).Client(t)
	testScan(t, client)
	d := open[profile](t, client, redis.Options{})
	segments, err := d.Segments(t.Context(), 3)
	if err != nil || len(segments) != 3 {
		t.Errorf("Segments of three nodes: %q, %v", segments, err)
	}
	if _, err := d.Scan(t.Context(), at("1-5460"), 10); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("Scan of slots that no node has alone: %v; want %v", err, driver.ErrInvalid)
	}
}

// The node to which a slot moves lists its keys before it serves them.
func TestScanOfAMovingSlot(t *testing.T) {
	cluster := redistest.StartCluster(t)
	d := open[profile](t, cluster.Client(t), redis.Options{})
	now := driver.Floor(time.Now())
	insert := func(key string) {
		_, err := d.Insert(t.Context(), key, profile{}, driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}, now)
		ok(t, "Insert", err)
	}
	for i := range 30 {
		insert(fmt.Sprint(i))
	}
	moving(t, cluster, "moving")
	insert("moving") // by ASK
	if all, _, _ := scanned(t, d, 1, 10); len(all) != 31 || all["moving"].CreatedAt != now {
		t.Errorf("scanned %d of 31 records: %+v", len(all), all)
	}
}

// A resharding that was given up leaves keys at a node that does not serve them. A walk counts them, and an erasure, which
// cannot reach them, does not pass over them in silence.
func TestScanOfAStrandedKey(t *testing.T) {
	cluster := redistest.StartCluster(t)
	d := open[profile](t, cluster.Client(t), redis.Options{})
	to := moving(t, cluster, "moving")
	now := driver.Floor(time.Now())
	_, err := d.Insert(t.Context(), "moving", profile{}, driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}, now)
	ok(t, "Insert", err)
	slot, err := to.Do(t.Context(), to.B().Arbitrary("CLUSTER", "KEYSLOT", "moving").Build()).AsInt64()
	ok(t, "KEYSLOT", err)
	for _, admin := range clients(t, cluster) {
		ok(t, "SETSLOT", admin.Do(t.Context(), admin.B().Arbitrary("CLUSTER", "SETSLOT", fmt.Sprint(slot), "STABLE").Build()).Error())
	}
	walk := func(s driver.Scanner) (records, passed int, err error) {
		segments, err := s.Segments(t.Context(), 1)
		ok(t, "Segments", err)
		for at := segments[0]; at != "" && err == nil; {
			var page driver.Page
			page, err = s.Scan(t.Context(), at, 10)
			records, passed, at = records+len(page.Records), passed+page.Passed, page.Next
		}
		return records, passed, err
	}
	if records, passed, err := walk(d); records != 0 || passed != 1 || err != nil {
		t.Errorf("a walk lists %d records and passes over %d, %v; want none and 1", records, passed, err)
	}
	if _, _, err := walk(d.Whole(driver.Erasure{Keys: []string{"moving"}})); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("the walk of an erasure: %v; want %v", err, driver.ErrInvalid)
	}
}

func TestScanOfVirtual(t *testing.T) {
	client := redistest.StartVirtual(t).Client(t)
	d := open[profile](t, client, redis.Options{Prefix: "p:"})
	now := driver.Floor(time.Now())
	_, err := d.Insert(t.Context(), "a", profile{}, driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}, now)
	ok(t, "Insert", err)
	if all, _, _ := scanned(t, d, 1, 10); len(all) != 1 || all["a"].CreatedAt != now {
		t.Errorf("scanned: %+v", all)
	}
}

func TestScanRefuses(t *testing.T) {
	d := newFixture(t, redis.Options{}).d
	for _, cursor := range []driver.Cursor{"", "nonsense", "all - 0", at(), at("0-16383"), driver.EncodeCursor("all"), driver.EncodeCursor([]map[string]int{{"At": -1}})} {
		if _, err := d.Scan(t.Context(), cursor, 10); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("Scan from %q: %v; want %v", cursor, err, driver.ErrInvalid)
		}
	}
	if _, err := d.Segments(t.Context(), 0); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("Segments(0): %v", err)
	}
	if _, err := d.Scan(t.Context(), at("all"), 0); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("Scan of no records: %v", err)
	}
}

// A replica that has taken over does not know its primary's cursors: its part of the store is
// scanned from the beginning, so that no record is missed.
func TestScanOverFailover(t *testing.T) {
	primary := redistest.Start(t)
	replica := primary.StartReplica(t)
	proxy := redistest.NewProxy(t)
	client := redistest.NewClient(t, proxy.Option(primary.Option()))
	d := open[profile](t, client, redis.Options{})
	now := driver.Floor(time.Now())
	const records = 500
	for i := range records {
		_, err := d.Insert(t.Context(), fmt.Sprint(i), profile{}, driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}, now)
		ok(t, "Insert", err)
	}
	ok(t, "WAIT", client.Do(t.Context(), client.B().Wait().Numreplicas(1).Timeout(0).Build()).Error())
	page, err := d.Scan(t.Context(), at("all"), records/2)
	if err != nil || page.Next == "" {
		t.Fatalf("Scan: %+v, %v", page, err)
	}
	replica.Promote(t)
	proxy.Redirect(primary.Addr, replica.Addr)
	proxy.Cut()
	after := make(map[string]bool)
	for at := page.Next; at != ""; at = page.Next {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		page, err = d.Scan(ctx, at, records/2)
		cancel()
		ok(t, "Scan", err)
		for _, r := range page.Records {
			after[r.Key] = true
		}
	}
	if len(after) != records {
		t.Errorf("after the failover %d records were scanned; want all %d", len(after), records)
	}
}

// nils is a client that finds one key, and then answers nil.
type nils struct{ wire.Client }

func (nils) Nodes(context.Context) (map[string]wire.Client, error) { return nil, nil }

func (nils) DoMulti(_ context.Context, cs []wire.Command) []wire.Answer {
	answers := slices.Repeat([]wire.Answer{{Kind: wire.Nil}}, len(cs))
	if cs[len(cs)-1].Words[0] == "SCAN" {
		text := func(s string) wire.Answer { return wire.Answer{Kind: wire.String, String: []byte(s)} }
		answers[0] = text("run_id:1")
		answers[1] = wire.Answer{Kind: wire.Array, Array: []wire.Answer{text("0"), {Kind: wire.Array, Array: []wire.Answer{text("k")}}}}
	}
	return answers
}

// A header that was not read is no header of another program's record.
func TestScanWithoutHeaders(t *testing.T) {
	d, err := redis.Over[profile](nils{}, nil)
	ok(t, "Over", err)
	from, err := d.Segments(t.Context(), 1)
	ok(t, "Segments", err)
	if page, err := d.Scan(t.Context(), from[0], 10); err == nil {
		t.Errorf("Scan: %+v; want an error", page)
	}
}
