package cosmostest

import "strings"

// The model of what requests are charged. Microsoft gives a point read of 1 KB as 1 unit and
// one of 100 KB as 10, an insert without indexing as 5.5 and 50, 0.2 for each property that
// is indexed, a replace as two inserts, and reads as double under Strong and Bounded
// Staleness. Between is a straight line here. What a delete (an insert), a patch (a replace
// in which only the patched properties are indexed anew), what is not found, conflicts or
// fails on a condition (a read) and a query cost is this package's assumption. Source:
// https://learn.microsoft.com/azure/cosmos-db/optimize-cost-reads-writes
const (
	missCharge  = 1.0
	queryCharge = 2.3 // a page, beside 3 % of the point reads of what it looked at
	queryShare  = 0.03
	indexCharge = 0.2
)

// line is what size bytes cost where 1 KB is one and 100 KB hundred.
func line(size int, one, hundred float64) float64 {
	kb := max(float64(size)/1024, 1)
	return one + (kb-1)*(hundred-one)/99
}

func readCharge(size int) float64 { return line(size, 1, 10) }
func sizeCharge(size int) float64 { return line(size, 5.5, 50) }

func (n *container) insertCharge(i *item) float64 {
	return sizeCharge(len(i.body)) + indexCharge*float64(n.indexing.count(leaves(i.doc, "", nil)))
}

// leaves adds the paths of all values in doc that are neither objects nor arrays, but for
// those that the service adds.
func leaves(v any, path string, paths []string) []string {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			if path != "" || !strings.HasPrefix(name, "_") {
				paths = leaves(value, path+"/"+name, paths)
			}
		}
		return paths
	case []any:
		for _, value := range v {
			paths = leaves(value, path+"/[]", paths)
		}
		return paths
	}
	return append(paths, path)
}

// indexing is an indexing policy.
type indexing struct {
	Mode      string      `json:"indexingMode"`
	Automatic bool        `json:"automatic"`
	Included  []indexPath `json:"includedPaths"`
	Excluded  []indexPath `json:"excludedPaths"`
}

type indexPath struct {
	Path string `json:"path"`
}

// count is how many of paths are indexed. The most precise of the policy's paths decides.
func (x indexing) count(paths []string) (n int) {
	if strings.EqualFold(x.Mode, "none") {
		return 0
	}
	for _, path := range paths {
		if longest(x.Included, path) > longest(x.Excluded, path) {
			n++
		}
	}
	return n
}

// longest is how long the longest of rules is that is met by path, -1 if none is.
func longest(rules []indexPath, path string) int {
	most := -1
	for _, rule := range rules {
		text := strings.ReplaceAll(rule.Path, `"`, "")
		prefix, all := strings.CutSuffix(text, "/*")
		exact := strings.TrimSuffix(text, "/?")
		if all && (path == prefix || strings.HasPrefix(path, prefix+"/")) || !all && path == exact {
			most = max(most, len(text))
		}
	}
	return most
}
