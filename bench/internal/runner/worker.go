package runner

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// Contestant is one of those measured. Serve runs in the contestant's own process
// and returns the function that does its tasks, one after the other.
type Contestant struct {
	Name  string
	Serve func() (func(task json.RawMessage) (Sample, error), error)
}

// Serving returns a contestant whose tasks are of type T.
func Serving[T any](name string, serve func() (func(T) (Sample, error), error)) Contestant {
	return Contestant{name, func() (func(json.RawMessage) (Sample, error), error) {
		do, err := serve()
		if err != nil {
			return nil, err
		}
		return func(raw json.RawMessage) (Sample, error) {
			var task T
			if err := json.Unmarshal(raw, &task); err != nil {
				return nil, err
			}
			return do(task)
		}, nil
	}}
}

type answer struct {
	Sample Sample
	Err    string
}

// Serve does the tasks that come in, one a line, until in ends.
func (c Contestant) serve(in io.Reader, out io.Writer) error {
	do, err := c.Serve()
	if err != nil {
		return err
	}
	enc := json.NewEncoder(out)
	for dec := json.NewDecoder(in); ; {
		var task json.RawMessage
		if err := dec.Decode(&task); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		var a answer
		if a.Sample, err = do(task); err != nil {
			a.Err = err.Error()
		}
		if err := enc.Encode(a); err != nil {
			return err
		}
	}
}

// The environment tells a process started by Start what it is.
const (
	envSuite      = "SLIDINGTTL_BENCH_SUITE"
	envContestant = "SLIDINGTTL_BENCH_CONTESTANT"
)

// Worker is a contestant's process.
type Worker struct {
	Name string
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
}

// Start starts this very program once more, as the contestant of suite. Its main
// must call ServeIfWorker first.
func Start(suite, contestant string, env ...string) (*Worker, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return StartAs(contestant, exe, suite, contestant, env...)
}

// StartAs is Start of the program at exe, such as this one built from another commit.
// The worker goes by name.
func StartAs(name, exe, suite, contestant string, env ...string) (*Worker, error) {
	w := &Worker{Name: name, cmd: exec.Command(exe)}
	w.cmd.Env = append(append(os.Environ(), envSuite+"="+suite, envContestant+"="+contestant), env...)
	w.cmd.Stderr = os.Stderr
	var err error
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	w.out = bufio.NewReader(out)
	return w, w.cmd.Start()
}

// Do has the worker do task and returns what it measured.
func (w *Worker) Do(task any) (Sample, error) {
	fail := func(err error) (Sample, error) { return nil, fmt.Errorf("%s: %w", w.Name, err) }
	if err := json.NewEncoder(w.in).Encode(task); err != nil {
		return fail(err)
	}
	line, err := w.out.ReadBytes('\n')
	if err != nil {
		return fail(err)
	}
	var a answer
	if err := json.Unmarshal(line, &a); err != nil {
		return fail(err)
	}
	if a.Err != "" {
		return fail(errors.New(a.Err))
	}
	return a.Sample, nil
}

// Close ends the worker and waits for it.
func (w *Worker) Close() error {
	_ = w.in.Close()
	_, _ = io.Copy(io.Discard, w.out)
	if err := w.cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w", w.Name, err)
	}
	return nil
}

// Once starts a worker, has it do one task and closes it.
func Once(suite, contestant string, task any, env ...string) (Sample, error) {
	w, err := Start(suite, contestant, env...)
	if err != nil {
		return nil, err
	}
	s, err := w.Do(task)
	return s, errors.Join(err, w.Close())
}

// ServeIfWorker, in a process begun by Start, serves until it is told to end, and
// reports true.
func ServeIfWorker(suites []Suite) (bool, error) {
	suite, name := os.Getenv(envSuite), os.Getenv(envContestant)
	if suite == "" {
		return false, nil
	}
	for _, s := range suites {
		if s.Name != suite {
			continue
		}
		for _, c := range s.Contestants {
			if c.Name == name {
				return true, c.serve(os.Stdin, os.Stdout)
			}
		}
	}
	return true, fmt.Errorf("suite %q has no contestant %q", suite, name)
}
