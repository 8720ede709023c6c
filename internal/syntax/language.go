// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package syntax

import (
	"bytes"
	_ "embed"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

//go:embed languages.txt
var languagesText string

// A language is what is known of one; see languages.txt.
type language struct {
	name  string
	files []string // endings, whole names, and programs after #!
	data  bool     // its symbols are none of the workspace's

	// separable says that what stands at the top of a text parses as well by itself.
	separable bool
	laidOut   bool // its layout is known without parsing
	rules     map[string]*symbolRule
	around    []string
}

// A symbolRule says how a node is a symbol.
type symbolRule struct {
	kind   string
	name   string // where its name is
	has    string
	before string
	each   bool // its names are symbols by themselves
	other  []otherKind
}

// otherKind is what a symbol is where a field is of a kind.
type otherKind struct{ field, node, kind string }

var (
	languages, inOrder = readLanguages(languagesText)
	byFile             = filesOf(inOrder)
)

// readLanguages reads languages.txt. What is wrong in it is a mistake in the
// program.
func readLanguages(text string) (map[string]*language, []*language) {
	all := make(map[string]*language)
	var order []*language
	var l *language
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		switch {
		case len(words) == 0 || line[0] == '#':
		case line[0] != '\t':
			l = &language{name: words[0], rules: make(map[string]*symbolRule)}
			if words = words[1:]; words[0] == "=" {
				like := all[words[1]]
				maps.Copy(l.rules, like.rules)
				l.around = like.around
				words = words[2:]
			}
			for _, word := range words {
				switch word {
				case "data":
					l.data = true
				case "separable":
					l.separable = true
				case "laid_out":
					l.laidOut = true
				default:
					l.files = append(l.files, word)
				}
			}
			all[l.name] = l
			order = append(order, l)
		case words[0] == "around":
			around, err := strconv.Unquote(strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "around")))
			if err != nil {
				panic(fmt.Sprintf("languages.txt: %q: %v", line, err))
			}
			l.around = append(l.around, around)
		default:
			l.rules[words[0]] = newRule(words[1:])
		}
	}
	return all, order
}

func newRule(words []string) *symbolRule {
	r := &symbolRule{kind: words[0], name: "name"}
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, "=")
		field, node, other := strings.Cut(key, ":")
		switch {
		case other:
			r.other = append(r.other, otherKind{field, node, value})
		case key == "name":
			r.name = value
		case key == "has":
			r.has = value
		case word == "each":
			r.each = true
		case key == "pre":
			r.before = value + " "
		default:
			panic("languages.txt: " + word)
		}
	}
	return r
}

func filesOf(all []*language) map[string]*language {
	files := make(map[string]*language)
	for _, l := range all {
		for _, file := range l.files {
			files[file] = l
		}
	}
	return files
}

// Languages returns the names of the languages.
func Languages() []string {
	var names []string
	for _, l := range inOrder {
		names = append(names, l.name)
	}
	return names
}

// shortNames are what languages are called beside their names and endings.
var shortNames = map[string]string{
	"golang": "go", "c++": "cpp", "c#": "csharp", "c_sharp": "csharp", "shell": "bash", "zsh": "bash", "jsonc": "json", "node": "javascript", "typescriptreact": "tsx", "javascriptreact": "javascript",
}

// languageNamed returns a language by its name, or what its files end with; nil
// where there is none.
func languageNamed(name string) *language {
	name = strings.ToLower(strings.TrimPrefix(name, "."))
	if other, ok := shortNames[name]; ok {
		name = other
	}
	if l := languages[name]; l != nil {
		return l
	}
	return byFile["."+name]
}

// isCPP is what headers of C++ have and those of C do not.
var isCPP = regexp.MustCompile(`(?m)^\s*(?:class|namespace|template|using)\b|^\s*(?:public|private|protected):|\bstd::`)

// languageOf returns the language of a file by its name and how it begins, which
// may be nil; nil where it is not known.
func languageOf(file string, head []byte) *language {
	base := path.Base(file)
	if l := byFile[base]; l != nil {
		return l
	}
	extension := strings.ToLower(path.Ext(base))
	if extension == ".h" && isCPP.Match(head[:min(len(head), 64<<10)]) {
		return languages["cpp"]
	}
	if l := byFile[extension]; l != nil {
		return l
	}
	if line, ok := bytes.CutPrefix(head, []byte("#!")); ok {
		line, _, _ = bytes.Cut(line, []byte("\n"))
		words := strings.Fields(string(line))
		if len(words) > 1 && path.Base(words[0]) == "env" {
			words = words[1:]
		}
		if len(words) > 0 {
			return byFile["#!"+path.Base(words[0])]
		}
	}
	return nil
}

// has reports whether a file of some name is one that [language.globs] finds.
func (l *language) has(name string) bool {
	extension := path.Ext(name)
	return slices.Contains(l.files, name) || extension != "" && slices.Contains(l.files, extension) || l.name == "cpp" && extension == ".h"
}

// globs returns the globs of the files of a language.
func (l *language) globs() []string {
	var globs []string
	if l.name == "cpp" {
		globs = []string{"*.h"} // which may be either
	}
	for _, file := range l.files {
		switch {
		case strings.HasPrefix(file, "#!"):
		case strings.HasPrefix(file, "."):
			globs = append(globs, "*"+file)
		default:
			globs = append(globs, file)
		}
	}
	return globs
}

// Known reports whether a file is of a language that is parsed.
func Known(file string) bool { return languageOf(file, nil) != nil }

// IsLanguage reports whether a name stands for a language, or for how its files end.
func IsLanguage(name string) bool { return languageNamed(name) != nil }

// LanguageOf returns the language of a file by its name; "" where it is not known.
func LanguageOf(file string) string {
	if l := languageOf(file, nil); l != nil {
		return l.name
	}
	return ""
}

// IsCode reports whether a file is of a language whose symbols are the workspace's.
func IsCode(file string) bool {
	l := languageOf(file, nil)
	return l != nil && !l.data
}
