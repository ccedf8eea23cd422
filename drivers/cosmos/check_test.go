package cosmos

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/slidingttl/slidingttl/drivers/cosmos/cosmostest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Check finds each setting that breaks a promise, and all of them at once.
func TestCheck(t *testing.T) {
	const longest = 90 * 24 * time.Hour
	for name, tt := range map[string]struct {
		account  cosmostest.Options
		opts     Options
		off      time.Duration
		with     func(p *azcosmos.ContainerProperties)
		mentions []string // none: nothing is wrong
	}{
		"as it should be": {},
		"a long default":  {with: func(p *azcosmos.ContainerProperties) { p.DefaultTimeToLive = to.Ptr(int32(longest / time.Second)) }},
		"strong":          {account: cosmostest.Options{Consistency: azcosmos.ConsistencyLevelStrong}},
		"nothing is indexed": {with: func(p *azcosmos.ContainerProperties) {
			p.IndexingPolicy.IncludedPaths, p.IndexingPolicy.ExcludedPaths = nil, []azcosmos.ExcludedPath{{Path: "/*"}}
		}},
		"TTL off":         {with: func(p *azcosmos.ContainerProperties) { p.DefaultTimeToLive = nil }, mentions: []string{"DefaultTimeToLive is absent"}},
		"a short default": {with: func(p *azcosmos.ContainerProperties) { p.DefaultTimeToLive = to.Ptr[int32](3600) }, mentions: []string{"DefaultTimeToLive is 3600 s", "2160h"}},
		"touches indexed": {with: func(p *azcosmos.ContainerProperties) { p.IndexingPolicy = nil }, mentions: []string{"with /expires_at", "with /ttl"}},
		"a composite index": {with: func(p *azcosmos.ContainerProperties) {
			p.IndexingPolicy.CompositeIndexes = [][]azcosmos.CompositeIndex{{{Path: "/user", Order: azcosmos.CompositeIndexAscending}, {Path: `/"expires_at"`, Order: azcosmos.CompositeIndexDescending}}}
		}, mentions: []string{"with /expires_at", "composite"}},
		"a composite index of others": {with: func(p *azcosmos.ContainerProperties) {
			p.IndexingPolicy.CompositeIndexes = [][]azcosmos.CompositeIndex{{{Path: "/user"}, {Path: "/expires_at/first"}}}
		}},
		"excluded more precisely": {with: func(p *azcosmos.ContainerProperties) {
			p.IndexingPolicy.IncludedPaths = []azcosmos.IncludedPath{{Path: "/*"}, {Path: "/expires_at/*"}}
		}},
		"included more precisely": {with: func(p *azcosmos.ContainerProperties) {
			p.IndexingPolicy.IncludedPaths = []azcosmos.IncludedPath{{Path: "/*"}, {Path: "/expires_at/?"}}
			p.IndexingPolicy.ExcludedPaths[0].Path = "/expires_at/*"
		}, mentions: []string{"with /expires_at"}},
		"a name with a dash":   {opts: Options{ExpiresAt: "expires-at"}},
		"another property":     {opts: Options{ExpiresAt: "dies"}, with: func(p *azcosmos.ContainerProperties) { p.IndexingPolicy.ExcludedPaths[0].Path = "/expires_at/?" }, mentions: []string{"with /dies"}},
		"another key":          {with: func(p *azcosmos.ContainerProperties) { p.PartitionKeyDefinition.Paths = []string{"/tenant"} }, mentions: []string{"partition key is /tenant: must be /id"}},
		"eventual":             {account: cosmostest.Options{Consistency: azcosmos.ConsistencyLevelEventual}, mentions: []string{"consistency is below Session"}},
		"consistent prefix":    {account: cosmostest.Options{Consistency: azcosmos.ConsistencyLevelConsistentPrefix}, mentions: []string{"consistency is below Session"}},
		"writes in many":       {account: cosmostest.Options{MultiRegionWrites: true}, mentions: []string{"writes in several regions"}},
		"a clock behind":       {off: time.Minute, mentions: []string{"system clock is at least", "behind Cosmos DB's"}},
		"a clock ahead":        {off: -time.Minute, mentions: []string{"system clock is at least", "ahead of Cosmos DB's"}},
		"a clock within range": {off: time.Minute, opts: Options{MaxSkew: 2 * time.Minute}},
		"all at once": {account: cosmostest.Options{Consistency: azcosmos.ConsistencyLevelEventual}, off: time.Hour, with: func(p *azcosmos.ContainerProperties) {
			p.DefaultTimeToLive, p.IndexingPolicy = nil, nil
		}, mentions: []string{"DefaultTimeToLive", "/ttl", "consistency", "clock"}},
	} {
		t.Run(name, func(t *testing.T) {
			account := cosmostest.StartWith(t, &tt.account)
			f := openOn[session](t, account, &tt.opts)
			account.SetTime(time.Time{})
			account.Advance(tt.off)
			p := f.Properties("")
			for _, excluded := range p.IndexingPolicy.ExcludedPaths {
				if name := strings.TrimSuffix(excluded.Path[1:], "/?"); strings.Contains(name, "-") != strings.Contains(name, `"`) {
					t.Errorf("the indexing policy has the path %s", excluded.Path)
				}
			}
			if tt.with != nil {
				tt.with(&p)
			}
			f.Driver.client = account.Container(t, p)
			err := f.Check(t.Context(), longest)
			if len(tt.mentions) == 0 {
				if err != nil {
					t.Errorf("Check: %v", err)
				}
				return
			}
			field := ""
			if err != nil {
				field = firstField(err)
			}
			wantInvalid(t, "Check", err, field, tt.mentions...)
		})
	}
}

// Check finds a key that may only read (401) and each right that a role lacks (403, 5300), and names the
// calls. Trying them changes nothing, whatever the partition key.
func TestCheckTriesRights(t *testing.T) {
	tenant := func(string) string { return "t" }
	layouts := map[string]*Options{
		"id":           nil,
		"another":      {PartitionKey: []KeyProperty{{Path: "/tenant", Of: tenant}}},
		"hierarchical": {PartitionKey: []KeyProperty{{Path: "/tenant", Of: tenant}, {Path: "/id"}}},
	}
	calls := map[cosmostest.Op]string{
		cosmostest.OpCreate: "create: ", cosmostest.OpPatch: "patch: ", cosmostest.OpDelete: "delete: ", cosmostest.OpQuery: "query: ",
	}
	writes := []cosmostest.Op{cosmostest.OpCreate, cosmostest.OpUpsert, cosmostest.OpReplace, cosmostest.OpPatch, cosmostest.OpDelete}
	for layout, opts := range layouts {
		f := open[session](t, opts)
		f.account.SetTime(time.Time{}) // the real one
		spent := f.account.Charge()
		sent := f.during(func() {
			if err := f.Check(t.Context(), time.Hour); err != nil {
				t.Errorf("%s: Check: %v", layout, err)
			}
		})
		if want := (cosmostest.Counts{ReadContainer: 1, Read: 1, Create: 1, Patch: 1, Delete: 1, Query: 1}); sent != want {
			t.Errorf("%s: Check sent %+v, want %+v", layout, sent, want)
		}
		if spent = f.account.Charge() - spent; spent < 7.2 || spent > 7.4 {
			t.Errorf("%s: Check cost %.2f request units, want 7.3 as the README says", layout, spent)
		}
		all, err := f.Segments(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		page, err := f.Scan(t.Context(), all[0], 10)
		if err != nil || len(page.Records)+page.Passed != 0 {
			t.Errorf("%s: Check left %+v, %v", layout, page, err)
		}
		refusals := map[*cosmostest.Fault][]cosmostest.Op{
			{Ops: writes, Status: http.StatusUnauthorized}: writes,
		}
		for op := range calls {
			refusals[&cosmostest.Fault{Ops: []cosmostest.Op{op}, Status: http.StatusForbidden, SubStatus: 5300}] = []cosmostest.Op{op}
		}
		for fault, refused := range refusals {
			fault.Count = 1000
			f.inject(t, *fault)
			err := f.Check(t.Context(), time.Hour)
			f.account.ClearFaults()
			if !errors.Is(err, driver.ErrRefused) {
				t.Errorf("%s: without %v Check returns %v, want ErrRefused", layout, refused, err)
				continue
			}
			for op, call := range calls {
				if names := strings.Contains(err.Error(), call); names != slices.Contains(refused, op) {
					t.Errorf("%s: without %v the error names %q: %t: %v", layout, refused, call, names, err)
				}
			}
		}
	}
}
