package cosmostest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

func (f *fixture) query(t testing.TB, text string, key azcosmos.PartitionKey, o *azcosmos.QueryOptions) (rows []string, pages int) {
	t.Helper()
	pager := f.c.NewQueryItemsPager(text, key, o)
	for pager.More() {
		page, err := pager.NextPage(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		for _, row := range page.Items {
			rows = append(rows, string(row))
		}
		pages++
	}
	return rows, pages
}

func TestQueries(t *testing.T) {
	f := open(t, nil, azcosmos.ContainerProperties{PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{
		Paths: []string{"/tenant", "/user"}, Kind: azcosmos.PartitionKeyKindMultiHash, Version: 2,
	}})
	for i := range 7 {
		tenant, user := fmt.Sprint("t", i%2), fmt.Sprint("u", i%3)
		f.create(t, fmt.Sprintf(`{"id":"k%d","tenant":%q,"user":%q,"n":%d,"o":{"s":"a%d"}}`, i, tenant, user, i, i), tenant, user)
	}
	for text, want := range map[string]string{
		`SELECT c.id FROM c WHERE c.n >= 5`:                                           `{"id":"k5"} {"id":"k6"}`,
		`SELECT VALUE c.n FROM c WHERE c.n IN (1, 3, 99)`:                             `1 3`,
		`select c.n AS number, c["o"]["s"] from c where c.o.s = "a2"`:                 `{"number":2,"s":"a2"}`,
		`SELECT TOP 2 c.n FROM c`:                                                     `{"n":0} {"n":1}`,
		`SELECT VALUE r.n FROM items r WHERE r.n < 4 AND NOT (r.n = 1) OR r.n = 6`:    `0 2 3 6`,
		`SELECT VALUE c.n FROM c WHERE STARTSWITH(c.id, @prefix) AND c.n > @n`:        `5 6`,
		`SELECT VALUE c.n FROM c WHERE IS_DEFINED(c.none) OR c.none = 1 OR c.n = "1"`: ``,
		`SELECT c.none FROM c WHERE c.n = 1`:                                          `{}`,
	} {
		rows, _ := f.query(t, text, azcosmos.NewPartitionKey(), &azcosmos.QueryOptions{QueryParameters: []azcosmos.QueryParameter{{Name: "@prefix", Value: "k"}, {Name: "@n", Value: 4}}})
		if got := strings.Join(rows, " "); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	if rows, pages := f.query(t, `SELECT VALUE c.n FROM c`, azcosmos.NewPartitionKey(), &azcosmos.QueryOptions{PageSizeHint: 3}); len(rows) != 7 || pages != 3 {
		t.Errorf("%d rows in %d pages, want 7 in 3", len(rows), pages)
	}
	if rows, _ := f.query(t, `SELECT VALUE c.n FROM c`, pk("t1", "u0"), nil); strings.Join(rows, " ") != "3" {
		t.Errorf("of one partition key came %v", rows)
	}
	if rows, _ := f.query(t, `SELECT VALUE c.n FROM c`, pk("t1"), nil); strings.Join(rows, " ") != "1 3 5" {
		t.Errorf("of the first level of a partition key came %v", rows)
	}
	for _, bad := range []string{`SELECT`, `SELECT * FROM`, `SELECT * FROM c WHERE`, `SELECT * FROM c WHERE c.a ==`, `SELECT SUM(c.n) FROM c`, `SELECT * FROM c WHERE d.n = 1`, `SELECT * FROM c ORDER BY c.n`, `SELECT * FROM c WHERE c.n = 'a`} {
		_, err := f.c.NewQueryItemsPager(bad, azcosmos.NewPartitionKey(), nil).NextPage(t.Context())
		wantStatus(t, bad, err, 400, "")
	}
	many, err := f.c.ReadManyItems(t.Context(), []azcosmos.ItemIdentity{
		{ID: "k1", PartitionKey: pk("t1", "u1")}, {ID: "k6", PartitionKey: pk("t0", "u0")}, {ID: "k2", PartitionKey: pk("t1", "u1")},
	}, nil)
	if err != nil || len(many.Items) != 2 {
		t.Errorf("ReadManyItems returns %d items, %v; want 2", len(many.Items), err)
	}
}
