package cosmos

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/slidingttl/slidingttl/drivers/cosmos/cosmostest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// TestOpinions runs on cosmostest what TestSecondOpinion runs on another server.
func TestOpinions(t *testing.T) {
	account := cosmostest.Start(t)
	shape, err := New[session](&azcosmos.ContainerClient{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	opinions(t, account.Container(t, shape.Properties("")))
}

// opinions checks what the driver requires of a server: creates that conflict, replacements,
// deletes and patches for an _etag, and patches on a condition, by the driver's own calls.
func opinions(t *testing.T, container *azcosmos.ContainerClient) {
	open := func() *Driver[session] {
		d, err := New[session](container, nil)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	now := driver.Floor(time.Now()).RoundUp(time.Second)
	life := func(ttl time.Duration) driver.Life { return driver.Life{CreatedAt: now, ExpiresAt: now.Add(ttl)} }
	ctx := t.Context()
	insert := func(key string, l driver.Life) driver.Meta {
		t.Helper()
		version, err := open().Insert(ctx, key, session{User: "ann"}, l, now)
		if err != nil {
			t.Fatal(err)
		}
		return driver.Meta{Life: l, Version: version}
	}
	stored := func(what, key string, want driver.Meta, user string) {
		t.Helper()
		e, err := open().Get(ctx, key)
		if err != nil || e.Meta != want || e.Value.User != user {
			t.Errorf("%s: Get returns %+v, %v; want %+v of %s", what, e, err, want, user)
		}
	}

	m := insert("k", life(time.Hour))
	stored("after Insert", "k", m, "ann")
	_, err := open().Insert(ctx, "k", session{}, life(time.Hour), now)
	wantConflict(t, "Insert over a live record", err, m)

	user := "ann"
	for i, name := range []string{"that knows nothing", "that has read it"} {
		d := open()
		if i == 1 {
			if _, err := d.Get(ctx, "k"); err != nil {
				t.Fatal(err)
			}
		}
		l := life(time.Duration(i+2) * time.Hour)
		version, err := d.Touch(ctx, "k", m, l, now)
		if err != nil {
			t.Fatalf("Touch by a driver %s: %v", name, err)
		}
		touched := driver.Meta{Life: l, Version: version}
		stored("after Touch", "k", touched, user)
		_, err = d.Touch(ctx, "k", m, life(5*time.Hour), now)
		wantConflict(t, "Touch of what was before, by a driver "+name, err, touched)
		_, err = d.Replace(ctx, "k", session{User: "eve"}, m, l, now)
		wantConflict(t, "Replace of what was before, by a driver "+name, err, touched)
		wantConflict(t, "Remove of what was before, by a driver "+name, d.Remove(ctx, "k", m, now), touched)
		user = name
		version, err = d.Replace(ctx, "k", session{User: user}, touched, l, now)
		if err != nil {
			t.Fatalf("Replace by a driver %s: %v", name, err)
		}
		m = driver.Meta{Life: l, Version: version}
		stored("after Replace", "k", m, user)
		_, err = d.Touch(ctx, "k", touched, life(3*time.Hour), now)
		wantConflict(t, "Touch planned for another version, by a driver "+name, err, m)
	}

	if err := open().Remove(ctx, "k", m, now); err != nil {
		t.Errorf("Remove: %v", err)
	}
	_, err = open().Touch(ctx, "k", m, life(time.Hour), now)
	wantNotFound(t, "Touch of what was removed", err)
	if err := open().Delete(ctx, "k"); err != nil {
		t.Errorf("Delete of what was removed: %v", err)
	}

	insert("dead", life(time.Second))
	later := now.Add(time.Minute)
	l := driver.Life{CreatedAt: later, ExpiresAt: later.Add(time.Hour)}
	version, err := open().Insert(ctx, "dead", session{User: "bob"}, l, later)
	if err != nil {
		t.Fatalf("Insert over a dead record: %v", err)
	}
	stored("after Insert over a dead record", "dead", driver.Meta{Life: l, Version: version}, "bob")

	_, err = container.CreateItem(ctx, azcosmos.NewPartitionKeyString("theirs"), []byte(`{"id":"theirs","user":"ann"}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := open().Get(ctx, "theirs")
	if err != nil || theirs.Life != (driver.Life{}) {
		t.Fatalf("Get of another program's record returns %+v, %v", theirs, err)
	}
	version, err = open().Touch(ctx, "theirs", theirs.Meta, life(time.Hour), now)
	if err != nil {
		t.Fatalf("adopting another program's record: %v", err)
	}
	stored("after its adoption", "theirs", driver.Meta{Life: life(time.Hour), Version: version}, "ann")

	never := azcore.ETag(`"never"`)
	_, err = container.DeleteItem(ctx, azcosmos.NewPartitionKeyString("theirs"), "theirs", &azcosmos.ItemOptions{IfMatchEtag: &never})
	var answer *azcore.ResponseError
	if !errors.As(err, &answer) || answer.StatusCode != http.StatusPreconditionFailed {
		t.Errorf("a delete for an _etag that no item has: %v, want 412", err)
	}
}
