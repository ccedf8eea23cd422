package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/upkeep"
)

// work is an operation over all records of a store, as the command line describes it.
type work struct {
	uri     string
	pace    *paceFlags
	ask     string        // before it writes: what is about to be done
	policy  *policyFlags  // nil: none
	longest time.Duration // that a write asks of the store
	note    string        // what the operation does beside, under its report
	sizes   bool          // a dry run goes by how large records are
}

// report is what an operation returns.
type report interface {
	fmt.Stringer
	Sum() *upkeep.Totals
}

// over runs the operation op of c.
func over[R any, P interface {
	*R
	report
}](a *app, c *cobra.Command, w work, op func(*store) (P, error)) error {
	p := w.pace
	if err := p.open(); err != nil {
		return err
	}
	if p.unlock != nil {
		defer p.unlock()
	}
	p.sizes = w.sizes && !p.apply
	s, wrong, err := a.openChecked(c.Context(), p, w.uri, w.longest)
	if err != nil {
		return err
	}
	defer s.close()
	if w.policy != nil {
		p.PolicyFor = w.policy.byKey
		p.Store += w.policy.about
	}
	if err := p.identify(c.Context(), s); err != nil {
		return err
	}
	if err := a.agreed(c.Context(), p, w.ask); err != nil {
		return err
	}
	named, err := p.name()
	if err != nil {
		return err
	}
	hide, err := a.show(c.Context(), p, c.Name(), s)
	if err != nil {
		return err
	}
	r, err := op(s)
	hide()
	err = errors.Join(err, named())
	if r == nil {
		return err
	}
	t := r.Sum()
	if err == nil && t.Records == 0 && wrong != nil && p.Shards == 0 {
		err = fmt.Errorf("no record was found, and the check of the store finds something wrong: %w", wrong)
	}
	if err == nil && p.Shards > 0 {
		return a.summary(p.Shards, "the store is parted: run this command with --checkpoint %s to %s, without --shards and with --resume, then with --merge for the whole", p.shard(1, p.Shards), p.shard(p.Shards, p.Shards))
	}
	if err == nil || t.Records > 0 {
		if err := a.print(r); err != nil {
			return err
		}
		if written, is := any(r).(*upkeep.Report); is && !p.apply && !a.json {
			if p.price > 0 {
				_, _ = fmt.Fprintf(a.out, "\nthat would cost %.2f for the write units, beside what looking cost\n", float64(written.Counts["write_units"])*p.price/1e6)
			}
			if n, adopts := written.Counts["adopted"]; adopts && s.memory != nil {
				if text := s.memory(c.Context(), n); text != "" {
					_, _ = fmt.Fprintln(a.out, "\n"+text)
				}
			}
		}
		if w.note != "" && !a.json {
			_, _ = fmt.Fprintln(a.out, "\n"+w.note)
		}
	}
	if err == nil {
		err = a.draw(s.title, r)
	}
	if err == nil && p.finished {
		say(a.err, fmt.Sprintf("the run of --checkpoint %s was finished before, and no record was read: remove the file to start again", p.checkpoint))
	}
	return p.end(t, err)
}

// openChecked opens the store at uri for a walk, and returns what its check finds wrong.
func (a *app) openChecked(ctx context.Context, p *paceFlags, uri string, longest time.Duration) (s *store, wrong, err error) {
	if s, err = p.target.open(ctx, uri, p.apply); err != nil {
		return nil, nil, err
	}
	p.Store = s.name
	if s.notice != "" {
		say(a.err, s.notice)
	}
	if d, checks := driver.As[driver.Checker](s.walked); checks {
		wrong = d.Check(ctx, longest)
	}
	if lacks, ok := s.walked.(schemer); ok && errors.Is(wrong, slidingttl.ErrInvalid) {
		if statements, err := lacking(ctx, lacks, ""); err == nil && len(statements) > 0 && !strings.HasPrefix(statements[0], "CREATE TABLE") {
			s.close()
			return nil, nil, fmt.Errorf("%w: the table lacks what the driver needs: slidingttl schema, with the same STORE and --layout, prints the %d statements that add it: %w", errUsage, len(statements), wrong)
		}
	}
	if wrong != nil {
		say(a.err, "the store's check says: "+strings.ReplaceAll(wrong.Error(), "\n", "; "))
		if p.apply && !p.unchecked {
			s.close()
			if !errors.Is(wrong, slidingttl.ErrInvalid) {
				return nil, nil, fmt.Errorf("nothing was written, for the store could not be checked: %w", wrong)
			}
			return nil, nil, fmt.Errorf("%w: nothing was written, for the check of the store finds something wrong; --unchecked writes all the same", errUsage)
		}
	}
	return s, wrong, nil
}

// end returns the command's error for a run with totals t that ended with err.
func (p *paceFlags) end(t *upkeep.Totals, err error) error {
	switch {
	case err == nil && t.Failed+t.Unsure > 0:
		return fmt.Errorf("%w: %d; %s names them", errPartly, t.Failed+t.Unsure, cmp.Or(p.errors, "--errors FILE"))
	case err == nil || exitCode(err) == exitUsage:
		return err
	}
	if errors.Is(err, driver.ErrRefused) {
		err = fmt.Errorf("%w\nthe store answers, and refuses: this user has no right to do that, or a name in the URI or in --layout is wrong", err)
	}
	if _, none := os.Stat(p.checkpoint); p.checkpoint != "" && none == nil {
		return fmt.Errorf("%w\ngo on by the same command with --checkpoint %s --resume", err, p.checkpoint)
	}
	err = fmt.Errorf("%w\nthe same command starts again, and finds what is done already", err)
	if p.resumes {
		err = fmt.Errorf("%w; with --checkpoint FILE it could continue", err)
	}
	return err
}

// agreed asks for confirmation before writing, if there is a terminal, until ctx ends.
func (a *app) agreed(ctx context.Context, p *paceFlags, what string) error {
	switch {
	case !p.apply || p.yes || p.Shards > 0 || p.merge || !a.typed:
		return nil
	case !a.asks:
		return fmt.Errorf("%w: nothing was written: the question before writing goes to standard error, which is no terminal; --yes writes without it", errUsage)
	}
	_, _ = fmt.Fprintf(printable{a.err}, "%s\nGo ahead? [y/N] ", what)
	answers := make(chan string, 1)
	go func() { // a read of a terminal ends with the process
		var answer string
		_, _ = fmt.Fscanln(a.in, &answer)
		answers <- answer
	}()
	select {
	case <-ctx.Done():
		_, _ = fmt.Fprintln(a.err)
		return fmt.Errorf("nothing was written: %w", ctx.Err())
	case answer := <-answers:
		if answer := strings.ToLower(answer); answer != "y" && answer != "yes" {
			return fmt.Errorf("%w: not agreed to; nothing was written", errUsage)
		}
	}
	return nil
}

// name writes the keys of failed records to --errors, until the returned function is called. That
// function returns an error if a key could not be written.
func (p *paceFlags) name() (func() error, error) {
	if p.errors == "" {
		return func() error { return nil }, nil
	}
	f, err := os.OpenFile(p.errors, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("%w: --errors: %w", errUsage, err)
	}
	b := bufio.NewWriter(f)
	p.Failed = func(key string, err error) {
		_, _ = b.WriteString(strconv.Quote(key) + "\t" + strings.ReplaceAll(err.Error(), "\n", " ") + "\n")
		_ = b.Flush() // bufio keeps its error
	}
	return func() error {
		if err := errors.Join(b.Flush(), f.Close()); err != nil {
			return fmt.Errorf("--errors: %w", err)
		}
		return nil
	}, nil
}
