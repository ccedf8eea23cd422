// Command mutants changes a package in one place at a time, runs the package's own
// tests on each change, and prints the changes that no test noticed:
//
//	go run ./internal/mutants -sample 200 -seed 1 ./middleware/session
//	go run ./internal/mutants -only 'token.go:[0-9]+: parseToken' ./middleware/session
//
// With -with it runs the tests of other packages too, on the same changes: of a package whose
// callers have its tests.
//
// gremlins says where and by which operator an expression is to be changed.
// It does not run the tests: it copies a module out of its workspace, where no
// module of this tree builds but the root, and counts a failed build as a mutant
// killed; a condition of a case it takes for untested, and a hang for no answer. It
// has no sample either, and removes no statements, so both are done here.
//
// A change that no test can notice stands in survivors.txt, with the reason.
package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path"
	"regexp"
	"slices"
	"strings"
)

// The lines are "place: operator: change | reason", as printed but for the line's number.
//
//go:embed survivors.txt
var survivors string

func main() {
	sample := flag.Int("sample", 200, "how many mutants to run")
	seed := flag.Int("seed", 1, "which mutants those are")
	only := flag.String("only", "", "run all mutants whose printed line matches this regular expression, in place of a sample")
	with := flag.String("with", "", "further packages whose tests are run, separated by spaces")
	skip := flag.String("skip", "", "tests that are left out, as in go test -skip")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := errors.New("usage: mutants [-sample N] [-seed N] [-only REGEXP] [-with PACKAGES] [-skip REGEXP] PACKAGE")
	if flag.NArg() == 1 {
		err = run(ctx, flag.Arg(0), strings.Fields(*with), *sample, *seed, *only, *skip)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, pkg string, with []string, sample, seed int, only, skip string) error {
	pattern, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	t, err := newTests(ctx, pkg, with, skip)
	if err != nil {
		return err
	}
	defer t.close()
	all, err := t.mutants(ctx)
	if err != nil {
		return err
	}
	reasons := explained()
	for id := range reasons {
		file, _, _ := strings.Cut(id, ":")
		if path.Dir(file) == t.place && !slices.ContainsFunc(all, func(m mutant) bool { return m.id == id }) {
			return fmt.Errorf("survivors.txt explains a mutant that there is not: %s", id)
		}
	}
	// By a hash of what is changed, a sample stays the same but for what was edited.
	draw := func(m mutant) string { h := sha256.Sum256(fmt.Append(nil, seed, m.id)); return string(h[:]) }
	slices.SortFunc(all, func(a, b mutant) int { return cmp.Compare(draw(a), draw(b)) })
	if only != "" {
		all = slices.DeleteFunc(all, func(m mutant) bool { return !pattern.MatchString(m.String()) })
		sample = len(all)
	}
	counts := map[outcome]int{}
	for _, m := range all {
		if counts[ran] == sample {
			break
		}
		o, by, err := t.try(ctx, m)
		if err != nil {
			return err
		}
		if reason, ok := reasons[m.id]; ok && (o == survived || o == uncovered) {
			o, by = unnoticeable, reason
		}
		counts[o]++
		if o != unviable {
			counts[ran]++
		}
		fmt.Printf("%s  %s%s\n", o, m, by)
	}
	left := counts[survived] + counts[uncovered]
	fmt.Printf("%s: %d of %d mutants, seed %d: %d killed, %d timed out, %d survived (%d of them not covered), %d explained; %d more did not compile\n",
		pkg, counts[ran], len(all), seed, counts[killed], counts[timedOut], left, counts[uncovered], counts[unnoticeable], counts[unviable])
	if left > 0 {
		return fmt.Errorf("%d survived: kill them by a test, delete them with their code, or explain them in internal/mutants/survivors.txt", left)
	}
	return nil
}

// explained returns the reasons of survivors.txt by mutant.
func explained() map[string]string {
	reasons := map[string]string{}
	for line := range strings.Lines(survivors) {
		if i := strings.LastIndex(line, " | "); i >= 0 {
			reasons[line[:i]] = strings.TrimRight(line[i:], "\n")
		}
	}
	return reasons
}
