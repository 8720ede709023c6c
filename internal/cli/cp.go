// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

func newCp() *cobra.Command {
	var (
		to Target
		c  copier
	)
	cmd := &cobra.Command{
		Use:   "cp SOURCE DESTINATION",
		Short: "Copy files to and from the workspace of a session",
		Long: `cp copies a file or a directory between this machine and the workspace of a
session. One side is SESSION:PATH, with the path relative to the workspace; without
a session, as in :PATH, it is the default session. A local name with a colon in it is
written with ./ before it.

  toolserver cp main.go s1:src/            a file, into a directory
  toolserver cp ./repo s1:                 a directory, as s1:repo
  toolserver cp ./repo/ s1:                what is in it, into the workspace itself
  toolserver cp s1:build .                 and back, as ./build
  toolserver cp s1:report.txt -            to standard output
  toolserver cp - s1:input.txt             from standard input
  tar c . | toolserver cp --tar - s1:src   an archive
  toolserver cp --tar s1:src - | tar t

A directory is copied with everything in it, without a flag. As with cp -r, it goes
into a destination that is a directory already, or ends with a slash, under its own
name, and becomes one that is not there. What is in it goes into the destination
itself where the source ends with a slash, as with rsync, or is . or the whole
workspace: what is there already stays, unless it has the name of something that is
copied. Links are copied as links, as far as they stay inside. What the
policy withholds is left out and told, and the command exits with 1. A file is there
as a whole or not at all; where the connection is lost, or the command is stopped, the
upload of a file is continued.

Of a repository its data is copied (HEAD, refs, objects, logs), in both directions,
and nothing that git would run: no hooks, and no configuration where there is one already; where there is none it gets the keys that run
nothing, with format, remotes and branches. An upload brings the index, if nothing in
it leads elsewhere; after a download "git reset" makes it. A session is filled by programs that need not
be trusted here: --all fetches everything. Hooks of husky are left out in both directions,
too, by a download what would make a repository of a directory that is not called .git, and
by an upload node_modules. One line tells of that, -v of each file, and the command exits with 0.

` + exitHelp(),
		Args: Arguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			source, destination := placeFrom(args[0]), placeFrom(args[1])
			if c.all && !source.remote {
				return errors.New("--all is for what comes from a session: what an upload may bring is up to the server")
			}
			if source.remote == destination.remote {
				return fmt.Errorf("one of %s and %s must be SESSION:PATH, and the other a file of this machine", Visible(args[0]), Visible(args[1]))
			}
			client, err := to.connectOutside(cmd)
			if err != nil {
				return err
			}
			defer client.Close()
			c.client, c.stderr = client, NewStream(os.Stderr)
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			if source.remote {
				err = c.download(ctx, source, destination.path)
			} else {
				err = c.upload(ctx, source.path, destination)
			}
			c.progress.clear()
			c.tellSpared()
			return c.explain(ctx, err)
		},
	}
	cmd.Flags().BoolVar(&c.tar, "tar", false, "the local side, -, is a tar archive of a directory")
	cmd.Flags().StringArrayVar(&c.exclude, "exclude", nil, "pattern of what to leave out of a directory, such as node_modules; may be repeated")
	cmd.Flags().BoolVarP(&c.quiet, "quiet", "q", false, "show no progress")
	cmd.Flags().BoolVarP(&c.verbose, "verbose", "v", false, "name each file that is always left out, and why")
	cmd.Flags().BoolVar(&c.all, "all", false, "of a session, fetch what git would run as well: configuration, hooks, index")
	to.addOutsideFlags(cmd)
	cmd.ValidArgsFunction = completeCopies(&to)
	return cmd
}

// place is one side of a copy.
type place struct {
	remote        bool
	session, path string
}

func placeFrom(word string) place {
	session, rest, found := strings.Cut(word, ":")
	if !found || strings.HasPrefix(word, "/") || strings.HasPrefix(word, ".") || strings.Contains(session, "/") {
		return place{path: word}
	}
	if rest == "" {
		rest = "."
	}
	return place{true, session, rest}
}

// A copier is one run of cp.
type copier struct {
	client   *Client
	stderr   *Stream
	tar      bool
	quiet    bool
	verbose  bool
	all      bool
	exclude  []string
	excluded func(name string) bool // by those patterns
	leftOut  uint64                 // what should have been copied and was not
	spared   spared
	progress progressLine
}

// explain gives an error the code that the command exits with.
func (c *copier) explain(ctx context.Context, err error) error {
	switch {
	case err == nil && c.leftOut > 0:
		return &ExitError{ExitFailed, fmt.Errorf("%s left out", counted(c.leftOut, "entry was", "entries were"))}
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return &ExitError{ExitCancelled, errors.New("stopped")}
	}
	s, ok := status.FromError(err)
	if !ok {
		return &ExitError{ExitFailed, err}
	}
	switch s.Code() {
	case codes.PermissionDenied:
		return &ExitError{ExitDenied, errors.New(s.Message())}
	case codes.InvalidArgument:
		return &ExitError{exitInvalidInput, errors.New(s.Message())}
	case codes.ResourceExhausted: // also a file that is too large, or a full disk
		if slices.ContainsFunc(s.Details(), isRetryInfo) {
			return &ExitError{exitRateLimited, errors.New(s.Message())}
		}
	}
	return err
}

func isRetryInfo(detail any) bool {
	_, ok := detail.(*errdetails.RetryInfo)
	return ok
}

// tell names what was left out.
func (c *copier) tell(path, reason string) {
	c.leftOut++
	c.progress.clear()
	fmt.Fprintf(c.stderr, "toolserver: left out %s: %s\n", Visible(path), Visible(reason))
}

// summarize names what the server left out.
func (c *copier) summarize(summary *pb.TreeSummary) {
	listed, always := uint64(0), uint64(0)
	for _, l := range summary.GetLeftOut() {
		if l.GetAlways() {
			always++
			c.spare(l.GetPath(), "", l.GetReason())
			continue
		}
		listed++
		c.tell(l.GetPath(), l.GetReason())
	}
	c.spared.more += summary.GetAlwaysLeftOutCount() - always
	if more := summary.GetLeftOutCount() - summary.GetAlwaysLeftOutCount() - listed; more > 0 {
		c.leftOut += more
		fmt.Fprintf(c.stderr, "toolserver: and %d more\n", more)
	}
}

// remoteFile returns the path of the file that a local file becomes: a directory
// means the file of its name in it.
func (c *copier) remoteFile(ctx context.Context, local string, to place) (string, error) {
	if dir, err := c.remoteDirectory(ctx, to); err != nil || !dir {
		return to.path, err
	}
	if local == "-" {
		return "", fmt.Errorf("%s is a directory: name the file that standard input becomes", Visible(to.path))
	}
	return path.Join(to.path, filepath.Base(local)), nil
}

// remoteDirectory reports whether a path of a session is that of a directory, or
// written as one.
func (c *copier) remoteDirectory(ctx context.Context, at place) (bool, error) {
	if strings.HasSuffix(at.path, "/") {
		return true, nil
	}
	there, err := c.client.StatFile(ctx, &pb.StatFileRequest{SessionId: at.session, Path: at.path})
	if err != nil && status.Code(err) != codes.NotFound {
		return false, err
	}
	return there.GetFile().GetType() == pb.FileType_FILE_TYPE_DIRECTORY, nil
}

// ownName returns the name that a directory keeps in one that is there already, or ""
// where what is in it is meant.
func ownName(source string) string {
	switch name := path.Base(source); {
	case strings.HasSuffix(source, "/"), name == ".", name == "..":
		return ""
	default:
		return name
	}
}

// attempts is how often what a lost connection ended is continued.
const attempts = 5

// lost reports whether an error is about a connection that may come back, and
// waits a while where it is.
func lost(ctx context.Context, err error, attempt int) bool {
	if status.Code(err) != codes.Unavailable || attempt >= attempts {
		return false
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(time.Duration(attempt+1) * 300 * time.Millisecond):
		return true
	}
}

// progressLine shows on a terminal how far a copy is.
type progressLine struct {
	what  string
	total int64 // 0 where it is not known
	done  int64
	shown time.Time
	wide  int
}

// add counts bytes, and shows them now and then.
func (p *progressLine) add(c *copier, n int) {
	p.done += int64(n)
	if c.quiet || !c.stderr.terminal || time.Since(p.shown) < 100*time.Millisecond {
		return
	}
	p.shown = time.Now()
	line := fmt.Sprintf("%s  %.1f MiB", Visible(p.what), float64(p.done)/(1<<20))
	if p.total > 0 {
		line += fmt.Sprintf("  %d%%", p.done*100/p.total)
	}
	fmt.Fprintf(os.Stderr, "\r%-*s", p.wide, line)
	p.wide = len(line)
}

// clear removes the line.
func (p *progressLine) clear() {
	if p.wide > 0 {
		fmt.Fprintf(os.Stderr, "\r%*s\r", p.wide, "")
		p.wide = 0
	}
}

// completeCopies completes the names of sessions; the rest are files.
func completeCopies(to *Target) completer {
	return func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 1 || to.Resolve() == "" || prefix != "" && strings.ContainsAny(prefix[:1], "./:") {
			return nil, cobra.ShellCompDirectiveDefault
		}
		ids := ask(to, cmd, func(ctx context.Context, client *Client) (list []string) {
			sessions, err := client.allSessions(ctx)
			if err != nil {
				return nil
			}
			for _, session := range sessions {
				if id := session.GetSessionId() + ":"; strings.HasPrefix(id, prefix) {
					list = append(list, id)
				}
			}
			return list
		})
		if len(ids) == 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return ids, cobra.ShellCompDirectiveNoSpace
	}
}
