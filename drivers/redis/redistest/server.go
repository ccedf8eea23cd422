package redistest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// Server is a Redis that answers. Its methods are safe for concurrent use.
type Server struct {
	Addr string // "127.0.0.1:41234"
	stop func() error
}

const (
	startTimeout  = 30 * time.Second
	startAttempts = 3 // another process may take the free port before the server does
)

// Run starts a server, for programs that are no tests. It returns when the server answers. The
// caller closes it; it stops at the latest with the program.
func Run(ctx context.Context) (*Server, error) { return run(ctx) }

func run(ctx context.Context, config ...string) (*Server, error) { return runIn(ctx, nil, config...) }

// runIn starts a server with env beside this program's environment.
func runIn(ctx context.Context, env []string, config ...string) (*Server, error) {
	return runWith(ctx, env, func(port, dir string) ([]string, error) {
		return append([]string{"--port", port, "--bind", host, "--dir", dir, "--save", "", "--appendonly", "no"}, config...), nil
	})
}

const host = "127.0.0.1"

// runWith starts a server whose arguments depend on its port and its directory.
func runWith(ctx context.Context, env []string, args func(port, dir string) ([]string, error)) (*Server, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	command, err := find()
	if err != nil {
		return nil, err
	}
	for range startAttempts {
		var s *Server
		if s, err = start(ctx, slices.Concat([]string{"env"}, env, []string{command}), args); err == nil {
			return s, nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, fmt.Errorf("redistest: %s does not start: %w", command, err)
}

// find returns the path of the server's command.
func find() (string, error) {
	names := []string{"redis-server", "valkey-server"}
	if name := os.Getenv("REDISTEST_SERVER"); name != "" {
		names = []string{name}
	}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("redistest: %s is not on the PATH: apt-get install redis-server", strings.Join(names, " or "))
}

// Option returns what a client needs to connect to the server. It disables the client's probe
// for a cluster, which leaves a goroutine for up to a second whenever a connection is lost: a
// leak check would find that.
func (s *Server) Option() rueidis.ClientOption {
	return rueidis.ClientOption{InitAddress: []string{s.Addr}, ForceSingleClient: true}
}

// Close stops the server and drops its data, and returns when its process has ended.
func (s *Server) Close() error { return s.stop() }

// guard is a shell script that runs the server and kills it when the script's standard input
// ends: when the server is closed, and also when this program is killed.
const guard = `exec 3<&0; { cat <&3 >/dev/null; kill -9 $$; } >/dev/null 2>&1 & exec "$@" 3<&- </dev/null`

func start(ctx context.Context, command []string, argsFor func(port, dir string) ([]string, error)) (*Server, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "redistest")
	if err != nil {
		return nil, err
	}
	args, err := argsFor(strconv.Itoa(port), dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	cmd := exec.Command("sh", slices.Concat([]string{"-c", guard, "sh"}, command, args)...)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // it ends by a signal, or its output has the error
		close(ended)
	}()
	s := &Server{
		Addr: net.JoinHostPort(host, strconv.Itoa(port)),
		stop: func() error {
			_ = stdin.Close()
			<-ended
			return os.RemoveAll(dir)
		},
	}
	if err := s.answers(ctx, cmd.Process.Pid, ended); err != nil {
		return nil, errors.Join(err, s.stop(), errors.New(strings.TrimSpace(output.String())))
	}
	return s, nil
}

// answers waits until the process pid answers, or ended is closed. It compares pids, because
// another server may have taken the port meanwhile.
func (s *Server) answers(ctx context.Context, pid int, ended <-chan struct{}) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if s.says(ctx, "INFO server", "process_id:"+strconv.Itoa(pid)) == nil {
			return nil
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

// command sends words to the server, on a new connection, and returns an error answer as an
// error.
func (s *Server) command(ctx context.Context, words ...string) error {
	_, err := s.ask(ctx, words...)
	return err
}

// ask returns the first line of the server's answer to words, or a bulk string's text.
func (s *Server) ask(ctx context.Context, words ...string) (string, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.Addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return "", err
		}
	}
	if _, err := fmt.Fprintf(conn, "%s\r\n", strings.Join(words, " ")); err != nil {
		return "", err
	}
	r := bufio.NewReader(conn)
	line, err := r.ReadString('\n')
	switch {
	case err != nil:
		return "", err
	case line[0] == '-':
		return "", fmt.Errorf("%s: %s", words[0], strings.TrimSpace(line[1:]))
	case line[0] != '$':
		return strings.TrimSpace(line[1:]), nil
	}
	n, err := strconv.Atoi(strings.TrimSpace(line[1:]))
	if err != nil {
		return "", err
	}
	text := make([]byte, n)
	_, err = io.ReadFull(r, text)
	return string(text), err
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	port := l.Addr().(*net.TCPAddr).Port
	return port, l.Close()
}
