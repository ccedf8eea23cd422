package dynamodbtest

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

func TestServerStartsAndStops(t *testing.T) {
	t.Setenv("DYNAMODB_ENDPOINT", "")
	ctx := t.Context()
	s, err := Run(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Client().ListTables(ctx, &dynamodb.ListTablesInput{}); err != nil {
		t.Error(err)
	}

	// A named server is used, and left running.
	t.Setenv("DYNAMODB_ENDPOINT", s.Endpoint)
	named, err := Run(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := named.Close(); err != nil {
		t.Error(err)
	}
	if _, err := s.Client().ListTables(ctx, &dynamodb.ListTablesInput{}); err != nil {
		t.Errorf("closing a server that was only named stopped it: %v", err)
	}

	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if resp, err := http.Get(s.Endpoint); err == nil {
		_ = resp.Body.Close()
		t.Error("the server answers after Close")
	}
	if _, err := Run(ctx); err == nil || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("DYNAMODB_ENDPOINT names a dead server: error %v", err)
	}
}

func TestAnotherServerTakesThePort(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer other.Close()
	jar, java, err := find()
	if err != nil {
		t.Fatal(err)
	}
	s, err := start(t.Context(), java, jar, other.Listener.Addr().(*net.TCPAddr).Port)
	if err == nil {
		t.Fatal("a server that is not DynamoDB passes for the one that was started", s.Close())
	}
	if !strings.Contains(err.Error(), "it ended") {
		t.Error(err)
	}
}

func TestNothingInstalled(t *testing.T) {
	t.Setenv("DYNAMODB_ENDPOINT", "")
	for name, set := range map[string]func(){
		"no jar":  func() { t.Setenv("DYNAMODB_LOCAL_JAR", "/nowhere/DynamoDBLocal.jar") },
		"no java": func() { t.Setenv("DYNAMODB_LOCAL_JAR", os.Args[0]); t.Setenv("PATH", "") },
	} {
		set()
		_, err := Run(t.Context())
		if err == nil {
			t.Fatalf("%s: no error", name)
		}
		if errors.Is(err, ErrNoJar) {
			t.Errorf("%s: error %v asks for Install, which would not help", name, err)
		}
		for _, want := range []string{"openjdk-17-jre-headless", "npm install", "DYNAMODB_ENDPOINT"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %q does not mention %s", name, err, want)
			}
		}
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %q is longer than a line", name, err)
		}
	}
}

// TestInstall fetches the jar and runs it, like a program that finds none.
func TestInstall(t *testing.T) {
	t.Setenv("DYNAMODB_ENDPOINT", "")
	user, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("npm_config_cache", filepath.Join(user, ".npm")) // npm's cache
	t.Setenv("HOME", t.TempDir())                             // for os.UserCacheDir
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Chdir(t.TempDir())
	if _, _, err := find(); !errors.Is(err, ErrNoJar) {
		t.Fatalf("before: error %v, want ErrNoJar", err)
	}
	if err := Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	jar, _, err := find()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("DYNAMODB_LOCAL_JAR", jar)
	s, err := Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestInstallsWhatTheTestsUse(t *testing.T) {
	raw, err := os.ReadFile("package.json")
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct{ DevDependencies map[string]string }
	if err := json.Unmarshal(raw, &manifest); err != nil {
		t.Fatal(err)
	}
	name, version, _ := strings.Cut(npmPackage, "@")
	if manifest.DevDependencies[name] != version {
		t.Errorf("Install brings %s, package.json %v", npmPackage, manifest.DevDependencies)
	}
}

func TestServerThatDoesNotStart(t *testing.T) {
	t.Setenv("DYNAMODB_ENDPOINT", "")
	t.Setenv("DYNAMODB_LOCAL_JAR", os.Args[0]) // no jar at all
	_, err := Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "jarfile") {
		t.Errorf("error %v, want what java says", err)
	}
}

func TestStartIsGivenUp(t *testing.T) {
	t.Setenv("DYNAMODB_ENDPOINT", "")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx); err == nil {
		t.Error("Run went on after its context had ended")
	}
}

func TestTableName(t *testing.T) {
	got := tableName("TestX/a b#01"+strings.Repeat("y", 300), "7-1")
	if !strings.HasPrefix(got, "TestX_a_b_01yyy") || !strings.HasSuffix(got, "-7-1") || len(got) > 255 {
		t.Errorf("table name %q", got)
	}
}
