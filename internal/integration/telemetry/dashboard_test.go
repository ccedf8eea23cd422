package telemetry_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// board is the part of the dashboard that the tests read.
type board struct {
	Panels     []panel
	Templating struct {
		List []struct {
			Name, Type string
			Datasource source
			Query      any
		}
	}
}

type source struct{ Type, UID string }

type panel struct {
	ID          int
	Title, Type string
	GridPos     struct{ X, Y, W, H int }
	Datasource  source
	FieldConfig struct {
		Defaults  struct{ Unit string }
		Overrides []struct {
			Matcher    struct{ ID, Options string }
			Properties []struct {
				ID    string
				Value any
			}
		}
	}
	Targets []target
}

type target struct {
	Datasource                source
	RefID, Expr, LegendFormat string
}

func readBoard(t *testing.T) (b board) {
	t.Helper()
	ok(t, json.Unmarshal([]byte(read(t, dashboard)), &b))
	return b
}

// unit is the unit in which p shows what q asks for.
func (p *panel) unit(q target) string {
	for _, o := range p.FieldConfig.Overrides {
		for _, property := range o.Properties {
			if o.Matcher.ID == "byFrameRefID" && o.Matcher.Options == q.RefID && property.ID == "unit" {
				return fmt.Sprint(property.Value)
			}
		}
	}
	return p.FieldConfig.Defaults.Unit
}

// expressions are those of the dashboard, with its variables filled in.
func expressions(t *testing.T) (all []string) {
	t.Helper()
	b := readBoard(t)
	fill := strings.NewReplacer("$__rate_interval", "5m", "$job", ".*", "$store", ".*")
	for _, p := range b.Panels {
		for _, q := range p.Targets {
			all = append(all, fill.Replace(q.Expr))
		}
	}
	for _, v := range b.Templating.List {
		if q, is := v.Query.(map[string]any); is {
			inner, _ := strings.CutPrefix(q["query"].(string), "label_values(")
			metric, _, _ := strings.Cut(inner, ",")
			all = append(all, fill.Replace(metric))
		}
	}
	return all
}

// Every expression of the dashboard is one that Prometheus understands.
func TestDashboard(t *testing.T) {
	all := expressions(t)
	if len(all) < 20 {
		t.Fatalf("%d expressions", len(all))
	}
	file := "groups:\n- name: dashboard\n  rules:\n"
	for i, e := range all {
		quoted, err := json.Marshal(e)
		ok(t, err)
		file += fmt.Sprintf("  - record: dashboard:expression%d\n    expr: %s\n", i, quoted)
	}
	path := filepath.Join(t.TempDir(), "dashboard.yml")
	ok(t, os.WriteFile(path, []byte(file), 0o600))
	promtool(t, "check", "rules", path)
}

var (
	variable = regexp.MustCompile(`\$\{?(\w+)`)
	legend   = regexp.MustCompile(`\{\{(\w+)\}\}`)
	grouping = regexp.MustCompile(`\bby \(([^)]*)\)`)
)

// units are those of Grafana that the dashboard may use, by what an expression has to be to have
// one.
var units = map[string]func(expr string) bool{
	"percentunit": func(e string) bool { return strings.Contains(e, " / ") || strings.Contains(e, "_seconds_total") }, // seconds in a second
	"s":           func(e string) bool { return strings.Contains(e, "_seconds") },
	"Bps":         func(e string) bool { return strings.Contains(e, "_bytes_total") && strings.Contains(e, "rate(") },
	"reqps":       perSecond,
	"ops":         perSecond,
	"short":       func(e string) bool { return !strings.Contains(e, "rate(") && !strings.Contains(e, "_bytes") },
}

func perSecond(e string) bool {
	return strings.Contains(e, "rate(") && !strings.Contains(e, "_seconds_total") && !strings.Contains(e, "_bytes")
}

// Grafana shows every panel whole, under the data source that was chosen, and each line in a
// unit of its own kind and under a name of its own.
func TestDashboardPanels(t *testing.T) {
	b := readBoard(t)
	chosen := source{"prometheus", "${datasource}"}
	variables := []string{"__rate_interval"}
	for _, v := range b.Templating.List {
		variables = append(variables, v.Name)
		if v.Type == "query" && v.Datasource != chosen {
			t.Errorf("the variable %s asks %v", v.Name, v.Datasource)
		}
	}
	for _, v := range variable.FindAllStringSubmatch(read(t, dashboard), -1) {
		if !slices.Contains(variables, v[1]) && v[1] != "__all" {
			t.Errorf("there is no variable $%s", v[1])
		}
	}
	ids, taken := make(map[int]bool), make(map[[2]int]string)
	for _, p := range b.Panels {
		if ids[p.ID] {
			t.Errorf("two panels have the id %d", p.ID)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x > 23 {
					t.Fatalf("%s is over %s, or outside", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type != "row" && (p.Datasource != chosen || len(p.Targets) == 0) {
			t.Errorf("%s asks %v for %d things", p.Title, p.Datasource, len(p.Targets))
		}
		seen := make(map[string]bool)
		for _, q := range p.Targets {
			if q.Datasource != chosen || seen[q.RefID] || seen[q.LegendFormat] {
				t.Errorf("%s: %s %q asks %v, or its name is not its own", p.Title, q.RefID, q.LegendFormat, q.Datasource)
			}
			seen[q.RefID], seen[q.LegendFormat] = true, true
			if fits := units[p.unit(q)]; fits == nil || !fits(q.Expr) {
				t.Errorf("%s: %s is in %q", p.Title, q.Expr, p.unit(q))
			}
			labels := fmt.Sprint(grouping.FindAllStringSubmatch(q.Expr, -1))
			for _, l := range legend.FindAllStringSubmatch(q.LegendFormat, -1) {
				if !regexp.MustCompile(`\b` + l[1] + `\b`).MatchString(labels) {
					t.Errorf("%s: %s does not keep the label %s", p.Title, q.Expr, l[1])
				}
			}
		}
	}
}
