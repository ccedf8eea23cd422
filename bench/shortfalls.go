package main

import "regexp"

// shortfalls say why figures miss their targets, by their names. The first that fits holds. A figure that is short without
// one is news.
var shortfalls = []struct {
	figure *regexp.Regexp
	why    string
}{
	{regexp.MustCompile(`^redis/zipf/.*/throughput-vs-pipeline$`), "a bare GET is at most 1.08 of GET and PEXPIRE in one pipeline, for that is one trip too: what is saved is the server's write"},
	{regexp.MustCompile(`^redis/zipf/.*/throughput-vs-scs$`), "a bare GET is 1.4 of scs by one reader, and 1.9 by 16: the target is more than reading alone can save"},
	{regexp.MustCompile(`^postgres-fsync/.*/due-throughput-vs-bare$`), "a due read is an UPDATE, which locks, writes and logs a row; the flush is not waited for"},
	{regexp.MustCompile(`^sqlite/.*/due-throughput-vs-naive$`), "in the process there is no trip to save"},
	{regexp.MustCompile(`^postgres/.*/due-throughput-vs-naive$`), "16 clients keep the server's cores busy with updates, of which both make one a read; by one client the trip that is saved shows"},
	{regexp.MustCompile(`^rows/touch/sweep-index-growth$`), "of 0.1 MB, by the touches that move sweep_at, which are no HOT updates"},
	{regexp.MustCompile(`^follow/.*/of-best-by-hand$`), "the way up from 20 writes a second counts in the 15 minutes"},
	{regexp.MustCompile(`^follow/.*/p99$`), "it goes by the p95 of its own writes against that of its first minute (1.15), and not by live calls"},
	{regexp.MustCompile(`^hot/.*/reads-vs-what-hits-allow$`), "a hit costs 1 to 2 µs more than in otter alone; the target is of the rate that trips alone would allow"},
	{regexp.MustCompile(`/throughput-vs-bare$`), "the library's own work, on two cores that client and server share"},
}

// why returns the reason for a shortfall; empty if there is none yet.
func why(figure string) string {
	for _, s := range shortfalls {
		if s.figure.MatchString(figure) {
			return s.why
		}
	}
	return ""
}
