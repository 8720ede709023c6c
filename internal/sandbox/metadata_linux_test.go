// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/toolserver/toolserver/internal/sandbox"
)

// TestSetID makes programs that would have the rights of who owns them, in every
// way there is. Those that are about the mode alone succeed without these bits.
func TestSetID(t *testing.T) {
	p := newPlace(t, sandbox.Config{}, nil)
	// What has no program of its own is tried by one of ours.
	if out, end := p.runJailed(t, "setid"); out != "" || end.Code != 0 {
		t.Errorf("%s %+v", out, end)
	}
	const perl = `perl -e 'use Fcntl; umask 0; `
	for command, want := range map[string]string{
		`touch a && chmod 6755 a && stat -c %a a`:                                                                            "755\n",
		`touch b && chmod u+s,g+s b && stat -c %a b`:                                                                         "644\n",
		`install -m 4711 /dev/null c && stat -c %a c`:                                                                        "711\n",
		`mkdir d && chmod 7755 d && stat -c %a d`:                                                                            "3755\n",
		`touch e && chmod 755 e && tar cf e.tar --mode=6755 e && tar xpf e.tar; stat -c %a e`:                                "755\n",
		perl + `sysopen(F, "f", O_CREAT|O_RDWR, 04755) and print "made"'; ls f 2>/dev/null`:                                  "",
		perl + `sysopen(F, "g", O_CREAT|O_RDWR, 02755) and print "made"'; ls g 2>/dev/null`:                                  "",
		perl + `sysopen(F, ".", 020200002, 04755) and print "made"'`:                                                         "",
		perl + `sysopen(F, "l", O_CREAT|O_RDWR, 0755) and sysopen(F, "l", O_RDWR, 06755) and print "opened "'; stat -c %a l`: "opened 755\n",
	} {
		out, end := p.run(t, `{ `+command+`; } 2>&1`, sandbox.Limits{})
		if out != want {
			t.Errorf("%s: %q %+v, want %q", command, out, end, want)
		}
	}
}

// TestOwnerOutside gives files outside to who has them. The kernel would take from
// them what makes them programs with the rights of their owner.
func TestOwnerOutside(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("program"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o755|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	changed := func() syscall.Timespec {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode()&os.ModeSetuid == 0 {
			t.Error("the bit was taken")
		}
		return info.Sys().(*syscall.Stat_t).Ctim
	}
	before := changed()
	p := newPlace(t, sandbox.Config{}, nil)
	for _, command := range []string{`chown "$(id -u):$(id -g)"`, `chown -h "$(id -u)"`, `chgrp "$(id -g)"`, `perl -e 'chown -1, -1, @ARGV'`} {
		p.run(t, command+" "+file, sandbox.Limits{})
		if now := changed(); now != before {
			t.Errorf("%s: %v, want %v", command, now, before)
		}
	}
	if out, end := p.run(t, `touch x; chown 12345 x 2>&1 | grep -o 'not permitted'; cp -a x y && echo copied`, sandbox.Limits{}); out != "not permitted\ncopied\n" {
		t.Errorf("%q %+v", out, end)
	}
}

// makeSetID makes files by system calls, as a command.
func makeSetID([]string) {
	unix.Umask(0)
	const mode = unix.S_ISUID | 0o755
	tell := func(how string, err error) {
		if err == nil {
			fmt.Println(how, "made a file")
		}
	}
	tell("mknodat", unix.Mknodat(unix.AT_FDCWD, "mknodat", unix.S_IFREG|mode, 0))
	tell("mknod", unix.Mknod("mknod", unix.S_IFREG|unix.S_ISGID|0o755, 0))
	_, err := unix.Open("open", unix.O_CREAT|unix.O_RDWR, mode)
	tell("open", err)
	_, err = unix.Open(".", unix.O_TMPFILE|unix.O_RDWR, mode)
	tell("a file without a name", err)
	_, err = unix.Openat2(unix.AT_FDCWD, "openat2", &unix.OpenHow{Flags: unix.O_CREAT | unix.O_RDWR, Mode: mode})
	tell("openat2", err)
}
