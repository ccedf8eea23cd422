package cosmostest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// many creates count items and returns the keys to read all of them.
func (f *fixture) many(t *testing.T, count int, key func(i int) []string) (all []azcosmos.ItemIdentity) {
	t.Helper()
	for i := range count {
		id := fmt.Sprint("k", i)
		levels := key(i)
		f.create(t, fmt.Sprintf(`{"id":%q,"tenant":%q,"n":%d}`, id, levels[0], i), levels...)
		all = append(all, azcosmos.ItemIdentity{ID: id, PartitionKey: pk(levels...)})
	}
	return all
}

func byID(i int) []string { return []string{fmt.Sprint("k", i)} }

// ReadMany finds items by the hash that azcosmos computes from a partition key, so the account
// must compute the same one. After a split azcosmos finds the new physical partitions.
func TestReadManyAcrossASplit(t *testing.T) {
	for name, tt := range map[string]struct {
		definition azcosmos.PartitionKeyDefinition
		key        func(i int) []string
	}{
		"a key": {azcosmos.PartitionKeyDefinition{Paths: []string{"/id"}, Version: 2}, byID},
		"a hierarchical key": {
			azcosmos.PartitionKeyDefinition{Paths: []string{"/tenant", "/id"}, Kind: azcosmos.PartitionKeyKindMultiHash, Version: 2},
			func(i int) []string { return []string{fmt.Sprint("a tenant of more than 16 bytes", i), byID(i)[0]} },
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := open(t, &Options{Partitions: 2}, azcosmos.ContainerProperties{PartitionKeyDefinition: tt.definition})
			all := f.many(t, 50, tt.key)
			for splits := range 3 {
				before := f.Counts()
				res, err := f.c.ReadManyItems(t.Context(), all, nil)
				if err != nil || len(res.Items) != len(all) {
					t.Fatalf("after %d splits: %d items, %v; want %d", splits, len(res.Items), err, len(all))
				}
				if n := f.Counts().Since(before).Query; n < 2<<splits {
					t.Errorf("after %d splits: %d queries, want one for each physical partition", splits, n)
				}
				f.Split()
			}
		})
	}
	f := open(t, &Options{Partitions: 2}, azcosmos.ContainerProperties{})
	all := f.many(t, 20, byID)
	f.Split()
	if err := f.Inject(Fault{Ops: []Op{OpQuery}, Status: http.StatusGone, SubStatus: 1007}); err != nil {
		t.Fatal(err)
	}
	if res, err := f.c.ReadManyItems(t.Context(), all, nil); err != nil || len(res.Items) != len(all) {
		t.Errorf("while a split goes on: %d items, %v; want %d", len(res.Items), err, len(all))
	}
}

// A container that is created with a throughput begins with the physical partitions that provide it.
func TestPartitionsOfThroughput(t *testing.T) {
	f := open(t, nil, azcosmos.ContainerProperties{})
	for units, want := range map[int32]uint64{400: 1, 10_000: 1, 20_100: 3} {
		db, err := f.Client(t).NewDatabase(databaseID)
		if err != nil {
			t.Fatal(err)
		}
		id, throughput := fmt.Sprint("of", units), azcosmos.NewManualThroughputProperties(units)
		properties := azcosmos.ContainerProperties{ID: id, PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/id"}, Version: 2}}
		if _, err := db.CreateContainer(t.Context(), properties, &azcosmos.CreateContainerOptions{ThroughputProperties: &throughput}); err != nil {
			t.Fatal(err)
		}
		if f.c, err = db.NewContainer(id); err != nil {
			t.Fatal(err)
		}
		all := f.many(t, 50, byID)
		before := f.Counts()
		if res, err := f.c.ReadManyItems(t.Context(), all, nil); err != nil || len(res.Items) != len(all) {
			t.Fatalf("%d items, %v; want %d", len(res.Items), err, len(all))
		}
		if n := f.Counts().Since(before).Query; n != want {
			t.Errorf("at %d RU/s %d physical partitions are queried, want %d", units, n, want)
		}
	}
}

// A query that began before a split returns each item once.
func TestQueryAcrossASplit(t *testing.T) {
	f := open(t, &Options{Partitions: 2}, azcosmos.ContainerProperties{})
	f.many(t, 40, byID)
	for _, text := range []string{`SELECT VALUE c.n FROM c`, `SELECT VALUE c.n FROM c WHERE c.n >= 0`} {
		var rows []string
		pages := 0
		pager := f.c.NewQueryItemsPager(text, azcosmos.NewPartitionKey(), &azcosmos.QueryOptions{PageSizeHint: 3})
		for ; pager.More(); pages++ {
			page, err := pager.NextPage(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, row := range page.Items {
				rows = append(rows, string(row))
			}
			if pages == 1 || pages == 7 {
				f.Split()
			}
		}
		slices.Sort(rows)
		if n := len(rows); n != 40 || len(slices.Compact(rows)) != 40 || pages < 14 {
			t.Errorf("%s: %d rows, %d of them different, in %d pages; want 40", text, n, len(slices.Compact(rows)), pages)
		}
		if rows, _ := f.query(t, "SELECT TOP 7 VALUE c.n FROM c", azcosmos.NewPartitionKey(), nil); len(rows) != 7 {
			t.Errorf("TOP 7 returns %d", len(rows))
		}
	}
}

// After a split a session continues with the token of the former physical partition.
func TestSessionAcrossASplit(t *testing.T) {
	f := open(t, &Options{Partitions: 2}, azcosmos.ContainerProperties{})
	f.SetLag(true)
	f.create(t, `{"id":"k0","n":1}`, "k0")
	res, err := f.c.ReplaceItem(t.Context(), pk("k0"), "k0", []byte(`{"id":"k0","n":2}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	f.Split()
	for _, tt := range []struct {
		token *string
		want  string
	}{{nil, `"n":1`}, {res.SessionToken, `"n":2`}} {
		read, err := f.c.ReadItem(t.Context(), pk("k0"), "k0", &azcosmos.ItemOptions{SessionToken: tt.token})
		if err != nil || !strings.Contains(string(read.Value), tt.want) {
			t.Errorf("with the token %v: %s, %v; want %s", tt.token, read.Value, err, tt.want)
		}
	}
	part, lsn, _ := strings.Cut(*res.SessionToken, "#")
	var n int
	_, _ = fmt.Sscan(lsn, &n)
	_, err = f.c.ReadItem(t.Context(), pk("k0"), "k0", &azcosmos.ItemOptions{SessionToken: to.Ptr(fmt.Sprint(part, "#", n+1))})
	wantStatus(t, "a token of what is to come", err, 404, "1002")
}

// Writes go to the first region. The second one shows its own state, and answers 404 with 1002
// to a client whose token is newer; azcosmos then asks the first.
func TestSecondRegion(t *testing.T) {
	f := open(t, &Options{SecondRegion: true}, azcosmos.ContainerProperties{})
	near, err := f.Client(t, func(o *azcosmos.ClientOptions) { o.PreferredRegions = []string{ReadRegion, WriteRegion} }).NewContainer("test", f.c.ID())
	if err != nil {
		t.Fatal(err)
	}
	read := func(token *string) (string, Counts, error) {
		before := f.Counts()
		res, err := near.ReadItem(t.Context(), pk("k"), "k", &azcosmos.ItemOptions{SessionToken: token})
		return string(res.Value), f.Counts().Since(before), err
	}
	if _, err := near.CreateItem(t.Context(), pk("k"), []byte(`{"id":"k","n":1}`), nil); err != nil {
		t.Fatal(err)
	}
	f.SetRegionLag(true)
	f.Split() // what was behind stays so
	res, err := near.ReplaceItem(t.Context(), pk("k"), "k", []byte(`{"id":"k","n":2}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		what  string
		token *string
		n     string
		want  Counts
	}{
		{"behind, without a token", nil, `"n":1`, Counts{Read: 1, ReadRegion: 1}},
		{"behind, with a token", res.SessionToken, `"n":2`, Counts{Read: 2, ReadRegion: 1}},
		{"caught up", res.SessionToken, `"n":2`, Counts{Read: 1, ReadRegion: 1}},
	} {
		if tt.what == "caught up" {
			f.SetRegionLag(false)
		}
		if got, counts, err := read(tt.token); err != nil || !strings.Contains(got, tt.n) || counts != tt.want {
			t.Errorf("%s: %s, %+v, %v; want %s, %+v", tt.what, got, counts, err, tt.n, tt.want)
		}
	}
}

func TestBadOptions(t *testing.T) {
	for _, bad := range []Options{{Consistency: "x"}, {Partitions: -1}, {Partitions: hashes + 1}} {
		if a, err := New(&bad); err == nil {
			t.Errorf("%+v was taken", bad)
			_ = a.Close()
		}
	}
}
