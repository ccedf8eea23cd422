package dynamodb

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/slidingttl/slidingttl/drivers/dynamodb/dynamodbtest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// touchedForAnHour inserts a record at base, to expire a minute later, and touches it to live for an hour.
// It returns its item.
func (tbl *table[T]) touchedForAnHour(t testing.TB, key string, v T) (m driver.Meta, image attrs) {
	t.Helper()
	m = tbl.mustInsert(t, key, v, lasting(time.Minute), base)
	return tbl.mustTouch(t, key, m, lasting(time.Hour), base), tbl.raw(t, key)
}

// nextLife inserts the key's next life at now, and touches it, as a life item shows.
func (tbl *table[T]) nextLife(t testing.TB, key string, v T, now driver.Instant) {
	t.Helper()
	m := tbl.mustInsert(t, key, v, driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Minute)}, now)
	tbl.mustTouch(t, key, m, driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}, now)
}

// removeItem removes an item as DynamoDB does.
func (tbl *table[T]) removeItem(t testing.TB, table, key string) {
	t.Helper()
	k, err := tbl.primaryKey(key)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tbl.client.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: &table, Key: tbl.attributes(k)}); err != nil {
		t.Fatal(err)
	}
}

// A stream is read late: by then the key may have had further lives, each with its expiry in the life
// table, whichever way the ones before ended.
func TestLifeTableDeadOfEarlierLives(t *testing.T) {
	tbl := open[session](t, apartly())
	expired := base.Add(time.Hour)
	ends := map[string]func(key string){
		"removed": func(key string) { tbl.removeItem(t, tbl.Driver.table, key) },
		"deleted": func(key string) {
			if err := tbl.Delete(t.Context(), key); err != nil {
				t.Fatal(err)
			}
		},
		"overwritten": func(string) {},
	}
	for name, end := range ends {
		for _, lives := range []int{1, 3, mostFormer, mostFormer + 1} {
			key := name + itoa(driver.Instant(lives))
			_, image := tbl.touchedForAnHour(t, key, session{User: "first"})
			var overwritten attrs
			for i := range lives {
				next := expired.Add(time.Duration(i) * 2 * time.Hour)
				end(key)
				tbl.nextLife(t, key, session{User: "next"}, next)
				if i == 0 && name == "overwritten" {
					overwritten = tbl.raw(t, key)
				}
			}
			late := expired.Add(time.Minute).Time()
			dead, err := tbl.DeadIn(t.Context(), []Change{{Old: image, New: overwritten, At: late, ByTTL: name == "removed"}})
			if err != nil || len(dead) != 1 {
				t.Fatalf("%s: %+v, %v", key, dead, err)
			}
			switch d := dead[0]; {
			case lives > mostFormer:
				if !errors.Is(d.Problem, driver.ErrInvalid) {
					t.Errorf("%s: after more lives than the life item has it is told as %+v", key, d)
				}
			case d.At != expired || d.Deleted || d.ExpiresAt != expired || d.Problem != nil:
				t.Errorf("%s died at %v, deleted %t, expiry %v, problem %v; want %v", key, d.At.Time(), d.Deleted, d.ExpiresAt.Time(), d.Problem, expired.Time())
			}
		}
	}
}

// A life that was never touched leaves its predecessor's expiry, also when it is ended for the next one.
func TestLifeTableDeadBeforeUntouched(t *testing.T) {
	tbl := open[session](t, apartly())
	expired := base.Add(time.Hour)
	_, first := tbl.touchedForAnHour(t, "k", session{})
	tbl.removeItem(t, tbl.Driver.table, "k")
	tbl.mustInsert(t, "k", session{}, driver.Life{CreatedAt: expired, ExpiresAt: expired.Add(time.Minute)}, expired)
	second := tbl.raw(t, "k")
	tbl.nextLife(t, "k", session{}, expired.Add(time.Hour))
	late := expired.Add(time.Hour).Time()
	dead, err := tbl.DeadIn(t.Context(), []Change{{Old: first, At: late, ByTTL: true}, {Old: second, New: tbl.raw(t, "k"), At: late}})
	if err != nil || len(dead) != 2 || dead[0].At != expired || dead[1].At != expired.Add(time.Minute) || dead[0].Deleted || dead[1].Deleted {
		t.Errorf("they are told as %+v, %v", dead, err)
	}
}

// An overwrite that gives the life item its own life leaves the predecessor's expiry there.
func TestLifeTableDeadBeforeSettled(t *testing.T) {
	tbl := open[session](t, apartly())
	expired := base.Add(time.Hour)
	_, image := tbl.touchedForAnHour(t, "k", session{})
	tbl.removeItem(t, tbl.Driver.table, "k")
	m := tbl.mustInsert(t, "k", session{}, driver.Life{CreatedAt: expired, ExpiresAt: expired.Add(time.Hour)}, expired)
	for left := 50 * time.Minute; left > 0; left -= 5 * time.Minute { // each shortens the life
		life := driver.Life{CreatedAt: expired, ExpiresAt: expired.Add(left)}
		version, err := tbl.Replace(t.Context(), "k", session{}, m, life, expired)
		if err != nil {
			t.Fatal(err)
		}
		m = driver.Meta{Life: life, Version: version}
	}
	tbl.wantMeta(t, "shortened", "k", m)
	dead, err := tbl.DeadIn(t.Context(), []Change{{Old: image, At: expired.Add(time.Minute).Time(), ByTTL: true}})
	if err != nil || len(dead) != 1 || dead[0].At != expired || dead[0].Deleted || dead[0].Problem != nil {
		t.Errorf("it is told as %+v, %v", dead, err)
	}
}

// A record that was deleted alive did not die at the expiry of its last write, also if the key has been
// inserted and touched again since.
func TestLifeTableDeletedAlive(t *testing.T) {
	for _, deletes := range []bool{false, true} {
		opts := apartly()
		opts.Deletes = deletes
		tbl := open[session](t, opts)
		m, image := tbl.touchedForAnHour(t, "k", session{})
		large := session{User: strings.Repeat("x", 401<<10)} // an overwrite that is refused leaves no trace
		if _, err := tbl.Replace(t.Context(), "k", large, m, lasting(10*time.Minute), base); !errors.Is(err, driver.ErrInvalid) {
			t.Fatal(err)
		}
		if err := tbl.Delete(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		deleted := base.Add(30 * time.Minute)
		tbl.nextLife(t, "k", session{}, deleted)
		dead, err := tbl.DeadIn(t.Context(), []Change{{Old: image, At: deleted.Time()}})
		if err != nil || len(dead) != map[bool]int{true: 1}[deletes] || deletes && (dead[0].At != deleted || !dead[0].Deleted) {
			t.Errorf("with Deletes %t it is told as %+v, %v", deletes, dead, err)
		}
	}
}

// What a reader does not know of a life it says, and in a batch each image is looked up for itself.
func TestLifeTableDeadUnknown(t *testing.T) {
	tbl := open[session](t, apartly())
	_, image := tbl.touchedForAnHour(t, "k", session{})
	removal := Change{Old: image, At: base.Add(25 * time.Hour).Time(), ByTTL: true}
	dead, ok := tbl.Dead(removal)
	if !ok || !errors.Is(dead.Problem, driver.ErrInvalid) {
		t.Errorf("Dead, which does not read the life table: %+v, %t", dead, ok)
	}
	plain := tbl.like(t, without)
	if all, err := plain.DeadIn(t.Context(), []Change{removal}); err != nil || len(all) != 1 || !errors.Is(all[0].Problem, driver.ErrInvalid) {
		t.Errorf("without the option: %+v, %v", all, err)
	}
	if raw, err := plain.Raw(t.Context(), "k"); err != nil || !errors.Is(raw.Problem, driver.ErrInvalid) {
		t.Errorf("Raw without the option: %+v, %v", raw, err)
	}

	// The item was another program's when the batch began.
	foreign := Change{Old: attrs{"pk": text("k")}, New: image, At: base.Time()}
	if all, err := tbl.DeadIn(t.Context(), []Change{foreign, removal}); err != nil || len(all) != 1 || all[0].At != base.Add(time.Hour) {
		t.Errorf("after its adoption in the same batch: %+v, %v", all, err)
	}

	// A record without a life item was never touched. Its last write has its expiry.
	tbl.mustInsert(t, "never touched", session{}, lasting(time.Minute), base)
	never := Change{Old: tbl.raw(t, "never touched"), At: removal.At, ByTTL: true}
	if all, err := tbl.DeadIn(t.Context(), []Change{never}); err != nil || len(all) != 1 || all[0].At != base.Add(time.Minute) || all[0].Problem != nil {
		t.Errorf("never touched: %+v, %v", all, err)
	}

	_, err := tbl.client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &tbl.opts.LifeTable, Item: attrs{"pk": text("k"), "ttl": text("tomorrow")}})
	if err != nil {
		t.Fatal(err)
	}
	if all, err := tbl.DeadIn(t.Context(), []Change{removal}); err != nil || len(all) != 1 || !errors.Is(all[0].Problem, driver.ErrInvalid) {
		t.Errorf("with a life item that cannot be read: %+v, %v", all, err)
	}
	// DynamoDB removes a life item 14 days after its value's item was due, so only if the value's item
	// goes even later is the expiry of the last write what the store has: the death is dated too early.
	tbl.removeItem(t, tbl.opts.LifeTable, "k")
	if all, err := tbl.DeadIn(t.Context(), []Change{removal}); err != nil || len(all) != 1 || all[0].At != base.Add(time.Minute) {
		t.Errorf("after its life item is gone: %+v, %v", all, err)
	}
}

// A Stream tells the true expiry of a record that the TTL service removed, and of one that was reaped,
// and each record once.
func TestLifeTableStream(t *testing.T) {
	t.Parallel() // it waits for the emulator's TTL
	server := dynamodbtest.StartTTL(t)
	d := streamed(t, server, types.StreamViewTypeNewAndOldImages, &Options{LifeTable: server.Table(t), Hold: time.Hour})
	now := driver.Floor(time.Now()).RoundUp(time.Second)
	created := now.Add(-3 * time.Hour)
	life := func(ttl time.Duration) driver.Life {
		return driver.Life{CreatedAt: created, ExpiresAt: created.Add(ttl)}
	}
	for _, key := range []string{"by ttl", "reaped"} {
		v, err := d.Insert(t.Context(), key, session{User: key}, life(time.Minute), created)
		if err == nil {
			_, err = d.Touch(t.Context(), key, driver.Meta{Life: life(time.Minute), Version: v}, life(50*time.Minute), created)
		}
		if err == nil && key == "reaped" {
			err = d.Delete(t.Context(), key)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	g := graves{buried: make(chan struct{}, 1)}
	s, err := d.Stream(server.Streams(), g.options())
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"by ttl", "reaped"}
	g.follow(t, s, want)
	for _, key := range want {
		if got := g.dead[key]; len(got) != 1 || got[0].At != life(50*time.Minute).ExpiresAt || got[0].Deleted || got[0].Life != life(50*time.Minute) || got[0].Problem != nil {
			t.Errorf("%s was buried as %+v", key, got)
		}
	}
}
