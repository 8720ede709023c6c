// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package output

import (
	"bytes"
	"strings"
)

// A secretPattern tells what one kind of secret looks like.
type secretPattern struct {
	name   string
	prefix string    // what it begins with, at least 3 bytes
	gram   int       // where in the prefix two rare grams begin; the second may end one byte behind it
	body   byteClass // of the bytes behind the prefix
	min    int       // how many of them there are
	max    int       // and at most, where more belong to the secret
	match  func(m *Masker, r *secretPattern, t text, place int) found
}

// secretPatterns are those that are built in. Of two that begin alike the one that says
// more comes first.
var secretPatterns = []secretPattern{
	{name: "github token", prefix: "ghp_", body: alnum, min: 30, max: 255, match: token},
	{name: "github token", prefix: "gho_", body: alnum, min: 30, max: 255, match: token},
	{name: "github token", prefix: "ghu_", body: alnum, min: 30, max: 255, match: token},
	{name: "github token", prefix: "ghs_", body: alnum, min: 30, max: 1024, match: token},
	{name: "github token", prefix: "ghr_", body: alnum, min: 30, max: 255, match: token},
	{name: "github token", prefix: "github_pat_", gram: 4, body: word, min: 22, max: 255, match: token},

	{name: "gitlab token", prefix: "glpat-", body: dotted, min: 20, max: 300, match: token},
	{name: "gitlab token", prefix: "gldt-", body: dotted, min: 20, max: 300, match: token},
	{name: "gitlab token", prefix: "glrt-", body: dotted, min: 20, max: 300, match: token},
	{name: "gitlab token", prefix: "glrtr-", body: dotted, min: 20, max: 300, match: token},
	{name: "gitlab token", prefix: "glcbt-", body: dotted, min: 20, max: 300, match: token},
	{name: "gitlab token", prefix: "glptt-", body: dotted, min: 20, max: 300, match: token},
	{name: "gitlab token", prefix: "glft-", body: dotted, min: 20, max: 300, match: token},
	{name: "gitlab token", prefix: "glimt-", gram: 2, body: dotted, min: 20, max: 300, match: token},
	{name: "gitlab token", prefix: "glsoat-", body: dotted, min: 20, max: 300, match: token},
	{name: "gitlab token", prefix: "glagent-", body: dotted, min: 20, max: 300, match: token},
	{name: "gitlab token", prefix: "gloas-", body: dotted, min: 20, max: 300, match: token},

	{name: "slack token", prefix: "xoxb-", body: word, min: 20, max: 300, match: token},
	{name: "slack token", prefix: "xoxp-", body: word, min: 20, max: 300, match: token},
	{name: "slack token", prefix: "xoxa-", body: word, min: 20, max: 300, match: token},
	{name: "slack token", prefix: "xoxr-", body: word, min: 20, max: 300, match: token},
	{name: "slack token", prefix: "xoxs-", body: word, min: 20, max: 300, match: token},
	{name: "slack token", prefix: "xoxo-", body: word, min: 20, max: 300, match: token},
	{name: "slack token", prefix: "xoxc-", body: word, min: 20, max: 300, match: token},
	{name: "slack token", prefix: "xoxd-", body: base64ish, min: 20, max: 500, match: token},
	{name: "slack token", prefix: "xoxe", body: dotted, min: 20, max: 300, match: token},
	{name: "slack token", prefix: "xapp-1-", gram: 2, body: word, min: 20, max: 300, match: token},
	{name: "slack webhook", prefix: "hooks.slack.com/services/", gram: 5, body: base64ish, min: 20, max: 300, match: token},

	{name: "stripe key", prefix: "sk_live_", body: alnum, min: 16, max: 300, match: token},
	{name: "stripe key", prefix: "sk_test_", body: alnum, min: 16, max: 300, match: token},
	{name: "stripe key", prefix: "rk_live_", body: alnum, min: 16, max: 300, match: token},
	{name: "stripe key", prefix: "rk_test_", body: alnum, min: 16, max: 300, match: token},
	{name: "stripe secret", prefix: "whsec_", body: base64ish, min: 24, max: 300, match: token},

	{name: "anthropic key", prefix: "sk-ant-", gram: 1, body: word, min: 20, max: 300, match: token},
	{name: "openrouter key", prefix: "sk-or-v1-", gram: 5, body: word, min: 20, max: 300, match: token},
	{name: "openai key", prefix: "sk-proj-", gram: 1, body: word, min: 20, max: 300, match: token},
	{name: "openai key", prefix: "sk-svcacct-", gram: 3, body: word, min: 20, max: 300, match: token},
	{name: "openai key", prefix: "sk-admin-", gram: 1, body: word, min: 20, max: 300, match: token},
	{name: "openai key", prefix: "sk-", body: alnum, min: 32, max: 300, match: tokenApart},

	{name: "google key", prefix: "AIza", body: word, min: 35, max: 35, match: token},
	{name: "google token", prefix: "ya29.", body: dotted, min: 20, max: 2048, match: token},
	{name: "google secret", prefix: "GOCSPX-", body: word, min: 20, max: 300, match: token},

	{name: "aws access key", prefix: "AKIA", body: capital, min: 16, match: awsKey},
	{name: "aws access key", prefix: "ASIA", body: capital, min: 16, match: awsKey},
	{name: "aws access key", prefix: "ABIA", gram: 1, body: capital, min: 16, match: awsKey},
	{name: "aws access key", prefix: "ACCA", body: capital, min: 16, match: awsKey},
	{name: "aws secret key", prefix: "ecret_access_key", gram: 4, body: base64ish, min: 40, max: 40, match: assigned},
	{name: "aws secret key", prefix: "ECRET_ACCESS_KEY", gram: 4, body: base64ish, min: 40, max: 40, match: assigned},
	{name: "aws secret key", prefix: "ecretAccessKey", gram: 4, body: base64ish, min: 40, max: 40, match: assigned},
	{name: "azure key", prefix: "AccountKey", gram: 5, body: base64ish, min: 80, max: 100, match: assigned},

	{name: "npm token", prefix: "npm_", body: alnum, min: 36, max: 255, match: token},
	{name: "pypi token", prefix: "pypi-AgE", gram: 3, body: word, min: 40, max: 1024, match: token},
	{name: "docker token", prefix: "dckr_pat_", body: word, min: 20, max: 300, match: token},
	{name: "hugging face token", prefix: "hf_", body: alnum, min: 30, max: 300, match: tokenApart},
	{name: "sendgrid key", prefix: "SG.", body: dotted, min: 60, max: 300, match: tokenApart},
	{name: "digitalocean token", prefix: "dop_v1_", body: alnum, min: 40, max: 300, match: token},
	{name: "vault token", prefix: "hvs.", body: word, min: 24, max: 1024, match: token},
	{name: "groq key", prefix: "gsk_", body: alnum, min: 40, max: 300, match: token},
	{name: "shopify token", prefix: "shpat_", body: alnum, min: 32, max: 300, match: token},
	{name: "linear key", prefix: "lin_api_", gram: 2, body: alnum, min: 30, max: 300, match: token},

	{name: "json web token", prefix: "eyJ", body: word, match: jwt},
	{name: "credentials", prefix: "uthorization", gram: 4, match: authorization},
	{name: "credentials", prefix: "UTHORIZATION", gram: 4, match: authorization},
	{name: "password", prefix: "://", body: user, match: urlPassword},
	{name: "private key", prefix: "-----BEGIN ", gram: 5, match: privateKey},
}

// A byteClass is a set of bytes; several of them are their union.
type byteClass uint8

const (
	alnum     byteClass = 1 << iota // letters and digits
	capital                         // capital letters and digits
	word                            // letters, digits, - and _
	dotted                          // those and .
	base64ish                       // letters, digits, + / = and %
	user                            // what may be before the host of a URL
	credit                          // what credentials are made of
	between                         // what separates a name from its value
)

func classesOfBytes() (classes [256]byteClass) {
	set := func(k byteClass, these string) {
		for _, b := range []byte(these) {
			classes[b] |= k
		}
	}
	const capitals = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	const letters = capitals + "abcdefghijklmnopqrstuvwxyz"
	set(alnum, letters)
	set(capital, capitals)
	set(word, letters+"-_")
	set(dotted, letters+"-_.")
	set(base64ish, letters+"+/=%")
	set(credit, letters+"-_.~+/=:,%$!*")
	set(between, " \t\"':=>\\")
	for b := range 256 {
		if b > ' ' && b != 0x7f && !strings.ContainsRune("/?#\"'<>`\\", rune(b)) {
			classes[b] |= user
		}
	}
	return classes
}

// text is where a secret is looked for.
type text struct {
	bytes  []byte
	before byte // that precedes the first
	final  bool // nothing follows
	known  *int // up to there the bytes are of class word, from where a JWT was looked for last
}

// prior returns the byte before a place.
func (t text) prior(place int) byte {
	if place == 0 {
		return t.before
	}
	return t.bytes[place-1]
}

// run counts bytes of a class from a place on, up to most. It is open if there
// may be more of them to come.
func (m *Masker) run(t text, place int, k byteClass, most int) (n int, open bool) {
	for n < most && place+n < len(t.bytes) && m.classes[t.bytes[place+n]]&k != 0 {
		n++
	}
	return n, n < most && place+n == len(t.bytes) && !t.final
}

// found is what a pattern says about a place.
type found struct {
	state      matchState
	pattern    *secretPattern
	start, end int        // what is masked
	within     maskedRest // what belongs to it behind the end
}

type matchState int

const (
	none  matchState = iota
	more             // it depends on what follows
	match            // whatever follows
)

// unless returns more for what is open, and none otherwise.
func unless(open bool) found {
	if open {
		return found{state: more}
	}
	return found{}
}

// whole matches a value.
func whole(_ *Masker, r *secretPattern, _ text, place int) found {
	return found{state: match, start: place, end: place + len(r.prefix)}
}

// token matches a prefix and what follows it.
func token(m *Masker, r *secretPattern, t text, place int) found {
	n, open := m.run(t, place+len(r.prefix), r.body, r.min)
	if n < r.min {
		return unless(open)
	}
	return found{state: match, start: place, end: place + len(r.prefix) + n, within: maskedRest{class: r.body, left: r.max - n}}
}

// tokenApart matches a token that is not the end of a longer word.
func tokenApart(m *Masker, r *secretPattern, t text, place int) found {
	if m.classes[t.prior(place)]&word != 0 {
		return found{}
	}
	return token(m, r, t, place)
}

// awsKey matches an id that has exactly its length: it is all capitals and
// digits, and so are other things.
func awsKey(m *Masker, r *secretPattern, t text, place int) found {
	if m.classes[t.prior(place)]&capital != 0 {
		return found{}
	}
	n, open := m.run(t, place+4, capital, r.min+1)
	if n != r.min || open {
		return unless(open)
	}
	return found{state: match, start: place, end: place + 4 + n}
}

// maxBetween is how far a value may be from its name.
const maxBetween = 12

// value returns the place of what is assigned to the name at a place.
func (m *Masker) value(t text, place int) (at int, ok, open bool) {
	n, open := m.run(t, place, between, maxBetween)
	for _, b := range t.bytes[place : place+n] {
		ok = ok || b == ':' || b == '='
	}
	return place + n, ok, open
}

// assigned matches a value by the name before it.
func assigned(m *Masker, r *secretPattern, t text, place int) found {
	at, ok, open := m.value(t, place+len(r.prefix))
	if !ok || open {
		return unless(open)
	}
	n, open := m.run(t, at, r.body, r.min)
	if n < r.min {
		return unless(open)
	}
	return found{state: match, start: at, end: at + n, within: maskedRest{class: r.body, left: r.max - n}}
}

const (
	maxScheme      = 16 // bytes of the name of a scheme
	minCredentials = 6  // behind the name of a scheme
	minBare        = 20 // without
)

// authorization matches what a header says, in HTTP or as it is written in
// programs: the credentials behind a known scheme, or one long word.
func authorization(m *Masker, r *secretPattern, t text, place int) found {
	at, ok, open := m.value(t, place+len(r.prefix))
	if !ok || open {
		return unless(open)
	}
	n, open := m.run(t, at, credit, minBare)
	if open {
		return found{state: more}
	}
	if n == minBare {
		if !strings.ContainsAny(string(t.bytes[at:at+n]), "0123456789") {
			return found{}
		}
		return found{state: match, start: at, end: at + n, within: maskedRest{class: credit, left: maxSecret}}
	}
	switch strings.ToLower(string(t.bytes[at : at+min(n, maxScheme)])) {
	case "bearer", "basic", "token", "apikey", "digest", "negotiate":
	default:
		return found{}
	}
	at += n
	spaces, open := m.run(t, at, between, 4)
	if open {
		return found{state: more}
	}
	at += spaces
	if n, open = m.run(t, at, credit, minCredentials); n < minCredentials {
		return unless(open)
	}
	return found{state: match, start: at, end: at + n, within: maskedRest{class: credit, left: maxSecret}}
}

const (
	maxSecret    = 16 << 10 // bytes of what has no other limit
	maxHeader    = 1024     // bytes of the first part of a JWT
	minPart      = 10       // bytes of a part of it
	maxAuthority = 512      // bytes of a URL before its path
)

// jwt matches two parts, of which the first begins a JSON object.
func jwt(m *Masker, r *secretPattern, t text, place int) found {
	end := max(place+len(r.prefix), *t.known)
	n, open := m.run(t, end, word, place+maxHeader-end)
	end += n
	*t.known = end
	if open {
		return found{state: more}
	}
	if end-place < minPart || end == len(t.bytes) || t.bytes[end] != '.' {
		return unless(end-place >= minPart && end == len(t.bytes) && !t.final)
	}
	if n, open = m.run(t, end+1, word, minPart); n < minPart {
		return unless(open)
	}
	return found{state: match, start: place, end: end + 1 + n, within: maskedRest{class: dotted, left: maxSecret}}
}

// urlPassword matches what is between the first colon and the last @ of what
// comes before the path of a URL.
func urlPassword(m *Masker, r *secretPattern, t text, place int) found {
	if m.classes[t.prior(place)]&dotted == 0 {
		return found{}
	}
	at := place + len(r.prefix)
	n, open := m.run(t, at, user, maxAuthority)
	if open {
		return found{state: more}
	}
	authority := t.bytes[at : at+n]
	colon, host := bytes.IndexByte(authority, ':'), bytes.LastIndexByte(authority, '@')
	if colon < 0 || host <= colon+1 {
		return found{}
	}
	return found{state: match, start: at + colon + 1, end: at + host}
}

// privateKey matches the first line of a block in PEM; what follows is left out
// to its end.
func privateKey(_ *Masker, r *secretPattern, t text, place int) found {
	const maxLabel, dashes = 48, "-----"
	rest := t.bytes[place+len(r.prefix):]
	for n, b := range rest {
		switch {
		case n > maxLabel:
			return found{}
		case 'A' <= b && b <= 'Z', '0' <= b && b <= '9', b == ' ':
			continue
		case !strings.Contains(string(rest[:n]), "PRIVATE KEY"):
			return found{}
		}
		have := rest[n:min(n+len(dashes), len(rest))]
		switch {
		case string(have) != dashes[:len(have)]:
			return found{}
		case len(have) < len(dashes):
			return unless(!t.final)
		}
		return found{state: match, start: place, end: place + len(r.prefix) + n + len(dashes), within: maskedRest{left: maxBlock, block: new(block)}}
	}
	return unless(len(rest) <= maxLabel+1 && !t.final)
}
