// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"charm.land/bubbles/v2/progress"
	"charm.land/bubbles/v2/spinner"
	"github.com/charmbracelet/x/ansi"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// A bar is the line at the bottom of a terminal that shows how far a call is.
type bar struct {
	to       *Stream
	begin    time.Time
	progress *pb.Progress
	drawn    bool
}

// patience is how long a call without progress runs before the bar shows.
const patience = 300 * time.Millisecond

// draw shows the bar, in place of what it showed before. It waits while a line
// of output is unfinished, and for calls that may end soon.
func (b *bar) draw(now time.Time) {
	elapsed := now.Sub(b.begin)
	if b.to.midline || elapsed < patience && b.progress.GetTotal() == 0 {
		return
	}
	fmt.Fprintf(b.to.file, "\r%s\x1b[K", barLine(b.progress, elapsed, b.to.width()-1))
	b.drawn = true
}

// clear takes the bar away, so that something else can be written.
func (b *bar) clear() {
	if b.drawn {
		fmt.Fprint(b.to.file, "\r\x1b[K")
		b.drawn = false
	}
}

// barLine returns the text of a bar of at most width columns.
func barLine(p *pb.Progress, elapsed time.Duration, width int) string {
	tail := ""
	if done, total := p.GetDone(), p.GetTotal(); total > 0 {
		tail = fmt.Sprintf(" %3.0f%% %s/%s", 100*fraction(done, total), amount(done, p.GetUnit()), quantity(total, p.GetUnit()))
	} else if done > 0 {
		tail = " " + quantity(done, p.GetUnit())
	}
	tail += " " + elapsed.Round(100*time.Millisecond).String()

	message := OneLine(p.GetMessage())
	if p.GetTotal() <= 0 { // nobody knows how far it is: something moves
		frames := spinner.Line.Frames
		return fit(strings.TrimSpace(frames[int(elapsed/(100*time.Millisecond))%len(frames)]+" "+message)+tail, width)
	}
	const least, most = 10, 40 // columns of the bar itself
	room := width - columns(tail) - least - len("[] ")
	if room < 1 {
		return fit(strings.TrimSpace(tail), width)
	}
	if message = fit(message, room); message != "" {
		message += " "
	}
	gauge := progress.New(progress.WithoutPercentage(), progress.WithFillCharacters('=', ' '),
		progress.WithWidth(min(most, width-columns(message)-columns(tail)-len("[]"))))
	return message + "[" + ansi.Strip(gauge.ViewAs(fraction(p.GetDone(), p.GetTotal()))) + "]" + tail
}

// fraction returns done/total as a number from 0 to 1, whatever they are.
func fraction(done, total float64) float64 {
	f := done / total
	if math.IsNaN(f) {
		return 0
	}
	return min(max(f, 0), 1)
}

// quantity writes a number with its unit.
func quantity(n float64, unit string) string {
	if text, own := withOwnUnit(n, unit); own {
		return text
	}
	return strings.TrimSpace(PlainNumber(n) + " " + OneLine(unit))
}

// amount writes a number without its unit, unless it is one that changes with
// the number.
func amount(n float64, unit string) string {
	if text, own := withOwnUnit(n, unit); own {
		return text
	}
	return PlainNumber(n)
}

func PlainNumber(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// withOwnUnit writes bytes and times as people read them.
func withOwnUnit(n float64, unit string) (string, bool) {
	switch unit {
	case "bytes":
		return byteCount(n), true
	case "ms":
		return seconds(n / 1000), true
	case "s", "seconds":
		return seconds(n), true
	}
	return "", false
}

func seconds(n float64) string {
	if !(math.Abs(n) < 1e9) {
		return PlainNumber(n) + "s"
	}
	return time.Duration(n * float64(time.Second)).Round(100 * time.Millisecond).String()
}

// byteCount writes a number of bytes with a unit that leaves it short.
func byteCount(n float64) string {
	for _, unit := range []struct {
		name  string
		bytes float64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n >= unit.bytes {
			return strconv.FormatFloat(n/unit.bytes, 'f', 1, 64) + unit.name
		}
	}
	return PlainNumber(n) + "B"
}

// OneLine is visible for text of several lines, which it joins.
func OneLine(text string) string { return Visible(strings.Join(strings.Fields(text), " ")) }
