package main

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	goTest   = regexp.MustCompile("(?m)(?:cd ([a-z/]+) && )?go test ([^`\n#)]+)")
	ownFlag  = regexp.MustCompile(`^-([a-z]+[.-][a-z]+|removals|kills)$`)
	declared = regexp.MustCompile(`(?m)^func ((?:Test|Benchmark|Example|Fuzz)\w*)\(`)
)

// Each go test of a document finds its packages, and there the tests and flags that it names.
func TestDocumentedTests(t *testing.T) {
	tree := readTestTree(t)
	seen := 0
	for _, m := range tree.modules {
		for _, name := range m.files {
			if path.Ext(name) != ".md" {
				continue
			}
			for _, c := range goTest.FindAllStringSubmatch(tree.read(m, name), -1) {
				at, words := c[1], strings.Fields(c[2])
				if m.dir == "bench" && strings.Contains(c[2], " ./...") {
					at = m.dir
				}
				if tree.checkTest(t, path.Join(m.dir, name), at, words) {
					seen++
				}
			}
		}
	}
	if seen < 15 {
		t.Errorf("the documents have %d go tests", seen)
	}
}

// checkTest checks a go test with words in a folder. It returns false if that names no package.
func (tree *tree) checkTest(t *testing.T, document, at string, words []string) bool {
	t.Helper()
	i := slices.IndexFunc(words, func(w string) bool { return strings.HasPrefix(w, ".") && w != "." })
	if i < 0 {
		return false
	}
	dir, below := strings.CutSuffix(path.Join(at, words[i]), "/...")
	if dir = strings.TrimSuffix(dir, "..."); dir == "" {
		dir, below = ".", true
	}
	var source strings.Builder
	for _, m := range tree.modules {
		for _, f := range m.files {
			in := path.Dir(path.Join(m.dir, f))
			if strings.HasSuffix(f, "_test.go") && (in == dir || below && (dir == "." || strings.HasPrefix(in+"/", dir+"/"))) {
				source.WriteString(tree.read(m, f))
			}
		}
	}
	if source.Len() == 0 {
		t.Errorf("%s: there is no test in %s", document, dir)
	}
	for j, w := range words {
		value := ""
		if j+1 < len(words) {
			value = strings.Trim(words[j+1], "'")
		}
		switch f := ownFlag.FindStringSubmatch(w); {
		case w == "-run" && value != "-" && value != "^$", w == "-bench" && value != ".":
			pattern := regexp.MustCompile(strings.Split(value, "/")[0])
			if !slices.ContainsFunc(declared.FindAllStringSubmatch(source.String(), -1), func(d []string) bool { return pattern.MatchString(d[1]) }) {
				t.Errorf("%s: %s has no %s", document, dir, value)
			}
		case w == "-tags":
			if !regexp.MustCompile(`//go:build .*\b` + value).MatchString(source.String()) {
				t.Errorf("%s: %s has nothing with the tag %s", document, dir, value)
			}
		case f != nil && !strings.Contains(source.String(), `"`+f[1]+`"`):
			t.Errorf("%s: %s has no flag %s", document, dir, w)
		}
	}
	return true
}
