package main

import (
	"bufio"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/mod/modfile"

	"github.com/slidingttl/slidingttl/bench/internal/runner"
	"github.com/slidingttl/slidingttl/internal/chart"
)

// document is all that is reported of one run.
type document struct {
	began   time.Time
	took    time.Duration
	quick   bool
	reports []runner.Report
}

// write writes the charts and RESULTS.md into dir, and readme's section if that is
// not empty.
func (d *document) write(dir, readme string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, r := range d.reports {
		for _, c := range r.Charts {
			if err := os.WriteFile(filepath.Join(dir, c.File+".svg"), []byte(c.SVG()), 0o644); err != nil {
				return err
			}
		}
	}
	results, err := d.results()
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "RESULTS.md"), []byte(results), 0o644); err != nil {
		return err
	}
	if readme == "" {
		return nil
	}
	text, err := os.ReadFile(readme)
	if err != nil {
		return err
	}
	rel, err := relative(filepath.Dir(readme), dir)
	if err != nil {
		return err
	}
	written, err := replaceSection(string(text), d.section(filepath.ToSlash(rel)))
	if err != nil {
		return fmt.Errorf("%s: %w", readme, err)
	}
	return os.WriteFile(readme, []byte(written), 0o644)
}

// relative returns the way from one directory to another.
func relative(from, to string) (string, error) {
	from, err := filepath.Abs(from)
	if err != nil {
		return "", err
	}
	if to, err = filepath.Abs(to); err != nil {
		return "", err
	}
	return filepath.Rel(from, to)
}

func (d *document) command() string {
	if d.quick {
		return "make bench-quick"
	}
	return "make bench"
}

func (d *document) results() (string, error) {
	modules, err := versions()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Results\n\nWritten by `%s`; see [README](README.md) for how it measures.\n\n", d.command())
	table(&b, runner.Table{Head: []string{"", ""}, Rows: [][]string{
		{"date", d.began.UTC().Format(time.DateOnly)},
		{"took", d.took.Round(time.Second).String()},
		{"machine", machine()},
		{"Go", runtime.Version()},
		{"libraries", strings.Join(modules, ", ")},
	}})
	b.WriteString("\n## Figures held against a target\n\n")
	table(&b, targets(d.reports))
	for _, r := range d.reports {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", r.Title, r.Text)
		for _, c := range r.Charts {
			fmt.Fprintf(&b, "\n![%s](%s.svg)\n", c.Title, c.File)
		}
		for _, t := range r.Tables {
			fmt.Fprintf(&b, "\n### %s\n\n", t.Title)
			table(&b, t)
		}
	}
	return b.String(), nil
}

// targets is the table of the figures that have one.
func targets(reports []runner.Report) runner.Table {
	t := runner.Table{Head: []string{"figure", "value", "target", ""}}
	for _, r := range reports {
		for _, f := range r.Figures {
			if f.Op == "" {
				continue
			}
			verdict := f.Verdict()
			if reason := why(f.Name); verdict == "short" && reason != "" {
				verdict += ": " + reason
			}
			t.Rows = append(t.Rows, []string{"`" + f.Name + "`", chart.Number(f.Value), f.Op + " " + chart.Number(f.Bound), verdict})
		}
	}
	return t
}

// table writes t as Markdown.
func table(b *strings.Builder, t runner.Table) {
	row := func(cells []string) { fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | ")) }
	row(t.Head)
	rule := make([]string, len(t.Head))
	for i := range rule {
		rule[i] = "---:"
		if i == 0 {
			rule[i] = "---"
		}
	}
	row(rule)
	for _, r := range t.Rows {
		row(r)
	}
}

// The marks between which the README's section lies.
const (
	sectionBegin = "<!-- written by make bench: begin -->"
	sectionEnd   = "<!-- written by make bench: end -->"
)

// front is what the README shows of all that was measured.
var front = struct {
	figures []struct{ name, means string }
	chart   string // its file
}{
	[]struct{ name, means string }{
		{"memory/hit/zipf/1/vs-otter", "time of a hit in memory that keeps its record alive, as a share of otter's"},
		{"sessions/read/vs-scs", "time of a request that reads its session, as a share of alexedwards/scs's"},
		{"simulation/10000/8/writes-per-read", "writes per read with a tenth of the idle grace as slack, where a touch at each read makes 1"},
	},
	"simulation-writes",
}

// section is what the README shows. A run of some suites only shows what those measured.
func (d *document) section(dir string) string {
	var b strings.Builder
	met, all := 0, 0
	values := make(map[string]string)
	for _, r := range d.reports {
		for _, f := range r.Figures {
			values[f.Name] = chart.Number(f.Value)
			if f.Op != "" {
				all++
			}
			if f.Op != "" && f.OK() {
				met++
			}
		}
	}
	t := runner.Table{Head: []string{"", ""}}
	for _, f := range front.figures {
		if v, ok := values[f.name]; ok {
			t.Rows = append(t.Rows, []string{f.means, v})
		}
	}
	table(&b, t)
	fmt.Fprintf(&b, "\nMeasured by `%s` on %s with %s. [RESULTS](%s/RESULTS.md) has all figures and the method: %d of %d meet their target.\n",
		d.command(), machine(), runtime.Version(), dir, met, all)
	for _, r := range d.reports {
		for _, c := range r.Charts {
			if c.File == front.chart {
				fmt.Fprintf(&b, "\n![%s](%s/%s.svg)\n", c.Title, dir, c.File)
			}
		}
	}
	return b.String()
}

func replaceSection(text, section string) (string, error) {
	before, rest, ok := strings.Cut(text, sectionBegin)
	_, after, ok2 := strings.Cut(rest, sectionEnd)
	if !ok || !ok2 {
		return "", fmt.Errorf("has no section between %q and %q", sectionBegin, sectionEnd)
	}
	return before + sectionBegin + "\n" + section + sectionEnd + after, nil
}

// machine names processor, memory and system.
func machine() string {
	s := fmt.Sprintf("%d cores", runtime.NumCPU())
	if model := lookUp("/proc/cpuinfo", "model name"); model != "" {
		s += " of " + model
	}
	var kb int
	if _, err := fmt.Sscan(lookUp("/proc/meminfo", "MemTotal"), &kb); err == nil {
		s += fmt.Sprintf(", %.0f GB", float64(kb)/(1<<20))
	}
	return s + ", " + runtime.GOOS + "/" + runtime.GOARCH
}

// lookUp returns what follows name and a colon in a file, nothing if it is not there.
func lookUp(file, name string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if field, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(field) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

//go:embed go.mod
var gomod []byte

// versions lists the modules that the contestants are from.
func versions() ([]string, error) {
	mod, err := modfile.Parse("go.mod", gomod, nil)
	if err != nil {
		return nil, err
	}
	own := strings.TrimSuffix(mod.Module.Mod.Path, "/bench")
	var all []string
	for _, r := range mod.Require {
		if !r.Indirect && !strings.HasPrefix(r.Mod.Path, own) {
			all = append(all, r.Mod.String())
		}
	}
	return all, nil
}
