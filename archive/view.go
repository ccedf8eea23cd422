package archive

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// views are statements for SQL engines, with places for the files, a glob of them, and how to see each
// life once. The names of files are those that the engine has.
var views = map[string]string{
	"duckdb": `CREATE OR REPLACE VIEW lives AS
SELECT * FROM read_parquet([
%[1]s
], hive_partitioning = true, union_by_name = true)
QUALIFY row_number() OVER (PARTITION BY %[3]s) = 1;
`,
	"clickhouse": `CREATE OR REPLACE VIEW lives AS
SELECT * FROM %[2]s
WHERE _path IN (
%[1]s
)
ORDER BY expired_at DESC, archived_at DESC LIMIT 1 BY day, source, key, generation
SETTINGS use_hive_partitioning = 1, schema_inference_mode = 'union';
`,
	"athena": `CREATE OR REPLACE VIEW lives AS
SELECT * FROM (
    SELECT *, row_number() OVER (PARTITION BY %[3]s) AS nth FROM dead WHERE "$path" IN (
%[1]s
)) WHERE nth = 1;
`,
}

// View returns the statement that makes the view lives in an engine: duckdb, clickhouse or athena.
//
// The view has each life once, of the files that count now, so nothing that was forgotten. Run it again after Compact or Forget. The engine finds the archive under root, a path or s3://bucket/prefix/;
// Athena has the table dead of docs/queries.md; no test runs its statement. url is that of the bucket, for
// ClickHouse: https://links.s3.eu-central-1.amazonaws.com.
func (r *Reader) View(ctx context.Context, engine, root, url string, span Span) (string, error) {
	view, ok := views[engine]
	if !ok {
		return "", &driver.InvalidError{Field: "engine", Value: strconv.Quote(engine), Rule: "must be duckdb, clickhouse or athena"}
	}
	if strings.Contains("/"+root, "/day=") { // DuckDB takes the first one for the day
		return "", &driver.InvalidError{Field: "root", Value: strconv.Quote(root), Rule: "must have no element that begins with day="}
	}
	days, err := r.manifests(ctx, span)
	if err != nil {
		return "", err
	}
	quoted := func(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
	root = strings.TrimSuffix(root, "/") + "/"
	bucket, inS3 := strings.CutPrefix(root, "s3://")
	prefix, glob := root, "file("+quoted(root+"day=*/*.parquet")+", Parquet)"
	if inS3 && engine == "clickhouse" {
		_, rest, _ := strings.Cut(bucket, "/")
		prefix, glob = bucket, "s3("+quoted(strings.TrimSuffix(url, "/")+"/"+rest+"day=*/*.parquet")+", 'Parquet')"
	}
	var files []string
	for _, m := range days {
		for _, f := range m.files {
			switch {
			case m.day == Quarantine:
			case f.work:
				return "", fmt.Errorf("%s has no name of its own yet: run compact", f.name)
			default:
				files = append(files, "    "+quoted(prefix+f.name))
			}
		}
	}
	if len(files) == 0 {
		return "", errors.New("the archive holds nothing of these days")
	}
	return fmt.Sprintf(view, strings.Join(files, ",\n"), glob, "day, source, \"key\", generation ORDER BY expired_at DESC, archived_at DESC"), nil
}
