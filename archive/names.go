package archive

import (
	"fmt"
	"path"
	"strconv"
	"strings"
)

// dataFile is a file of records, as its name and its listing describe it.
type dataFile struct {
	name   string
	size   int64
	rows   int64
	sum    string // of its bytes, in hex
	merged bool   // it holds several batches

	mark   string // of the batch in a file that is not merged
	number int    // of the manifest file that a merged file was written for
	work   bool   // name is a workName
	moves  bool   // it is due for another storage class
}

const (
	batchPrefix    = "batch-"
	mergePrefix    = "merged-"
	manifestPrefix = "_manifest-" // Hive, Athena and Spark skip names that begin with _
	dataSuffix     = ".parquet"
	manifestSuffix = ".json"
	workPrefix     = "_"
)

func batchName(d Day, mark string, rows int64, sum string) string {
	return fmt.Sprintf("%s%s%s-%d-%s%s", d.directory(), batchPrefix, mark, rows, sum, dataSuffix)
}

// mergeName is the name of a merged file. Where a damaged file has it, more zeros, again of them, make another one.
func mergeName(d Day, number int, rows int64, sum string, again int) string {
	return fmt.Sprintf("%s%s%s%06d-%d-%s%s", d.directory(), mergePrefix, strings.Repeat("0", again), number, rows, sum, dataSuffix)
}

// workName is a merged file's name until a manifest file names it. Engines that read *.parquet
// do not see the file before.
func workName(name string) string {
	dir, base := path.Split(name)
	return dir + workPrefix + strings.TrimSuffix(base, dataSuffix)
}

// own returns the name that f gets once a manifest file names it.
func (f *dataFile) own() string {
	if !f.work {
		return f.name
	}
	dir, base := path.Split(f.name)
	return dir + strings.TrimPrefix(base, workPrefix) + dataSuffix
}

func manifestName(d Day, number int) string {
	return fmt.Sprintf("%s%s%06d%s", d.directory(), manifestPrefix, number, manifestSuffix)
}

// parseFile reads a data file's name, without its directory.
func parseFile(i Info, base string) (f dataFile, ok bool) {
	f = dataFile{name: i.Name, size: i.Size, moves: i.Moves}
	rest, ok := strings.CutSuffix(base, dataSuffix)
	if !ok {
		if rest, f.work = strings.CutPrefix(base, workPrefix); !f.work {
			return f, false
		}
	}
	parts := strings.Split(rest, "-")
	if len(parts) != 4 || len(parts[3]) != 64 {
		return f, false
	}
	var err error
	if f.rows, err = strconv.ParseInt(parts[2], 10, 64); err != nil {
		return f, false
	}
	f.sum = parts[3]
	switch parts[0] + "-" {
	case batchPrefix:
		f.mark = parts[1]
		return f, len(f.mark) == 32 && !f.work
	case mergePrefix:
		f.merged = true
		f.number, err = strconv.Atoi(parts[1])
		return f, err == nil
	}
	return f, false
}

// parseManifest reads a manifest file's number from its name.
func parseManifest(base string) (number int, ok bool) {
	rest, named := strings.CutPrefix(base, manifestPrefix)
	rest, ended := strings.CutSuffix(rest, manifestSuffix)
	number, err := strconv.Atoi(rest)
	return number, named && ended && err == nil && number > 0
}
