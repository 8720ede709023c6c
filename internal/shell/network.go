// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/toolserver/toolserver/internal/shell/programs"
	"github.com/toolserver/toolserver/internal/tools"
)

// ports are the ports of the schemes that addresses have.
var ports = map[string]int{
	"http": 80, "https": 443, "ftp": 21, "ftps": 990, "ssh": 22, "git+ssh": 22, "sftp": 22, "scp": 22, "git": 9418, "ws": 80, "wss": 443, "rsync": 873, "telnet": 23,
	"ldap": 389, "ldaps": 636, "smtp": 25, "smtps": 465, "imap": 143, "imaps": 993, "pop3": 110, "pop3s": 995, "tftp": 69, "gopher": 70, "dict": 2628, "mqtt": 1883,
}

// reaches adds the effect of talking to a host.
func (a *analysis) reaches(host string, port int) {
	e := tools.Effect{Kind: tools.ReachesHost, Host: strings.ToLower(strings.TrimSuffix(host, ".")), Port: port}
	if host == "" || strings.HasPrefix(host, "-") || strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`\"<>^{}|%`, r) }) {
		e.Unclear = "which host is meant is not known"
	}
	a.add(e)
}

// reachesDevice is what opening /dev/tcp/host/port does in bash.
func (a *analysis) reachesDevice(target string, w word) {
	host, port, _ := strings.Cut(target, "/")
	n, err := strconv.Atoi(port)
	if !w.known() || err != nil {
		a.add(tools.Effect{Kind: tools.ReachesHost, Host: host, Unclear: "which host is meant is not known"})
		return
	}
	a.reaches(host, n)
}

// reachesURL follows an address, and returns the file that it is, if it is one; scheme is
// what one without has, "" for one that must have it.
func (c *invocation) reachesURL(w word, scheme string) (file string) {
	text := w.text
	if !strings.Contains(text, ":/") && scheme != "" { // to curl, one slash is as good as two
		text = scheme + "://" + text
	}
	u, err := url.Parse(text)
	if !w.known() || err != nil || strings.ContainsAny(text, "\\ \t\n{}") || u.Hostname() == "" && u.Scheme != "file" {
		c.a.add(tools.Effect{Kind: tools.ReachesHost, Unclear: "which host is meant is not known"})
		return ""
	}
	if u.Scheme == "file" {
		c.reads(lit(u.Path), false)
		return u.Path
	}
	port, known := ports[strings.ToLower(u.Scheme)]
	if n, err := strconv.Atoi(u.Port()); err == nil {
		port, known = n, true
	}
	if !known {
		port = 0
	}
	if strings.ContainsAny(u.Hostname(), "*[") {
		c.a.add(tools.Effect{Kind: tools.ReachesHost, Unclear: "which host is meant is not known"})
		return ""
	}
	c.a.reaches(u.Hostname(), port)
	return ""
}

// curl fetches its operands. Values with @ read files.
func curl(c *invocation, p *programs.Program) {
	words := c.begin(p)
	addresses, several := words.operands, false
	for _, o := range words.given {
		if o.Does == "address" {
			addresses = append(addresses, o.value)
		}
		several = several || o.Does == "upload" && globbed(o.value.text)
	}
	several = several || slices.ContainsFunc(addresses, func(w word) bool { return globbed(w.text) })
	if several = several && !words.flag("globoff"); several {
		c.doubt("brackets and braces stand for several names")
	}
	dir, elsewhere := words.has("directory")
	if elsewhere = elsewhere && !dir.is(""); !elsewhere {
		dir = here
	}
	for _, o := range words.given {
		switch o.Does {
		case "host":
			c.reachesURL(o.value, "http")
		case "output":
			if name := o.value; !name.is("-") {
				if at := strings.IndexByte(name.text, '#'); at >= 0 && several {
					name = word{text: name.text[:at], unknown: true} // #1 is a part of the address
				}
				if elsewhere {
					name.text = strings.TrimLeft(name.text, "/") // it puts an absolute name there too
					name = within(dir, name)
				}
				c.writes(name, false)
			}
		case "writeout":
			c.writeOut(o.value)
		case "upload":
			if !o.value.is("-") && !o.value.is(".") {
				c.reads(o.value, false)
			}
		case "body", "header", "cookie":
			text := o.value.text
			if o.Does == "body" && o.Name == "data-urlencode" {
				_, text, _ = strings.Cut(text, "@")
				text = "@" + text
				if text == "@" {
					text = ""
				}
			}
			if file, ok := strings.CutPrefix(text, "@"); ok && file != "-" {
				c.reads(word{text: file, unknown: o.value.unknown}, false)
			} else if o.value.unknown && text == "" {
				c.reads(word{unknown: true}, false)
			}
			if o.Does == "cookie" && o.value.known() && !strings.Contains(text, "=") {
				c.reads(o.value, false)
			}
		case "form":
			c.form(o.value)
		}
	}
	named, sent := words.flag("remote"), words.flag("upload")
	for _, w := range addresses {
		if named {
			c.writes(within(dir, remoteName(w, false)), false)
		}
		if file, ok := strings.CutPrefix(w.text, "@"); ok {
			c.doubt("its addresses are in a file")
			c.reads(word{text: file, unknown: w.unknown, glob: w.glob}, false)
		}
		if file := c.reachesURL(w, "http"); sent {
			c.writes(lit(file), false)
			if strings.HasSuffix(file, "/") {
				c.writes(beneath(lit(file)), false)
			}
		}
	}
}

// globbed reports whether curl makes other names of a name: of braces, and of brackets
// that are neither empty nor around an IPv6 address.
func globbed(name string) bool {
	for {
		at := strings.IndexAny(name, "{[")
		if at < 0 {
			return false
		}
		inside, rest, _ := strings.Cut(name[at+1:], "]")
		if _, err := netip.ParseAddr(inside); name[at] == '{' || inside != "" && err != nil {
			return true
		}
		name = rest
	}
}

// attachedFiles match the files in a part of a form that begins with @, and formFiles those
// in others: name=@a;type=x,b or name=<a, with headers=@c in any.
var (
	attachedFiles = regexp.MustCompile(`(?i)(?:^@|,|;\s*headers=[@<])\s*("[^"]*"?|[^;,]*)`)
	formFiles     = regexp.MustCompile(`(?i)(?:^<|;\s*headers=[@<])\s*("[^"]*"?|[^;]*)`)
)

// form reads the files that a part of a form names.
func (c *invocation) form(part word) {
	_, value, _ := strings.Cut(part.text, "=")
	files := formFiles
	switch {
	case strings.HasPrefix(value, "@"):
		files = attachedFiles
	case part.unknown && !strings.HasPrefix(value, "<"):
		c.reads(word{unknown: true}, false)
	}
	for _, found := range files.FindAllStringSubmatch(value, -1) {
		name := strings.TrimSpace(found[1])
		if quoted, ok := strings.CutPrefix(name, `"`); ok {
			if name, ok = strings.CutSuffix(quoted, `"`); !ok || strings.Contains(name, `\`) {
				c.doubt("which file it sends is not known")
			}
		}
		if name != "-" {
			c.reads(word{text: name, unknown: part.unknown}, false)
		}
	}
}

// writeOut follows a format of curl, which may name files to write.
func (c *invocation) writeOut(format word) {
	if file, ok := strings.CutPrefix(format.text, "@"); ok {
		c.doubt("its format is in a file")
		if format.text = file; !format.is("-") {
			c.reads(format, false)
		}
		return
	}
	if format.unknown && !format.number {
		c.doubt("its format is not known, and may name a file")
	}
	for rest := format.text; ; {
		_, name, found := strings.Cut(rest, "%output{")
		if !found {
			return
		}
		name, rest, _ = strings.Cut(name, "}")
		c.writes(word{text: strings.TrimPrefix(name, ">>"), unknown: format.unknown, glob: format.glob}, false)
	}
}

// remoteName is the name that curl or wget gives to a file of an address. wget decodes it;
// newer versions of curl take that of a directory.
func remoteName(w word, wget bool) word {
	if !w.known() || strings.ContainsAny(w.text, "{}[]") {
		return word{unknown: true}
	}
	text, _, _ := strings.Cut(w.text, "?")
	text, _, _ = strings.Cut(text, "#")
	if _, rest, ok := strings.Cut(text, "://"); ok {
		text = rest
	}
	if !wget {
		text = strings.TrimRight(text, "/")
	}
	name := text[strings.LastIndexByte(text, '/')+1:]
	plain, err := url.PathUnescape(name)
	switch {
	case wget && (name == "" || !strings.Contains(text, "/")):
		return lit("index.html")
	case !strings.Contains(text, "/"):
		return lit("curl_response")
	case plain == "." || plain == "..":
		return word{unknown: true}
	case wget && err == nil && !strings.Contains(plain, "/"):
		return lit(plain)
	}
	return lit(name)
}

// wget fetches its operands into files of their names.
func wget(c *invocation, p *programs.Program) {
	words := c.begin(p)
	dir := here
	if w, ok := words.has("directory"); ok {
		dir = w
	}
	for _, w := range words.operands {
		c.reachesURL(w, "http")
		if !words.flag("write") {
			name := remoteName(w, true)
			c.writes(within(dir, name), false)
		}
	}
}

// ssh runs a command somewhere else.
func ssh(c *invocation, p *programs.Program) {
	words := c.parse(&programs.Program{Stop: true, Options: p.Options}, c.words[1:])
	port := 22
	if w, ok := words.has("port"); ok {
		port, _ = strconv.Atoi(w.text)
	}
	for _, o := range words.given {
		if o.Does == "host" {
			c.a.reaches(hostOnly(o.value.text), 0)
		}
	}
	if len(words.operands) > 0 {
		c.remote(words.operands[0], port)
	}
	c.doubt("it runs commands on another machine")
}

func (c *invocation) remote(w word, port int) {
	if !w.known() {
		c.a.add(tools.Effect{Kind: tools.ReachesHost, Unclear: "which host is meant is not known"})
		return
	}
	if strings.Contains(w.text, "://") {
		c.reachesURL(w, "")
		return
	}
	c.a.reaches(hostOnly(w.text), port)
}

// scp copies files from and to other machines.
func scp(c *invocation, p *programs.Program) {
	words := c.begin(p)
	port := 22
	if w, ok := words.has("port"); ok {
		port, _ = strconv.Atoi(w.text)
	}
	for i, w := range words.operands {
		_, remote := remoteHost(w)
		switch last := i == len(words.operands)-1; {
		case w.unknown:
			c.doubt("a word that is not known may be on another machine")
		case remote || c.base() == "sftp":
			host, _, _ := strings.Cut(w.text, ":")
			if strings.Contains(w.text, "://") {
				host = w.text
			}
			c.remote(lit(host), port)
		case last:
			c.writes(w, true)
		default:
			c.reads(w, true)
		}
	}
}

// nc talks to a host and a port, or waits for somebody, or runs a program.
func nc(c *invocation, _ *programs.Program) {
	var operands []word
	for _, w := range c.words[1:] {
		if w.known() && len(w.text) > 1 && w.text[0] == '-' {
			if strings.Trim(w.text, "-vznutrCwkN0123456789") != "" {
				c.doubt("what the option " + clip(w.text) + " does is not known")
			}
			continue
		}
		operands = append(operands, w)
	}
	port := 0
	if n := len(operands); n > 1 {
		port, _ = strconv.Atoi(operands[n-1].text)
	}
	for i, w := range operands {
		if i == 0 || !w.known() || !isNumber(w.text) {
			if w.known() && isNumber(w.text) && len(operands) > 2 {
				continue // the value of -w
			}
			c.remote(w, port)
		}
	}
}

// resolveHost names hosts among its operands.
func resolveHost(c *invocation, _ *programs.Program) {
	for _, w := range c.words[1:] {
		if !w.known() || !strings.HasPrefix(w.text, "-") && !isNumber(w.text) {
			c.remote(lit(strings.TrimPrefix(w.arg(), "@")), 0)
		}
	}
}
