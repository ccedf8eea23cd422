package dynamodbtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// shared is the server of a package whose TestMain calls Main.
var shared struct {
	mu     sync.Mutex // guards the rest
	wanted bool
	server *Server
	err    error
}

// Main runs a package's tests, for its TestMain, with one server for all of them.
// It returns the exit code.
func Main(m interface{ Run() int }) int {
	shared.mu.Lock()
	shared.wanted = true
	shared.mu.Unlock()

	code := m.Run()

	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.server != nil {
		if err := shared.server.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	shared.wanted, shared.server, shared.err = false, nil, nil
	return code
}

// Start returns a server. If TestMain calls [Main] it is the package's, else the test's
// own, which stops when the test ends. If no server can be started, Start fails the test.
func Start(t testing.TB) *Server {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if !shared.wanted {
		s, err := Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		return s
	}
	if shared.server == nil && shared.err == nil {
		// It serves other tests after this one.
		shared.server, shared.err = Run(context.WithoutCancel(t.Context()))
	}
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.server
}

// StartTTL returns a server as [RunTTL] does, of the test's own, which stops when the test
// ends.
func StartTTL(t testing.TB) *Server {
	t.Helper()
	s, err := RunTTL(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

var tables atomic.Int64

// Table returns the name of a table that no other test uses. That holds even if several
// programs share the server of DYNAMODB_ENDPOINT. Nothing is created; a table that the test
// creates under that name is deleted when the test ends.
func (s *Server) Table(t testing.TB) string {
	t.Helper()
	name := tableName(t.Name(), strconv.Itoa(os.Getpid())+"-"+strconv.FormatInt(tables.Add(1), 10))
	t.Cleanup(func() {
		_, err := s.Client().DeleteTable(context.Background(), &dynamodb.DeleteTableInput{TableName: &name})
		var none *types.ResourceNotFoundException
		if err != nil && !errors.As(err, &none) {
			t.Errorf("dynamodbtest: deleting table %s: %v", name, err)
		}
	})
	return name
}

// tableName replaces characters that a table's name may not contain, and keeps it within 255 bytes.
func tableName(test, unique string) string {
	name := []byte(test[:min(len(test), 200)])
	for i, c := range name {
		ok := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.'
		if !ok {
			name[i] = '_'
		}
	}
	return string(name) + "-" + unique
}
