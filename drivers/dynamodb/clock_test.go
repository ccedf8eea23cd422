package dynamodb

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

// TestServerTime asks servers whose clocks are off, by Dates of whole seconds.
func TestServerTime(t *testing.T) {
	for _, offset := range []time.Duration{0, 5 * time.Second, -time.Hour - 300*time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			latency := 2 * time.Millisecond
			d := faked(t, nil, func(_ string, req *request, _ sender) (*response, error) {
				time.Sleep(latency / 2) // virtual
				date := dated(func(now time.Time) time.Time { return now.Add(offset) })
				resp, err := date("", req, func() (*response, error) { return answer(req, 200, "{}"), nil })
				time.Sleep(latency / 2)
				return resp, err
			})
			if !d.ServerTime().Equal(time.Now()) {
				t.Error("before the first answer it is not the system's time")
			}
			off := func() time.Duration { return (time.Until(d.ServerTime()) - offset).Abs() }
			rng := rand.New(rand.NewPCG(1, 2))
			for i := range 200 {
				_, _ = d.Get(t.Context(), "k") // not found
				s := d.Stats()
				if off() > s.ClockError {
					t.Fatalf("answer %d: off by %v, said to be within %v", i+1, off(), s.ClockError)
				}
				if i == 0 && s.ClockError > time.Second {
					t.Errorf("the first answer leaves %v", s.ClockError)
				}
				time.Sleep(time.Duration(rng.Int64N(int64(time.Second))))
			}
			if s := d.Stats(); s.ClockError > 50*time.Millisecond {
				t.Errorf("200 answers leave %v", s.ClockError)
			}
			// It knows less as time passes.
			before := d.Stats().ClockError
			time.Sleep(time.Hour)
			if after := d.Stats().ClockError; after <= before {
				t.Errorf("an hour later it claims %v, before %v", after, before)
			}
			// A clock is set. One answer tells.
			offset += 90 * time.Second
			_, _ = d.Get(t.Context(), "k")
			if got := off(); got > time.Second {
				t.Errorf("after the clock was set: off by %v", got)
			}
		})
	}
}

func TestNoDate(t *testing.T) {
	d := faked(t, nil, func(_ string, req *request, _ sender) (*response, error) {
		return answer(req, 200, "{}"), nil
	})
	_, err := d.Get(t.Context(), "k")
	wantNotFound(t, "Get", err)
	if s := d.Stats(); s.ClockOffset != 0 || s.ClockError != 0 {
		t.Errorf("Stats: %+v, want no idea of the time", s)
	}
}

// TestDateOfTheEmulator sees the header on the real wire.
func TestDateOfTheEmulator(t *testing.T) {
	tbl := open[session](t, nil)
	if s := tbl.Stats(); s.ClockError == 0 || s.ClockOffset.Abs() > s.ClockError {
		t.Errorf("Stats: %+v, want no offset on one machine", s)
	}
}
