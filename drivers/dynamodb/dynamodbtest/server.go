package dynamodbtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
)

// Server is a DynamoDB Local that answers. Its methods are safe for concurrent use.
type Server struct {
	// Endpoint is its URL: "http://127.0.0.1:41234".
	Endpoint string

	stop func() error // nil: it was not started here
}

const (
	startTimeout  = 60 * time.Second
	startAttempts = 3 // another process may take the free port before the server does
)

// Run starts a server, or uses the one that DYNAMODB_ENDPOINT names, for programs that are no
// tests. It returns when the server answers, after one to a few seconds. The caller closes it;
// it stops at the latest with the program.
func Run(ctx context.Context) (*Server, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if endpoint := os.Getenv("DYNAMODB_ENDPOINT"); endpoint != "" {
		if err := answers(ctx, endpoint, nil); err != nil {
			return nil, fmt.Errorf("dynamodbtest: DYNAMODB_ENDPOINT is %s, which does not answer: %w", endpoint, err)
		}
		return &Server{Endpoint: endpoint}, nil
	}
	jar, java, err := find()
	if err != nil {
		return nil, err
	}
	return launch(ctx, java, jar)
}

func launch(ctx context.Context, java, jar string) (s *Server, err error) {
	for range startAttempts {
		var port int
		if port, err = freePort(); err != nil {
			return nil, err
		}
		if s, err = start(ctx, java, jar, port); err == nil {
			return s, nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, fmt.Errorf("dynamodbtest: DynamoDB Local does not start: %w", err)
}

// Client returns a client of the server, with opts applied last.
func (s *Server) Client(opts ...func(*dynamodb.Options)) *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		BaseEndpoint: aws.String(s.Endpoint),
		Region:       region,
		Credentials:  credentials,
	}, opts...)
}

// Streams returns a client of the server's streams.
func (s *Server) Streams() *dynamodbstreams.Client {
	return dynamodbstreams.New(dynamodbstreams.Options{
		BaseEndpoint: aws.String(s.Endpoint),
		Region:       region,
		Credentials:  credentials,
	})
}

// Any region and credentials work.
const region = "us-east-1"

var credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
	return aws.Credentials{AccessKeyID: "local", SecretAccessKey: "local"}, nil
})

// Close stops the server and drops its data, and returns when its process has
// ended. A server named by DYNAMODB_ENDPOINT goes on running.
func (s *Server) Close() error {
	if s.stop == nil {
		return nil
	}
	return s.stop()
}

// guard is a shell script that runs java and kills it when the script's standard input ends:
// when the server is closed, and also when this program is killed.
const guard = `exec 3<&0; { cat <&3 >/dev/null; kill -9 $$; } >/dev/null 2>&1 & exec "$@" 3<&- </dev/null`

func start(ctx context.Context, java, jar string, port int) (*Server, error) {
	cmd := exec.Command("sh", "-c", guard, "sh", java,
		"-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", // fewer resources, for a small load
		"-Djava.library.path="+filepath.Join(filepath.Dir(jar), "DynamoDBLocal_lib"),
		"-jar", jar, "-inMemory", "-sharedDb", "-disableTelemetry", "-port", strconv.Itoa(port))
	cmd.Env = append(os.Environ(), "DDB_LOCAL_TELEMETRY=0")
	cmd.Dir = os.TempDir()
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // it ends by a signal, or its output has the error
		close(ended)
	}()
	s := &Server{
		Endpoint: "http://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
		stop: func() error {
			_ = stdin.Close()
			<-ended
			return nil
		},
	}
	if err := answers(ctx, s.Endpoint, ended); err != nil {
		_ = s.stop()
		return nil, fmt.Errorf("%w: %s", err, bytes.TrimSpace(output.Bytes()))
	}
	return s, nil
}

// answers waits until endpoint speaks HTTP, or ended is closed. A server that was started here
// must answer as DynamoDB does, because another one may have taken the port meanwhile; then the
// one that was started ends.
func answers(ctx context.Context, endpoint string, ended <-chan struct{}) error {
	const between = 20 * time.Millisecond
	tick := time.NewTicker(between)
	defer tick.Stop()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, endpoint, nil)
		if err != nil {
			return err
		}
		req.Close = true
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			if ended == nil || resp.Header.Get("X-Amzn-Requestid") != "" {
				return nil
			}
		}
		if ended == nil && ctx.Err() == nil {
			return err // a server that was not started here must answer at once
		}
		select {
		case <-tick.C:
		case <-ended:
			return errors.New("it ended")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	port := l.Addr().(*net.TCPAddr).Port
	return port, l.Close()
}
