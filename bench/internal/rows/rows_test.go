package rows

import (
	"testing"

	"github.com/slidingttl/slidingttl/bench/internal/runner"
)

func TestSuite(t *testing.T) {
	report, err := Suite().Run(runner.Plan{Quick: true, Log: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range report.Figures {
		switch f.Name {
		case "rows/sweep/twice-or-left": // this does not depend on the machine
			if !f.OK() {
				t.Errorf("%v", f)
			}
		case "rows/touch/hot-share": // and this little: with the expiry indexed it is none
			if f.Value < 0.9 {
				t.Errorf("%v", f)
			}
		}
	}
	if len(report.Figures) != 6 {
		t.Errorf("%d figures, want 6", len(report.Figures))
	}
}
