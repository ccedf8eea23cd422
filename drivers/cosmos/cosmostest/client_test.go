//go:build second

package cosmostest

import (
	"os/exec"
	"testing"
	"time"
)

// Microsoft's client for Node does with an account what its documentation says: a second
// opinion beside that of azcosmos on the protocol.
func TestNodeClient(t *testing.T) {
	a := Start(t)
	for _, phase := range []string{"before", "after"} {
		out, err := exec.CommandContext(t.Context(), "node", "testdata/client.mjs", a.Endpoint(), a.Key(), phase).CombinedOutput()
		if err != nil {
			t.Fatalf("%s, by what npm ci fetches: %v\n%s", phase, err, out)
		}
		a.Advance(time.Minute)
	}
}
