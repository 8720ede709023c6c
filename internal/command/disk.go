// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolserver/toolserver/internal/tools"
)

// disk ends commands that make more files than they may. The kernel has limits
// of files for users and file systems, not for commands. But a file system tells
// for nothing how many files it has left, so the files of a session are counted
// only when enough of them are gone.
type disk struct {
	limits Limits

	mu        sync.Mutex
	running   map[*Running]struct{}
	recent    map[*Runner]struct{} // that have run something since the last look
	measuring bool                 // or about to
	last      map[uint64]space     // by device
	lastAt    time.Time
	ending    ending
}

// ending is the session that was ended last for taking the reserve. Until it has,
// nobody else is blamed for what it still takes.
type ending struct {
	runner *Runner
	at     time.Time
}

// space is what a file system has.
type space struct {
	files, freeFiles uint64 // 0 files: it does not count them
	bytes, freeBytes uint64
}

const (
	// What is far from its limit is looked at as soon as it could be there, at so
	// many files or bytes a second, but never more or less often than this.
	diskRate     = 200_000
	diskByteRate = 2 << 30
	diskInterval = 10 * time.Millisecond
	diskPause    = time.Second
	// firstMeasure is when a command is first looked at: most have ended by then.
	firstMeasure = 50 * time.Millisecond
	// countShare bounds the time for counting: a count is followed by so many times
	// its duration without one.
	countShare = 20
	// reserveShare is the part of a file system that is reserved at most.
	reserveShare = 10
)

// fileCount is how many files and directories a session has made. All but why is guarded by the disk.
type fileCount struct {
	since  time.Time         // what is older was there before
	places []string          // directories that are its own
	on     map[uint64]string // a path on each device that it may write to

	walking   sync.Mutex // held for a count; not guarded by the disk
	last      *counter   // the last count, or that under way
	counting  bool
	countedAt time.Time
	took      time.Duration
	taken     int64 // files that the file systems lost since

	why atomic.Pointer[overLimit] // nothing is started
}

// overLimit is why commands of a session are ended, and none is started.
type overLimit struct {
	device uint64 // that has too little left; 0: the session has too many files
	text   string
}

func (f *overLimit) Error() string { return f.text }

func (d *disk) limited() bool {
	return d.limits.SessionFiles > 0 || d.limits.ReservedFiles > 0 || d.limits.ReservedSpace > 0
}

// clockStep is how far the times of files may be behind the clock.
const clockStep = 20 * time.Millisecond

// enters notes where a session can make files.
func (d *disk) enters(m *fileCount, own, others []string) {
	if !d.limited() {
		return
	}
	m.since, m.last = time.Now().Add(-clockStep), new(counter)
	m.places, m.on = own, make(map[uint64]string)
	now := make(map[uint64]space)
	for _, place := range slices.Concat(own, others) {
		if device, s, err := spaceOf(place); err == nil {
			m.on[device], now[device] = place, s
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for device, s := range now {
		if _, known := d.last[device]; !known {
			if d.last == nil {
				d.last = make(map[uint64]space)
			}
			d.last[device] = s
		}
	}
}

// begins has a command watched that was started.
func (d *disk) begins(x *Running) {
	if !d.limited() {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.running == nil {
		d.running, d.recent = make(map[*Running]struct{}), make(map[*Runner]struct{})
	}
	d.running[x] = struct{}{}
	d.recent[x.runner] = struct{}{}
	if !d.measuring {
		d.measuring = true
		time.AfterFunc(firstMeasure, d.measure)
	}
}

func (d *disk) ends(x *Running) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.running, x)
}

// measure looks at the file systems of all that ran since it last did, and comes
// back while something runs.
func (d *disk) measure() {
	d.mu.Lock()
	runners := d.recent
	d.recent = make(map[*Runner]struct{})
	for x := range d.running {
		runners[x.runner] = struct{}{}
	}
	d.mu.Unlock()

	now := make(map[uint64]space) // without the lock: a file system may not answer
	for runner := range runners {
		for device, place := range runner.made.on {
			if _, known := now[device]; !known {
				if _, s, err := spaceOf(place); err == nil {
					now[device] = s
				}
			}
		}
	}

	d.mu.Lock()
	defer d.mu.Unlock()
	wait := diskPause
	for runner := range runners {
		wait = min(wait, d.account(runner, now))
	}
	fresh := time.Since(d.lastAt) < 2*diskPause
	for device, s := range now {
		wait = min(wait, d.keepReserve(device, s, fresh))
		d.last[device] = s
	}
	d.lastAt = time.Now()
	if runner := d.ending.runner; runner != nil && (!d.runs(runner) || time.Since(d.ending.at) > diskPause) {
		d.ending = ending{} // what is lost from now on was taken by others
	}
	if d.measuring = len(d.running) > 0; d.measuring {
		time.AfterFunc(wait, d.measure)
	}
}

// after returns when to look again at what is so far from its limit.
func after(left, rate uint64) time.Duration {
	if left >= rate {
		return diskPause
	}
	return max(diskInterval, time.Duration(left)*time.Second/time.Duration(rate))
}

// runs reports whether a session runs something.
func (d *disk) runs(runner *Runner) bool {
	for x := range d.running {
		if x.runner == runner {
			return true
		}
	}
	return false
}

// account notes what a session can have made since the last look, has its files
// counted if that may be too much, and returns when to look again.
func (d *disk) account(runner *Runner, now map[uint64]space) time.Duration {
	limit := int64(d.limits.SessionFiles)
	if limit == 0 {
		return diskPause
	}
	m := &runner.made
	unknown := false
	for device := range m.on {
		before, s := d.last[device], now[device]
		unknown = unknown || s.files == 0
		m.taken += int64(max(before.freeFiles, s.freeFiles) - s.freeFiles)
	}
	since := time.Since(m.countedAt)
	could := m.last.files() + m.taken
	if since >= countShare*m.took && (could > limit || unknown && since >= diskPause) {
		d.startCount(runner)
	}
	return after(uint64(max(0, limit-could)), diskRate)
}

// startCount has the files of a session counted, unless they are.
func (d *disk) startCount(runner *Runner) {
	if !runner.made.counting {
		runner.made.counting = true
		go d.count(runner)
	}
}

// count counts the files of a session, and ends its commands if there are too
// many.
func (d *disk) count(runner *Runner) {
	m, c := &runner.made, new(counter)
	m.walking.Lock() // what was seen last counts
	defer m.walking.Unlock()
	d.mu.Lock()
	m.last = c
	m.taken = 0 // what is made from now on may be missed
	d.mu.Unlock()
	begun := time.Now()
	for _, place := range m.places {
		c.count(place, m.since)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	m.counting, m.countedAt, m.took = false, time.Now(), time.Since(begun)
	limit := int64(d.limits.SessionFiles)
	if limit > 0 && c.files() > limit {
		d.stop(runner, &overLimit{text: fmt.Sprintf("the commands of this session have made more than the %d files and directories they may, in the workspace, $HOME and $TMPDIR together. "+
			"Delete those that are not needed, with delete_file or with a command that does nothing but rm, or find with -delete, which still run. Then go on with fewer files, or ask the operator for more (sandbox.limits.session_files).", limit)})
	} else if why := m.why.Load(); why != nil && why.device == 0 {
		m.why.CompareAndSwap(why, nil)
	}
}

// stop ends the commands of a session, but those that delete, and has none
// started. The disk is locked.
func (d *disk) stop(runner *Runner, why *overLimit) {
	runner.made.why.Store(why)
	for x := range d.running {
		if x.runner == runner && !x.command.Deletes {
			x.Stop(why)
		}
	}
}

// reserve returns what is to be left of a file system.
func (d *disk) reserve(s space) (files, bytes uint64) {
	return min(uint64(d.limits.ReservedFiles), s.files/reserveShare), min(uint64(d.limits.ReservedSpace), s.bytes/reserveShare)
}

// Space returns why a client may not send so many bytes more to a session, or nil: of
// the file systems that they go to, as much is to be left as commands leave.
func (r *Runners) Space(env tools.Env, more uint64) error {
	if !r.disk.limited() {
		return nil
	}
	runner, err := r.Of(env)
	if err != nil {
		return nil // and what is wrong there is told by the writing
	}
	for _, place := range []string{runner.workspace.Dir(), runner.private} {
		_, s, err := spaceOf(place)
		if err != nil {
			continue
		}
		files, bytes := r.disk.reserve(s)
		if files > 0 && s.freeFiles < files {
			return fmt.Errorf("the file system can hold only %d more files, and %d are reserved: delete files that are not needed, or ask the operator (sandbox.limits.reserved_files)", s.freeFiles, files)
		}
		if bytes > 0 && (s.freeBytes < bytes || s.freeBytes-bytes < more) {
			return fmt.Errorf("the file system has %d MiB left, of which %d MiB are reserved, and %d MiB more are to be written: delete files that are not needed, or ask the operator (sandbox.limits.reserved_space)",
				s.freeBytes>>20, bytes>>20, (more+1<<20-1)>>20)
		}
	}
	return nil
}

func (d *disk) low(s space) bool {
	files, bytes := d.reserve(s)
	return s.freeFiles < files || s.freeBytes < bytes
}

// keepReserve has a look at one file system. When little is left the files of all
// who could have taken it are counted; when the reserve is being used the session
// that has the most is ended. If that was somebody else, the next look finds
// less again, and the next session. It returns when to look again.
func (d *disk) keepReserve(device uint64, s space, fresh bool) time.Duration {
	files, bytes := d.reserve(s)
	before := d.last[device]
	fewFiles := files > 0 && s.freeFiles < 2*files && s.freeFiles < before.freeFiles
	littleSpace := bytes > 0 && s.freeBytes < 2*bytes && s.freeBytes < before.freeBytes
	if fresh && (fewFiles || littleSpace) {
		runners := d.writers(device)
		for runner := range runners {
			if m := &runner.made; time.Since(m.countedAt) >= max(diskPause, countShare*m.took) {
				d.startCount(runner)
			}
		}
		switch {
		case d.ending.runner != nil:
		case fewFiles && s.freeFiles < files:
			d.endMost(device, runners, (*counter).files, files, "can hold only few more files, and this session has made the most of all that run commands there")
		case littleSpace && s.freeBytes < bytes:
			d.endMost(device, runners, func(c *counter) int64 { return c.bytes.Load() }, bytes, "is almost full, and this session has written the most of all that run commands there")
		}
	}
	wait := diskPause
	if files > 0 {
		wait = min(wait, after(max(s.freeFiles, files)-files, diskRate))
	}
	if bytes > 0 {
		wait = min(wait, after(max(s.freeBytes, bytes)-bytes, diskByteRate))
	}
	return wait
}

// writers returns the sessions that run commands which may write to a device.
func (d *disk) writers(device uint64) map[*Runner]struct{} {
	runners := make(map[*Runner]struct{})
	for x := range d.running {
		if _, on := x.runner.made.on[device]; on && !x.command.Deletes {
			runners[x.runner] = struct{}{}
		}
	}
	return runners
}

// endMost ends the commands of the session that has the most. While some are
// still being counted it must have much, which is a part of the reserve.
func (d *disk) endMost(device uint64, runners map[*Runner]struct{}, has func(*counter) int64, much uint64, what string) {
	var most *Runner
	least := int64(1)
	for runner := range runners {
		if runner.made.counting {
			least = max(1, int64(much/reserveShare))
		}
		if most == nil || has(runner.made.last) > has(most.made.last) {
			most = runner
		}
	}
	if most == nil || has(most.made.last) < least {
		return
	}
	d.ending = ending{most, time.Now()}
	d.stop(most, &overLimit{device: device, text: fmt.Sprintf("the file system of %s %s. "+
		"Delete what is not needed, with delete_file or with a command that does nothing but rm, or find with -delete, which still run; or try again when others have.", most.made.on[device], what)})
}

// admit says why a session starts no command, if so.
func (d *disk) admit(runner *Runner, c Command) error {
	m := &runner.made
	why := m.why.Load()
	if why == nil || c.Deletes {
		return nil
	}
	if why.device == 0 {
		d.count(runner)
	} else if _, s, err := spaceOf(m.on[why.device]); err == nil && !d.low(s) {
		m.why.CompareAndSwap(why, nil)
	}
	if why = m.why.Load(); why == nil {
		return nil
	}
	return tools.Failf(failureCodes[tools.DiskLimit], "Nothing was started: %s", why.text)
}

// counter counts what is younger than a session. What it has so far may be read
// meanwhile.
type counter struct {
	whole atomic.Int64
	parts atomic.Int64 // of files with several names: each has a part of one
	bytes atomic.Int64
}

// partsOfFile is how many parts a file has.
const partsOfFile = 1 << 30

func (c *counter) files() int64 { return c.whole.Load() + c.parts.Load()/partsOfFile }
