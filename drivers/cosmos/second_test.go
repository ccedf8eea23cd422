//go:build second

package cosmos

import (
	"bufio"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// emulatorKey is the key that Microsoft publishes for its emulator. This server ignores it.
const emulatorKey = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="

// TestSecondOpinion runs on another implementation, @vercel/cosmosdb-server.
func TestSecondOpinion(t *testing.T) {
	server := exec.CommandContext(t.Context(), "node", "cosmostest/node_modules/@vercel/cosmosdb-server/lib/cli.js", "--no-ssl", "--host", "127.0.0.1", "--port", "0")
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatalf("it is fetched by npm ci in cosmostest: %v", err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	_, address, ok := strings.Cut(strings.TrimSpace(line), " at ")
	if err != nil || !ok {
		t.Fatalf("the server says %q, %v", line, err)
	}
	credential, err := azcosmos.NewKeyCredential(emulatorKey)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	o := &azcosmos.ClientOptions{}
	o.Transport = &http.Client{Transport: transport}
	client, err := azcosmos.NewClientWithKey("http://"+address+"/", credential, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		client.Close()
		transport.CloseIdleConnections()
	})
	opinions(t, makeContainer(t, client, "opinions", nil))
}
