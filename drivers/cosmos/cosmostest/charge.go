package cosmostest

import "strings"

// The model of a request's charge. From Microsoft: a point read costs 1 unit for 1 KB and 10 for
// 100 KB; an insert without indexing 5.5 and 50; each indexed property 0.2; a replace two
// inserts; reads twice as much under Strong and Bounded Staleness. Sizes between are
// interpolated. This package assumes that a delete costs an insert, a patch a replace in which
// only the patched properties are indexed again, and a request that finds nothing, conflicts or
// fails its condition a read. It assumes the charge of a query too. Source:
// https://learn.microsoft.com/azure/cosmos-db/optimize-cost-reads-writes
const (
	missCharge  = 1.0
	queryCharge = 2.3 // a page, plus 3 % of point reads of the items that it examined
	queryShare  = 0.03
	indexCharge = 0.2
)

// line interpolates the charge of size bytes: one for 1 KB, and hundred for 100 KB.
func line(size int, one, hundred float64) float64 {
	kb := max(float64(size)/1024, 1)
	return one + (kb-1)*(hundred-one)/99
}

func readCharge(size int) float64 { return line(size, 1, 10) }
func sizeCharge(size int) float64 { return line(size, 5.5, 50) }

func (n *container) insertCharge(i *item) float64 {
	return sizeCharge(len(i.body)) + indexCharge*float64(n.indexing.count(leaves(i.doc, "", nil)))
}

// leaves adds the paths of all values in doc that are neither objects nor arrays, without
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

// count returns how many of paths are indexed. The most precise of the policy's paths decides.
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

// longest returns a number that is greater the longer the longest of rules is that matches path, and
// greater with /? than with /*; -1 if none does.
func longest(rules []indexPath, path string) int {
	most := -1
	for _, rule := range rules {
		text := strings.ReplaceAll(rule.Path, `"`, "")
		prefix, all := strings.CutSuffix(text, "/*")
		exact := strings.TrimSuffix(text, "/?")
		if all && (path == prefix || strings.HasPrefix(path, prefix+"/")) {
			most = max(most, 2*len(prefix))
		} else if !all && path == exact {
			most = max(most, 2*len(exact)+1)
		}
	}
	return most
}
