package cosmos

import (
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/slidingttl/slidingttl/drivers/cosmos/cosmostest"
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
		"TTL off":              {with: func(p *azcosmos.ContainerProperties) { p.DefaultTimeToLive = nil }, mentions: []string{"DefaultTimeToLive is absent"}},
		"a short default":      {with: func(p *azcosmos.ContainerProperties) { p.DefaultTimeToLive = to.Ptr[int32](3600) }, mentions: []string{"DefaultTimeToLive is 3600 s", "2160h"}},
		"touches indexed":      {with: func(p *azcosmos.ContainerProperties) { p.IndexingPolicy = nil }, mentions: []string{"with /expires_at", "with /ttl"}},
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
