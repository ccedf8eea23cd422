package cosmos

import (
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/slidingttl/slidingttl/drivers/cosmos/cosmostest"
)

// The container of the README's az command is one with which Check finds nothing wrong, and its
// Bicep describes the same.
func TestREADME(t *testing.T) {
	content, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	readme := string(content)
	find := func(pattern string) string {
		t.Helper()
		m := regexp.MustCompile(pattern).FindStringSubmatch(readme)
		if m == nil {
			t.Fatalf("the README has no %s", pattern)
		}
		return m[1]
	}
	account := cosmostest.Start(t)
	f := openOn[session](t, account, nil)
	account.SetTime(time.Time{}) // the real one
	want := f.Properties("sessions")
	indexed := new(azcosmos.IndexingPolicy)
	if err := json.Unmarshal([]byte(find(`--idx '(.*)'`)), indexed); err != nil {
		t.Fatal(err)
	}
	p := want
	p.IndexingPolicy = indexed
	p.PartitionKeyDefinition.Paths = []string{find(`--partition-key-path (\S+)`)}
	if ttl := find(`--ttl=(\S+)`); ttl != "-1" || find(`defaultTtl: (\S+)`) != ttl {
		t.Errorf("az has the TTL %s, and Bicep another, or it is not -1", ttl)
	}
	f.Driver.client = account.Container(t, p)
	if err := f.Check(t.Context(), time.Hour); err != nil {
		t.Error(err)
	}
	if !reflect.DeepEqual(indexed.ExcludedPaths, want.IndexingPolicy.ExcludedPaths) {
		t.Errorf("az leaves %v out of the index; want %v", indexed.ExcludedPaths, want.IndexingPolicy.ExcludedPaths)
	}
	var bicep []azcosmos.ExcludedPath
	for _, m := range regexp.MustCompile(`path: '([^']+)'`).FindAllStringSubmatch(find(`excludedPaths: (\[.*\])`), -1) {
		bicep = append(bicep, azcosmos.ExcludedPath{Path: m[1]})
	}
	if key := strings.Join(want.PartitionKeyDefinition.Paths, ", "); !reflect.DeepEqual(bicep, want.IndexingPolicy.ExcludedPaths) || find(`paths: \['(.*)'\]`) != key {
		t.Errorf("Bicep leaves %v out of the index, and has another key than %s", bicep, key)
	}
}
