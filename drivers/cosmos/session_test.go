package cosmos

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/slidingttl/slidingttl/drivers/cosmos/cosmostest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Under Session consistency a driver sees its own writes even if replicas lag, and by Latest
// those of other processes.
func TestSessions(t *testing.T) {
	f := open[session](t, nil)
	f.account.SetLag(true)
	m := f.mustInsert(t, "k", session{User: "ann"}, lasting(time.Hour), base)
	if got := f.mustGet(t, "k"); got.Meta != m {
		t.Fatalf("after its own insert a driver reads %+v, want %+v", got.Meta, m)
	}
	later := lasting(2 * time.Hour)
	version, err := f.Touch(t.Context(), "k", m, later, base)
	if err != nil {
		t.Fatal(err)
	}
	touched := driver.Meta{Life: later, Version: version}
	if got := f.mustGet(t, "k"); got.Meta != touched {
		t.Errorf("after its own touch a driver reads %+v, want %+v", got.Meta, touched)
	}
	other := f.another(t)
	if e, err := other.Get(t.Context(), "k"); err != nil || e.Meta != m {
		t.Fatalf("another process reads %+v, %v: the test proves nothing", e.Meta, err)
	}
	other = f.another(t) // the former one learned from that read
	e, err := other.Latest(t.Context(), "k")
	if err != nil || e.Meta != touched {
		t.Errorf("by Latest another process reads %+v, %v; want %+v", e.Meta, err, touched)
	}
	if multi, err := other.GetMulti(t.Context(), []string{"k"}); err != nil || multi["k"].Meta != touched {
		t.Errorf("and from then on by GetMulti %+v, %v; want %+v", multi, err, touched)
	}
	// A conflict's record is the current one, not a replica's.
	_, err = f.another(t).Touch(t.Context(), "k", m, lasting(3*time.Hour), base)
	wantConflict(t, "Touch by a process that knows an older record", err, touched)
	_, err = f.another(t).Insert(t.Context(), "k", session{}, lasting(time.Hour), base)
	wantConflict(t, "Insert by a process that knows of no record", err, touched)
	if err := f.Delete(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	_, err = f.another(t).Latest(t.Context(), "k")
	wantNotFound(t, "Latest of a record that is deleted", err)
	_, err = f.Get(t.Context(), "k")
	wantNotFound(t, "Get after its own delete", err)
}

// behindFor counts reads for which every replica was behind. azcosmos asks twice for each.
func behindFor(reads int) cosmostest.Fault {
	return cosmostest.Fault{
		Ops: []cosmostest.Op{cosmostest.OpRead, cosmostest.OpQuery}, Status: http.StatusNotFound, SubStatus: 1002, Count: 2 * reads,
	}
}

// A session for which every replica is behind is kept: the process still sees its own writes.
func TestSessionAheadOfReplicas(t *testing.T) {
	for name, known := range map[string]func(f *fixture[session]) error{
		"by Check":   func(f *fixture[session]) error { return f.Check(t.Context(), time.Hour) },
		"by a read":  func(f *fixture[session]) error { _, err := f.Get(t.Context(), "k"); return err },
		"by a write": func(*fixture[session]) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			f := open[session](t, nil)
			f.account.SetTime(time.Time{}) // Check compares clocks
			f.account.SetLag(true)
			now := driver.Floor(time.Now())
			life := driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour).RoundUp(time.Second)}
			was := f.mustInsert(t, "k", session{User: "one"}, life, now)
			if err := known(f); err != nil {
				t.Fatal(err)
			}
			if _, err := f.Replace(t.Context(), "k", session{User: "two"}, was, life, now); err != nil {
				t.Fatal(err)
			}
			cursors, err := f.Segments(t.Context(), 1)
			if err != nil {
				t.Fatal(err)
			}
			for call, read := range map[string]func() error{
				"Get":      func() error { _, err := f.Get(t.Context(), "k"); return err },
				"GetMulti": func() error { _, err := f.GetMulti(t.Context(), []string{"k"}); return err },
				"Scan":     func() error { _, err := f.Scan(t.Context(), cursors[0], 10); return err },
			} {
				f.inject(t, behindFor(1))
				if err := read(); err != nil {
					t.Errorf("%s, while a replica is behind for a moment: %v", call, err)
				}
				f.account.ClearFaults()
				f.inject(t, behindFor(100))
				if err := read(); err == nil || errors.Is(err, driver.ErrNotFound) || errors.Is(err, driver.ErrRefused) {
					t.Errorf("%s, while all replicas are behind: %v, want the client's error", call, err)
				}
				f.account.ClearFaults()
			}
			if e := f.mustGet(t, "k"); e.Value.User != "two" {
				t.Errorf("afterwards the process reads %+v: it misses its own overwrite", e)
			}
		})
	}
}

// Stats counts the cost of a read for which every replica was behind, and of its repetition.
func TestStatsOfReadsMadeAgain(t *testing.T) {
	f := open[session](t, nil)
	f.mustInsert(t, "k", session{}, lasting(time.Hour), base)
	before := f.Stats().ReadUnits
	f.inject(t, behindFor(1))
	f.mustGet(t, "k")
	if units := f.Stats().ReadUnits - before; units != 2 {
		t.Errorf("the two reads cost %v units, want 2", units)
	}
}

// A process that has only written keeps its session too, over a split that lasts and over replicas that stay behind.
func TestSessionBeforeFirstRead(t *testing.T) {
	for name, status := range map[string][2]int{"split": {http.StatusGone, 1007}, "behind": {http.StatusNotFound, 1002}} {
		for call, read := range map[string]func(f *fixture[session]) (bool, error){
			"Get": func(f *fixture[session]) (bool, error) { _, err := f.Get(t.Context(), "k"); return true, err },
			"GetMulti": func(f *fixture[session]) (bool, error) {
				found, err := f.GetMulti(t.Context(), []string{"k"})
				return len(found) > 0, err
			},
		} {
			f := open[session](t, nil)
			f.account.SetLag(true)
			f.mustInsert(t, "k", session{User: "ann"}, lasting(time.Hour), base)
			f.inject(t, cosmostest.Fault{Ops: behindFor(1).Ops, Status: status[0], SubStatus: status[1], Count: 100})
			if _, err := read(f); err == nil || errors.Is(err, driver.ErrNotFound) {
				t.Errorf("%s, %s: %v, want the client's error", name, call, err)
			}
			f.account.ClearFaults()
			if found, err := read(f); err != nil || !found {
				t.Errorf("%s, %s afterwards: found %v, %v; want the insert", name, call, found, err)
			}
		}
	}
}

// A container that no answer has named is not another one.
func TestSessionOfUnknownContainer(t *testing.T) {
	var s sessions
	s.observe(&http.Response{Header: http.Header{"X-Ms-Session-Token": {"0:-1#7"}}}, nil, s.now())
	has := func() bool { _, token := s.token(nil); return token != nil }
	read := func(rid string) (another bool) {
		return s.answered(&azcosmos.ContainerProperties{ResourceID: rid}, s.now())
	}
	if read("AQAAAAAAAAA=") || !has() {
		t.Error("the first name of the container has dropped its tokens")
	}
	if !read("AgAAAAAAAAA=") || has() {
		t.Error("another container has kept the tokens")
	}
}

// Tokens of a recreated container are dropped, also by a process that has only written.
func TestSessionOfAnotherContainer(t *testing.T) {
	for name, read := range map[string]func(d *Driver[session]) error{
		"Get":      func(d *Driver[session]) error { _, err := d.Get(t.Context(), "k"); return err },
		"GetMulti": func(d *Driver[session]) error { _, err := d.GetMulti(t.Context(), []string{"k"}); return err },
	} {
		f := open[session](t, nil)
		f.writeOften(t)
		f.createAnew(t, 1)
		if err := read(f.Driver); err != nil && !errors.Is(err, driver.ErrNotFound) {
			t.Errorf("%s from the new container: %v", name, err)
		}
		f.mustInsert(t, "k", session{User: "new"}, lasting(time.Hour), base)
		if e := f.mustGet(t, "k"); e.Value.User != "new" {
			t.Errorf("%s: the new container has %+v", name, e)
		}
	}
}

func TestNewerTokens(t *testing.T) {
	var s sessions
	for _, step := range []struct{ part, token, want string }{
		{"0", "-1#5", "0:-1#5"},
		{"0", "-1#4", "0:-1#5"},
		{"1", "2#9#0=7", "0:-1#5,1:2#9#0=7"},
		{"0", "-1#12", "0:-1#12,1:2#9#0=7"},
		{"1", "3#1#0=1", "0:-1#12,1:3#1#0=1"},
		{"1", "2#99#0=1", "0:-1#12,1:3#1#0=1"},
	} {
		s.observe(&http.Response{Header: http.Header{"X-Ms-Session-Token": {step.part + ":" + step.token}}}, nil, s.now())
		_, all := s.token(nil)
		tokens := strings.Split(*all, ",")
		slices.Sort(tokens)
		if got := strings.Join(tokens, ","); got != step.want {
			t.Errorf("after %s:%s the token is %v, want %s", step.part, step.token, got, step.want)
		}
	}
}

// unnamed takes from the answers what names their container, as a proxy or an emulator that does not have it.
func unnamed(o *azcosmos.ClientOptions) {
	client := *o.Transport.(*http.Client)
	below := client.Transport
	client.Transport = roundTripper(func(req *http.Request) (*http.Response, error) {
		res, err := below.RoundTrip(req)
		if err == nil {
			res.Header.Del(containerHeader)
		}
		return res, err
	})
	o.Transport = &client
}

// A container that is deleted and created anew is read, also where answers do not name it: items have its _rid.
func TestRecreatedUnnamed(t *testing.T) {
	f := open[session](t, nil, unnamed)
	f.writeOften(t)
	f.mustGet(t, "k")
	f.createAnew(t, 1)
	if _, err := f.Get(t.Context(), "k"); !errors.Is(err, driver.ErrNotFound) {
		t.Errorf("a read from the new container: %v", err)
	}
}

// A process that writes to the new container first reads its own writes there.
func TestRecreatedOwnWrites(t *testing.T) {
	for name, read := range map[string]func(f *fixture[session]) (bool, error){
		"Get": func(f *fixture[session]) (bool, error) {
			e, err := f.Get(t.Context(), "k")
			return e.Value.User == "new", err
		},
		"GetMulti": func(f *fixture[session]) (bool, error) {
			found, err := f.GetMulti(t.Context(), []string{"k"})
			return found["k"].Value.User == "new", err
		},
	} {
		f := open[session](t, nil)
		f.writeOften(t)
		f.createAnew(t, 1)
		f.account.SetLag(true)
		f.mustInsert(t, "k", session{User: "new"}, lasting(time.Hour), base)
		if new, err := read(f); err != nil || !new {
			t.Errorf("%s after an insert in the new container: %v, %v; want the insert", name, new, err)
		}
	}
}

// GetMulti finds the records of a container that was created anew with more physical partitions. The client
// asks those that it knows, by the container's name.
func TestRecreatedWithMorePartitions(t *testing.T) {
	for name, reader := range map[string]func(f *fixture[session]) *Driver[session]{
		"the process":                  func(f *fixture[session]) *Driver[session] { return f.Driver },
		"a process that only reads":    func(f *fixture[session]) *Driver[session] { return f.another(t) },
		"another driver of the client": nil, // that has made no call
	} {
		f := open[session](t, nil)
		d := f.Driver
		if reader != nil {
			d = reader(f)
		}
		if _, err := d.GetMulti(t.Context(), []string{"k0"}); err != nil {
			t.Fatal(err)
		}
		if reader == nil {
			d = f.another(t)
		}
		f.createAnew(t, 2)
		keys, all := f.touchedMany(t, 20)
		for range 2 {
			if found, err := d.GetMulti(t.Context(), keys); err != nil || len(found) != len(all) {
				t.Errorf("%s finds %d of %d records: %v", name, len(found), len(all), err)
			}
		}
	}
}

// A read carries one token only once the container was read and has a partition key of version 2: another hashes
// keys in another way. One that was created anew counts as not read.
func TestTokensByVersion(t *testing.T) {
	const unread = 0
	for version, want := range map[int]int{unread: 2, 1: 2, 2: 1} {
		f := open[session](t, nil)
		definition := f.Properties("")
		for i, rid := range []string{"AQAAAAAAAAA=", "AgAAAAAAAAA="} {
			definition.ResourceID, definition.PartitionKeyDefinition.Version = rid, version
			if i > 0 {
				want = 2
			} else if version != unread {
				f.sessions.answered(&definition, f.sessions.now()) // as Check
			}
			var of hash
			for _, token := range []string{"0:-1#5", "1:-1#5"} {
				f.sessions.observe(&http.Response{Header: http.Header{"X-Ms-Content-Path": {rid}, "X-Ms-Session-Token": {token}}}, &of, f.sessions.now())
				of[0]++
			}
			if _, token := f.sessions.token(&hash{}); token == nil || strings.Count(*token, ":") != want {
				t.Errorf("a read from %s, whose partition key is of version %d (0: not read), carries the token %v, want %d of 2", rid, version, token, want)
			}
		}
	}
}

// Of answers about a key from a partition and from one that was split from it, none that comes late makes the process miss its
// own write. Once an answer shows which is newer, reads carry one token again.
func TestSplitAndLateAnswer(t *testing.T) {
	for name, write := range map[string]func(f *fixture[session], was driver.Meta) (driver.Life, error){
		"touch": func(f *fixture[session], was driver.Meta) (driver.Life, error) {
			_, err := f.Touch(t.Context(), "k", was, lasting(2*time.Hour), base)
			return lasting(2 * time.Hour), err
		},
		"delete": func(f *fixture[session], _ driver.Meta) (driver.Life, error) {
			return driver.Life{}, f.Delete(t.Context(), "k")
		},
	} {
		for order, late := range map[string]bool{"in time": false, "late": true} {
			t.Run(name+" "+order, func(t *testing.T) {
				arrived, come := make(chan struct{}), make(chan struct{})
				f := open[session](t, nil, func(o *azcosmos.ClientOptions) {
					client := *o.Transport.(*http.Client)
					below := client.Transport
					client.Transport = roundTripper(func(req *http.Request) (*http.Response, error) {
						res, err := below.RoundTrip(req)
						if req.Context().Value(slowly{}) != nil {
							arrived <- struct{}{}
							<-come
						}
						return res, err
					})
					o.Transport = &client
				})
				if _, _, err := f.readContainer(t.Context(), f.sessions.now()); err != nil {
					t.Fatal(err)
				}
				was := driver.Meta{Life: lasting(time.Hour)}
				var err error
				if was.Version, err = f.another(t).Insert(t.Context(), "k", session{}, was.Life, base); err != nil {
					t.Fatal(err)
				}
				f.account.SetLag(true)
				var read sync.WaitGroup
				read.Go(func() {
					if _, err := f.Get(context.WithValue(t.Context(), slowly{}, 0), "k"); err != nil && !errors.Is(err, driver.ErrNotFound) {
						t.Error(err)
					}
				})
				<-arrived
				if !late {
					close(come)
					read.Wait()
				}
				f.account.Split()
				want, err := write(f, was)
				if err != nil {
					t.Fatal(err)
				}
				if late {
					close(come)
					read.Wait()
				}
				for range 2 {
					if e, err := f.Get(t.Context(), "k"); e.Life != want || err != nil && !errors.Is(err, driver.ErrNotFound) {
						t.Errorf("the process reads %+v, %v; want %+v", e.Life, err, want)
					}
				}
				k, _ := f.identity("k")
				of := f.hashOf(k)
				if _, token := f.sessions.token(&of); token == nil || strings.Count(*token, ":") != 1 {
					t.Errorf("afterwards a read carries the token %v, want one", token)
				}
			})
		}
	}
}

// slowly is a Context whose requests get their answers when release allows.
type slowly struct{}

// Over any history of a process's writes and reads, answers that come late, splits, and containers that are deleted
// and created anew with more physical partitions or fewer, a process reads its own writes. Answers come late by some
// steps of the process's other calls.
func TestSessionHistories(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 7))
			var mu sync.Mutex
			held := make(map[chan struct{}]int) // answers, and the steps until they come
			arrived := make(chan struct{}, 100)
			f := open[session](t, nil, func(o *azcosmos.ClientOptions) {
				client := *o.Transport.(*http.Client)
				below := client.Transport
				client.Transport = roundTripper(func(req *http.Request) (*http.Response, error) {
					res, err := below.RoundTrip(req)
					if steps, slow := req.Context().Value(slowly{}).(int); slow {
						come := make(chan struct{})
						mu.Lock()
						held[come] = steps
						mu.Unlock()
						arrived <- struct{}{}
						<-come
					}
					return res, err
				})
				o.Transport = &client
			})
			var calls sync.WaitGroup
			pass := func(all bool) { // a step
				mu.Lock()
				defer mu.Unlock()
				for come := range held {
					if held[come]--; held[come] < 0 || all {
						close(come)
						delete(held, come)
					}
				}
			}
			stored := map[string]string{}
			known := map[string]bool{}
			splits := 0
			write := func(key string) {
				if err := f.Delete(t.Context(), key); err != nil {
					t.Fatal(err)
				}
				stored[key] = fmt.Sprint(random.Uint64())
				f.mustInsert(t, key, session{User: stored[key]}, lasting(time.Hour), base)
			}
			f.account.SetLag(true)
			var history []string
			for range 150 {
				key := string(rune('a' + random.IntN(5)))
				what := random.IntN(11)
				history = append(history, fmt.Sprint(what, key))
				switch what {
				case 0:
					for range random.IntN(5) {
						write(key)
					}
				case 1:
					if random.IntN(3) == 0 {
						f.createAnew(t, 1+random.IntN(3))
						splits = 0
						clear(stored)
					}
				case 2:
					if err := f.Delete(t.Context(), key); err != nil {
						t.Fatal(err)
					}
					delete(stored, key)
				case 3, 4: // a read or a write whose answer comes late
					ctx := context.WithValue(t.Context(), slowly{}, random.IntN(30))
					name := fmt.Sprint("late", len(known))
					known[name] = true
					calls.Go(func() {
						if what == 3 {
							_, _ = f.Get(ctx, key)
						} else {
							_, _ = f.Insert(ctx, name, session{User: name}, lasting(time.Hour), base)
						}
					})
					<-arrived
				case 5, 6:
					write(key)
				case 7:
					if splits < 3 {
						f.account.Split()
						splits++
					}
				case 8:
					found, err := f.GetMulti(t.Context(), []string{"a", "b", "c", "d", "e"})
					for _, key := range []string{"a", "b", "c", "d", "e"} {
						if user := found[key].Value.User; err != nil || user != stored[key] {
							t.Errorf("after %v the process reads %q of %s together, %v; it wrote %q", history, user, key, err, stored[key])
						}
					}
				default:
					e, err := f.Get(t.Context(), key)
					if errors.Is(err, driver.ErrNotFound) {
						err = nil
					}
					if err != nil || e.Value.User != stored[key] {
						t.Errorf("after %v the process reads %q, %v; it wrote %q", history, e.Value.User, err, stored[key])
					}
				}
				pass(false)
			}
			done := make(chan struct{})
			go func() { calls.Wait(); close(done) }()
			for {
				select {
				case <-done:
					return
				case <-arrived: // a call asks again
				default:
					pass(true)
					runtime.Gosched()
				}
			}
		})
	}
}

// An answer of the former container that comes after one of the new does not bring its tokens back.
func TestSessionOfLateAnswer(t *testing.T) {
	answer := func(rid, token string) *http.Response {
		return &http.Response{Header: http.Header{"X-Ms-Content-Path": {rid}, "X-Ms-Session-Token": {token}}}
	}
	const former, between, latest = "AQAAAAAAAAA=", "AgAAAAAAAAA=", "AwAAAAAAAAA="
	var s sessions
	s.observe(answer(former, "0:-1#90"), nil, s.now())
	sent := s.now()
	s.observe(answer(latest, "0:-1#5"), nil, s.now())
	for _, late := range []string{former, between} { // of which the process may have seen none
		if !s.observe(answer(late, "0:-1#95"), nil, sent) && late != former {
			t.Error("an answer of another container than the token's is not told")
		}
		if _, token := s.token(nil); token == nil || *token != "0:-1#5" {
			t.Errorf("after a late answer the token is %v", token)
		}
	}
	for i := range 100 {
		s.observe(answer(base64.StdEncoding.EncodeToString([]byte{9, byte(i), 0, 0, 0, 0, 0, 0}), "0:-1#1"), nil, s.now())
	}
	if len(s.others) > mostOthers {
		t.Errorf("%d former containers are remembered", len(s.others))
	}
}

// Of reads that run together over a container created anew all are asked again.
func TestRecreatedReadTogether(t *testing.T) {
	for name, with := range map[string][]func(*azcosmos.ClientOptions){"named": nil, "unnamed": {unnamed}} {
		f := open[session](t, nil, with...)
		f.writeOften(t)
		f.mustGet(t, "k")
		f.createAnew(t, 1)
		var reads sync.WaitGroup
		for range 20 {
			reads.Go(func() {
				if _, err := f.Get(t.Context(), "k"); !errors.Is(err, driver.ErrNotFound) {
					t.Errorf("%s: %v, want ErrNotFound", name, err)
				}
			})
		}
		reads.Wait()
	}
}

// writeOften makes the session token of k's partition later than that of a new container.
func (f *fixture[T]) writeOften(t *testing.T) {
	t.Helper()
	for range 5 {
		if err := f.Delete(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		f.mustInsert(t, "k", *new(T), lasting(time.Hour), base)
	}
}

// createAnew deletes the container, and creates it with that many physical partitions.
func (f *fixture[T]) createAnew(t *testing.T, partitions int) {
	t.Helper()
	if _, err := f.container.Delete(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	db, err := f.account.Client(t, impatient).NewDatabase("test")
	if err != nil {
		t.Fatal(err)
	}
	throughput := azcosmos.NewManualThroughputProperties(int32(partitions) * 10_000)
	if _, err := db.CreateContainer(t.Context(), f.Properties(f.container.ID()), &azcosmos.CreateContainerOptions{ThroughputProperties: &throughput}); err != nil {
		t.Fatal(err)
	}
}
