//go:build second

package cosmostest

import (
	"bufio"
	"bytes"
	"os/exec"
	"testing"
	"time"
)

// Microsoft's client for Node works with an account as its documentation says: a second opinion
// on the protocol, beside azcosmos. Its query continues across a split and finds the new physical
// partitions. (A client that planned a query before a split asks the old ones for ever: 4.9.0
// never forgets the partitions that it knows.)
func TestNodeClient(t *testing.T) {
	a := StartWith(t, &Options{Partitions: 2})
	for _, phase := range []string{"before", "split", "after"} {
		before := a.Counts()
		cmd := exec.CommandContext(t.Context(), "node", "testdata/client.mjs", a.Endpoint(), a.Key(), phase)
		var said bytes.Buffer
		cmd.Stderr = &said
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for lines := bufio.NewScanner(out); lines.Scan(); {
			a.Split()
			if _, err := in.Write([]byte("split\n")); err != nil {
				t.Error(err)
			}
		}
		if err := cmd.Wait(); err != nil {
			t.Fatalf("%s, by what npm ci fetches: %v\n%s", phase, err, said.String())
		}
		if n := a.Counts().Since(before).ReadRanges; phase == "after" && n == 0 {
			t.Error("the client has not asked for the physical partitions")
		}
		a.Advance(time.Minute)
	}
}
