// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package output_test

import (
	"bytes"
	"encoding/base64"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/output"
)

const (
	letters = "0123456789abcdefghijABCDEFGHIJ0123456789klmnopqrst" // 50 of a token
	pemKey  = "-----BEGIN RSA PRIVATE KEY-----\n" +
		"MIIEpAIBAAKCAQEA0Z3VS5JJcds3xfn/ygWyF8PbnGy0AHB7MaFQIdCFMaj3oDMZ\n" +
		"MIIEpAIBAAKCAQEA0Z3VS5JJcds3xfn/ygWyF8PbnGy0AHB7MaFQIdCFMaj3oDMZ\n" +
		"oDMZ0Q==\n" +
		"-----END RSA PRIVATE KEY-----"
	lockedKey = "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0123456789ABCDEF0123456789ABCDEF\n\n" +
		"MIIEpAIBAAKCAQEA0Z3VS5JJcds3xfn/ygWyF8PbnGy0AHB7MaFQIdCFMaj3oDMZ\n-----END EC PRIVATE KEY-----"
	webToken = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
)

// values are secrets that the tests configure.
var values = []string{"correct horse battery", "hunter2hunter2", "hunter2hunter2-and-more", "\xff\x00\xfebinary\x80", "sl/ash+plus=\"quote\"", "two\nlines of it", "aaaaaaaaaaaa"}

// secrets are texts with what becomes of them.
var secrets = []struct{ text, want string }{
	{"ghp_" + letters[:36], "[masked: github token]"},
	{"gho_" + letters[:36], "[masked: github token]"},
	{"ghu_" + letters[:36], "[masked: github token]"},
	{"ghs_" + letters[:36], "[masked: github token]"},
	{"ghr_" + letters[:36], "[masked: github token]"},
	{"github_pat_11ABCDEFG0_" + letters, "[masked: github token]"},
	{"glpat-" + letters[:20], "[masked: gitlab token]"},
	{"glpat-" + letters[:27] + ".01.abcdefghi", "[masked: gitlab token]"},
	{"gldt-" + letters[:20], "[masked: gitlab token]"},
	{"glrt-" + letters[:20], "[masked: gitlab token]"},
	{"glrtr-" + letters[:20], "[masked: gitlab token]"},
	{"glcbt-64_" + letters[:20], "[masked: gitlab token]"},
	{"glptt-" + letters[:40], "[masked: gitlab token]"},
	{"glft-" + letters[:20], "[masked: gitlab token]"},
	{"glimt-" + letters[:25], "[masked: gitlab token]"},
	{"glsoat-" + letters[:20], "[masked: gitlab token]"},
	{"glagent-" + letters, "[masked: gitlab token]"},
	{"gloas-" + letters, "[masked: gitlab token]"},
	{"xoxb-123456789012-123456789012-" + letters[:24], "[masked: slack token]"},
	{"xoxp-123456789012-123456789012-" + letters[:32], "[masked: slack token]"},
	{"xoxa-2-123456789012-" + letters[:32], "[masked: slack token]"},
	{"xoxr-123456789012-" + letters[:32], "[masked: slack token]"},
	{"xoxs-123456789012-" + letters[:32], "[masked: slack token]"},
	{"xoxo-123456789012-" + letters[:32], "[masked: slack token]"},
	{"xoxc-123456789012-" + letters[:32], "[masked: slack token]"},
	{"xoxd-abc%2Bdef%2F" + letters[:32], "[masked: slack token]"},
	{"xoxe.xoxp-1-" + letters, "[masked: slack token]"},
	{"xapp-1-A0123-456-" + letters, "[masked: slack token]"},
	{"https://hooks.slack.com/services/T00000000/B00000000/" + letters[:24], "https://[masked: slack webhook]"},
	{"sk_live_" + letters[:24], "[masked: stripe key]"},
	{"sk_test_" + letters[:24], "[masked: stripe key]"},
	{"rk_live_" + letters[:24], "[masked: stripe key]"},
	{"rk_test_" + letters[:24], "[masked: stripe key]"},
	{"whsec_" + letters[:32], "[masked: stripe secret]"},
	{"sk-ant-api03-" + letters + "_-AA", "[masked: anthropic key]"},
	{"sk-or-v1-" + letters, "[masked: openrouter key]"},
	{"sk-proj-" + letters, "[masked: openai key]"},
	{"sk-svcacct-" + letters, "[masked: openai key]"},
	{"sk-admin-" + letters, "[masked: openai key]"},
	{"sk-" + letters[:48], "[masked: openai key]"},
	{"task-" + letters[:48], "task-" + letters[:48]},
	{"AIza" + letters[:35], "[masked: google key]"},
	{"ya29." + letters, "[masked: google token]"},
	{"GOCSPX-" + letters[:28], "[masked: google secret]"},
	{"AKIAIOSFODNN7EXAMPLE", "[masked: aws access key]"},
	{"ASIAIOSFODNN7EXAMPLE", "[masked: aws access key]"},
	{"ABIAIOSFODNN7EXAMPLE", "[masked: aws access key]"},
	{"ACCAIOSFODNN7EXAMPLE", "[masked: aws access key]"},
	{"AKIAIOSFODNN7EXAMPLEX", "AKIAIOSFODNN7EXAMPLEX"},
	{"XAKIAIOSFODNN7EXAMPLE", "XAKIAIOSFODNN7EXAMPLE"},
	{"\x1b[32mAKIAIOSFODNN7EXAMPLE\x1b[0m", "\x1b[32m[masked: aws access key]\x1b[0m"},
	{"aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "aws_secret_access_key = [masked: aws secret key]"},
	{"AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "AWS_SECRET_ACCESS_KEY=[masked: aws secret key]"},
	{`"SecretAccessKey": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"`, `"SecretAccessKey": "[masked: aws secret key]"`},
	{"AccountKey=" + letters + letters[:36] + "==;End", "AccountKey=[masked: azure key];End"},
	{"npm_" + letters[:36], "[masked: npm token]"},
	{"pypi-AgEIcHlwaS5vcmc" + letters, "[masked: pypi token]"},
	{"dckr_pat_" + letters[:27], "[masked: docker token]"},
	{"hf_" + letters[10:44], "[masked: hugging face token]"},
	{"SG." + letters[:22] + "." + letters[:43], "[masked: sendgrid key]"},
	{"dop_v1_" + letters, "[masked: digitalocean token]"},
	{"hvs." + letters, "[masked: vault token]"},
	{"gsk_" + letters, "[masked: groq key]"},
	{"shpat_" + letters[:32], "[masked: shopify token]"},
	{"lin_api_" + letters[:40], "[masked: linear key]"},
	{webToken, "[masked: json web token]"},
	{`\n` + webToken + `"`, `\n[masked: json web token]"`},
	{"eyJhbGciOiJIUzI1NiJ9", "eyJhbGciOiJIUzI1NiJ9"},
	{"eyJeyJeyJeyJeyJeyJeyJ.a eyJ", "eyJeyJeyJeyJeyJeyJeyJ.a eyJ"},
	{"Authorization: Bearer abcdefgh", "Authorization: Bearer [masked: credentials]"},
	{"authorization: basic dXNlcjpwYXNz\r\n", "authorization: basic [masked: credentials]\r\n"},
	{`curl -H "Authorization: token 0123abcd" x`, `curl -H "Authorization: token [masked: credentials]" x`},
	{`{"Authorization":"Bearer abcdefgh"}`, `{"Authorization":"Bearer [masked: credentials]"}`},
	{"HTTP_AUTHORIZATION=" + letters, "HTTP_AUTHORIZATION=[masked: credentials]"},
	{"Authorization: required for every endpoint", "Authorization: required for every endpoint"},
	{"postgres://app:s3cr3t@db:5432/x", "postgres://app:[masked: password]@db:5432/x"},
	{"https://u:p@ss:w@host/", "https://u:[masked: password]@host/"},
	{"redis://:pw@host", "redis://:[masked: password]@host"},
	{"http://localhost:8080/a@b", "http://localhost:8080/a@b"},
	{"https://user@host/", "https://user@host/"},
	{pemKey, "[masked: private key]"},
	{pemKey + "\nafter", "[masked: private key]\nafter"},
	{lockedKey + "\nafter", "[masked: private key]\nafter"},
	{strings.ReplaceAll(pemKey, "\n", `\n`) + `","x":1`, `[masked: private key]","x":1`},
	{"-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----\n", "-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----\n"},
	{pemKey[:150] + "\ntotal 12\nfile a\nfile b\n", "[masked: private key]file b\n"},
	{"correct horse battery staple", "[masked: secret] staple"},
	{"hunter2hunter2-and-more", "[masked: secret]"},
	{"hunter2hunter2-and-less", "[masked: secret]-and-less"},
	{"hunter2hunter", "hunter2hunter"},
	{"x\xff\x00\xfebinary\x80y", "x[masked: secret]y"},
	{"two\r\nlines of it", "[masked: secret]"},
	{`two\nlines of it`, `[masked: secret]`},
	{"aaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "[masked: secret][masked: secret]aaaaa"},
	{url.QueryEscape("sl/ash+plus=\"quote\""), "[masked: secret]"},
	{"sl%2fash%2bplus%3d%22quote%22", "[masked: secret]"},
	{`sl/ash+plus=\"quote\"`, "[masked: secret]"},
	{"ghp_ghp_gh", "ghp_ghp_gh"},
	{"", ""},
	{"s", "s"},
}

func TestMask(t *testing.T) {
	m := output.NewMasker(values)
	for _, test := range secrets {
		for _, around := range [][2]string{{"", ""}, {"a line\n", "\nanother"}, {" ", "|"}, {"= ", ")"}} {
			text, want := around[0]+test.text+around[1], around[0]+test.want+around[1]
			if got := m.String(text); got != want {
				t.Errorf("%q became\n%q, want\n%q", text, got, want)
			}
		}
	}
}

// TestMaskBase64 looks for values within longer ones.
func TestMaskBase64(t *testing.T) {
	m := output.NewMasker(values)
	for before := range 4 {
		for after := range 4 {
			plain := strings.Repeat("x", before) + "hunter2hunter2" + strings.Repeat("y", after)
			for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
				text := encoding.EncodeToString([]byte(plain))
				got := m.String(text)
				if !strings.Contains(got, "[masked: secret]") || len(got) > len("[masked: secret]")+14 {
					t.Errorf("%q of %q became %q", text, plain, got)
				}
			}
		}
	}
}

// TestMaskSplit proves that it does not matter how the bytes are cut.
func TestMaskSplit(t *testing.T) {
	m := output.NewMasker(values)
	for _, test := range secrets {
		text := []byte("= " + test.text + "\nthen")
		want := m.String(string(text))
		for i := range len(text) + 1 {
			for j := i; j <= len(text); j++ {
				if got := masked(m, text[:i], text[i:j], text[j:]); got != want {
					t.Fatalf("%q | %q | %q became\n%q, want\n%q", text[:i], text[i:j], text[j:], got, want)
				}
			}
		}
	}
}

// TestMaskHoldsLittle proves that bytes pass at once that begin no secret.
func TestMaskHoldsLittle(t *testing.T) {
	m := output.NewMasker(values)
	for _, test := range []struct{ text, held string }{
		{"Password: ", ""},
		{"$ ", ""},
		{"100%\r", ""},
		{"token=ghp_0123", "ghp_0123"},
		{"see http://host", "://host"},
		{"a word and hunter2", "hunter2"},
		{"-----BEGIN PRIVATE KEY-----\nMIIE", ""},
		{"Authorization: Bearer abcdefghijk", ""},
		{"eyJ" + strings.Repeat("b", 2000), ""},
		{"http://" + strings.Repeat("b", 2000), ""},
	} {
		stream := m.Stream()
		stream.Append(nil, []byte(test.text))
		if got := string(stream.Flush(nil)); got != test.held {
			t.Errorf("of %q %q is held back, want %q", test.text, got, test.held)
		}
	}
}

func masked(m *output.Masker, pieces ...[]byte) string {
	stream := m.Stream()
	var out []byte
	for _, piece := range pieces {
		out = stream.Append(out, piece)
	}
	return string(stream.Flush(out))
}

func FuzzMask(f *testing.F) {
	for _, test := range secrets {
		f.Add([]byte(test.text), []byte{7, 3, 200})
	}
	m := output.NewMasker(values)
	f.Fuzz(func(t *testing.T, text, cuts []byte) {
		want := masked(m, text)
		var pieces [][]byte
		rest := text
		for _, n := range cuts {
			n := min(int(n), len(rest))
			pieces = append(pieces, rest[:n])
			rest = rest[n:]
		}
		if got := masked(m, append(pieces, rest)...); got != want {
			t.Fatalf("in pieces of %v: %q, want %q", cuts, got, want)
		}
		for _, value := range values {
			if strings.Contains(want, value) {
				t.Fatalf("%q has %q in it", want, value)
			}
		}
	})
}

// ordinary returns text without secrets: our own documents, programs and tables
// of data.
func ordinary(b *testing.B) []byte {
	var text []byte
	for _, pattern := range []string{"../../*.md", "../../docs/*.md", "../../docs/decisions/*.md", "../service/*.go", "../../go.sum", "../shell/*.go"} {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			b.Fatal(pattern, err)
		}
		for _, name := range names {
			data, err := os.ReadFile(name)
			if err != nil {
				b.Fatal(err)
			}
			text = append(text, data...)
		}
	}
	return text
}

// BenchmarkMask masks text in pieces as a pipe gives them.
func BenchmarkMask(b *testing.B) {
	for _, test := range []struct {
		name string
		text []byte
	}{
		{"ordinary", ordinary(b)},
		{"log", bytes.Repeat([]byte("2026-11-15T02:30:03.001Z INFO  server: GET /v1/tools/42 200 in 3.2ms from 10.1.2.3:5123\n"), 10000)},
		{"yes", bytes.Repeat([]byte("y\n"), 500000)},
		{"base64", []byte(base64.StdEncoding.EncodeToString(ordinary(b)))},
		{"zero", make([]byte, 1<<20)},
		{"urls", bytes.Repeat([]byte("https://example.com/a/b?c=d "), 40000)},
	} {
		b.Run(test.name, func(b *testing.B) {
			m := output.NewMasker([]string{"correct horse battery", "hunter2hunter2", letters[:40]})
			stream := m.Stream()
			out := make([]byte, 0, 64<<10)
			b.SetBytes(int64(len(test.text)))
			b.ReportAllocs()
			for b.Loop() {
				for rest := test.text; len(rest) > 0; {
					n := min(32<<10, len(rest))
					out = stream.Append(out[:0], rest[:n])
					rest = rest[n:]
				}
			}
		})
	}
}

// TestMaskCopiesNothing: a text without secrets is returned as it is, whatever its size.
func TestMaskCopiesNothing(t *testing.T) {
	m := output.NewMasker(values)
	text := strings.Repeat("ordinary text, https://example.com/path and a task-list\n", 50_000)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	masked := m.String(text)
	runtime.ReadMemStats(&after)
	if masked != text {
		t.Error("it was changed")
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > uint64(len(text)/2) {
		t.Errorf("%d bytes were allocated for a text of %d", n, len(text))
	}
}

// TestMaskAllocatesNothing holds where nothing is found.
func TestMaskAllocatesNothing(t *testing.T) {
	stream := output.NewMasker(values).Stream()
	text := []byte(strings.Repeat("ordinary text, https://example.com/path and a task-list\n", 500) + "gh")
	out := make([]byte, 0, 2*len(text))
	stream.Append(out, text) // makes room for what is held back
	if n := testing.AllocsPerRun(20, func() { stream.Append(out, text) }); n != 0 {
		t.Errorf("%v allocations for each piece", n)
	}
}
