// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"slices"
	"strings"
)

// tarOptions are the options of tar. Its first word may be options without a
// dash, whose values follow in order.
var tarOptions = onceTable(`
tar: tar
  c,create=create x,extract,get=extract t,list=list r,append=create u,update=create A,catenate,concatenate=create d,diff,compare=compare delete=create
  f,file:=archive C,directory:=directory T,files-from:=names X,exclude-from:=read exclude: exclude-vcs strip-components: transform,xform:=transform O,to-stdout
  z,gzip,gunzip,ungzip=filter j,bzip2=filter J,xz=filter Z,compress=filter zstd=filter lzma=filter lzip=filter a,auto-compress
  I,use-compress-program:=run to-command:=run checkpoint-action:=run checkpoint? rsh-command:=run rmt-command:=run F,info-script,new-volume-script:=run
  v,verbose p,preserve-permissions,same-permissions P,absolute-names=absolute h,dereference k,keep-old-files m,touch overwrite same-owner no-same-owner
  numeric-owner owner: group: mode: mtime: sort: S,sparse W,verify w,interactive wildcards no-wildcards anchored no-recursion remove-files=remove
  b,blocking-factor: N,newer,after-date: K,starting-file: one-file-system l o V,label: g,listed-incremental:=write no-overwrite-dir unlink-first U keep-directory-symlink
  warning: totals? utc full-time force-local null posix format: H: quoting-style: show-transformed-names help version no-same-permissions ignore-zeros i B
`)

func tar(c *call, _ *program) {
	words := c.words[1:]
	if len(words) > 0 && words[0].known() && words[0].text != "" && words[0].text[0] != '-' {
		words = oldStyle(words)
	}
	out := c.parse(tarOptions()["tar"], words)
	archive, hasArchive := out.has("archive")
	remote := hasArchive && strings.Contains(archive.text, ":") && !strings.HasPrefix(archive.text, "/") && !strings.HasPrefix(archive.text, ".")
	if remote {
		c.doubt("an archive with a colon in its name is on another machine")
	}
	dir := here
	for _, o := range out.given {
		if o.does == "directory" {
			dir = o.value
			if dir.known() && !strings.HasPrefix(dir.text, "/") && out.count("directory") > 1 {
				dir = word{unknown: true}
			}
		}
	}
	switch file := archive; {
	case !hasArchive, file.is("-"), remote:
	case out.flag("create"):
		c.writes(file, false)
	default:
		c.reads(file, false)
	}
	switch {
	case out.flag("extract"):
		if out.flag("absolute") || out.flag("transform") {
			c.doubt("the archive says where its files go")
		}
		c.extracts(dir)
	case out.flag("create"):
		for _, w := range out.operands {
			if w.known() && !strings.HasPrefix(w.text, "/") {
				w = within(dir, w)
			}
			c.reads(w, true)
			if out.flag("remove") {
				c.writes(w, true)
			}
		}
	case out.flag("compare"):
		for _, w := range out.operands {
			c.reads(within(dir, w), true)
		}
		c.doubt("the archive names the files it reads")
	case out.flag("list"):
		c.readOnly = onlyLists(out)
	}
}

// onlyLists reports whether the options of tar just show an archive.
func onlyLists(out parsed) bool {
	for _, o := range out.given {
		switch o.does {
		case "", "list", "archive", "filter", "directory":
		default:
			return false
		}
	}
	return true
}

// count is how many options do something.
func (p parsed) count(does string) int {
	n := 0
	for _, o := range p.given {
		if o.does == does {
			n++
		}
	}
	return n
}

// oldStyle turns `tar xzf a.tar b` into `tar -x -z -f a.tar b`.
func oldStyle(words []word) []word {
	options := tarOptions()["tar"].options
	var out []word
	rest := words[1:]
	for _, letter := range words[0].text {
		out = append(out, lit("-"+string(letter)))
		if o := options[string(letter)]; o != nil && o.value == needsValue && len(rest) > 0 {
			out = append(out, rest[0])
			rest = rest[1:]
		}
	}
	return append(out, rest...)
}

// zip writes its first operand and reads the others.
func zip(c *call, _ *program) {
	first := true
	for _, w := range c.words[1:] {
		if w.hidesOption() {
			c.doubt("a word that is not known may be an option")
		}
		if w.known() && strings.HasPrefix(w.text, "-") && w.text != "-" {
			if !plainZip[w.text] {
				c.doubt("what the option " + clip(w.text) + " does is not known")
			}
			continue
		}
		if first {
			c.writes(w, false)
			first = false
			continue
		}
		c.input(w, true)
	}
}

// plainZip are options of zip that only say how to pack.
var plainZip = map[string]bool{
	"-r": true, "-q": true, "-j": true, "-9": true, "-1": true, "-0": true, "-v": true, "-X": true, "-y": true, "-u": true,
	"-qr": true, "-rq": true, "-ry": true, "-r9": true, "-9r": true, "-D": true, "-g": true, "-x": true, "-i": true,
}

// unzipShows are the options of unzip with which it writes nothing.
var unzipShows = []string{"-l", "-v", "-lv", "-Z", "-Z1", "-t", "-tq", "-p", "-lq", "-ql", "-qql", "-z"}

// unzip writes the files that an archive names, unless it only shows them.
func unzip(c *call, _ *program) {
	dir, shows, other := here, false, false
	for i := 1; i < len(c.words); i++ {
		w := c.words[i]
		switch {
		case w.hidesOption():
			c.doubt("a word that is not known may be an option")
		case w.is("-d") && i+1 < len(c.words):
			i++
			dir, other = c.words[i], true
		case w.known() && slices.Contains(unzipShows, w.text):
			shows = true
		case w.known() && strings.HasPrefix(w.text, "-"):
			other = true
		default:
			c.reads(w, false)
		}
	}
	if shows && !other {
		c.readOnly = true
		return
	}
	c.extracts(dir)
}

// extracts writes files that something else names, all of them below a directory.
func (c *call) extracts(dir word) {
	top := func(at string) bool { return at == "." || at == "" }
	if at := c.dirs(dir); at == nil || slices.ContainsFunc(at, top) || dir.is("..") || strings.HasPrefix(dir.text, "../") {
		c.doubt("the archive names the files it writes, anywhere in the workspace")
	}
	c.writes(beneath(dir), false)
}

var rsyncOptions = onceTable(`
rsync: rsync
  a,archive r,recursive v,verbose q,quiet n,dry-run u,update inplace append l,links L,copy-links k,copy-dirlinks K,keep-dirlinks H,hard-links p,perms o,owner g,group t,times O,omit-dir-times D devices specials
  x,one-file-system z,compress P partial progress delete del delete-before delete-during delete-after delete-excluded force ignore-existing existing ignore-errors size-only checksum c h,human-readable i,itemize-changes stats
  exclude: include: filter: f: max-size: min-size: modify-window: timeout: bwlimit: chmod: port: info: debug: out-format: E,executability X,xattrs A,acls S,sparse W,whole-file m,prune-empty-dirs numeric-ids R,relative 0,from0 no-perms no-owner no-group no-times omit-link-times mkpath safe-links copy-unsafe-links help version
  e,rsh:=run rsync-path:=run exclude-from:=read include-from:=read files-from:=unsafe log-file:=write backup-dir:=write b,backup suffix: T,temp-dir:=write partial-dir:=write compare-dest:=read copy-dest:=read link-dest:=read write-batch:=write only-write-batch:=write read-batch:=read password-file:=read remove-source-files=move M,remote-option:=unsafe
`)

// rsync copies trees, here or to and from other machines.
func rsync(c *call, _ *program) {
	out := c.parse(rsyncOptions()["rsync"], c.words[1:])
	for i, w := range out.operands {
		if host, ok := remoteHost(w); ok {
			c.a.reaches(host, 0)
			continue
		}
		if i < len(out.operands)-1 {
			c.reads(w, true)
			if out.flag("move") {
				c.writes(w, true)
			}
			if to := out.operands[len(out.operands)-1]; w.many || strings.HasSuffix(w.text, "/") {
				if _, remote := remoteHost(to); !remote {
					c.writes(beneath(to), false)
				}
			} else if _, remote := remoteHost(to); !remote {
				c.arrives(w, to, true, false, false, false)
			}
			continue
		}
		c.writes(w, false)
	}
}

// remoteHost returns the host of a name such as user@host:path or rsync://host/.
func remoteHost(w word) (string, bool) {
	if _, rest, ok := strings.Cut(w.text, "://"); ok {
		host, _, _ := strings.Cut(rest, "/")
		return hostOnly(host), true
	}
	before, _, ok := strings.Cut(w.text, ":")
	if !ok || strings.Contains(before, "/") {
		return "", false
	}
	return hostOnly(before), true
}

// hostOnly drops a user before and a port after the name of a host.
func hostOnly(text string) string {
	text = text[strings.LastIndexByte(text, '@')+1:]
	if host, _, ok := strings.Cut(text, ":"); ok && !strings.Contains(text, "[") {
		return host
	}
	return strings.Trim(text, "[]")
}
