// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package files_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/toolstest"
)

// picture returns an image of a size, in a format.
func picture(t *testing.T, width, height int, format string) string {
	t.Helper()
	m := image.NewRGBA(image.Rect(0, 0, width, height))
	for x := range width {
		m.Set(x, x%height, color.RGBA{uint8(x), 100, 50, 255})
	}
	var b bytes.Buffer
	var err error
	switch format {
	case "png":
		err = png.Encode(&b, m)
	case "jpeg":
		err = jpeg.Encode(&b, m, nil)
	case "gif":
		err = gif.Encode(&b, m, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// bomb returns a PNG that says it has so many pixels and has none.
func bomb(width, height uint32) string {
	var b bytes.Buffer
	b.WriteString("\x89PNG\r\n\x1a\n")
	head := append([]byte("IHDR"), binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, width), height)...)
	head = append(head, 8, 6, 0, 0, 0)
	_ = binary.Write(&b, binary.BigEndian, uint32(len(head)-4))
	b.Write(head)
	_ = binary.Write(&b, binary.BigEndian, crc32.ChecksumIEEE(head))
	return b.String()
}

func TestReadImages(t *testing.T) {
	small := picture(t, 40, 30, "png")
	env := toolstest.Env(t, map[string]string{
		"small.png": small, "wrong-name.txt": small, "large.png": picture(t, 1800, 600, "png"), "large.jpg": picture(t, 400, 1600, "jpeg"),
		"anim.gif": picture(t, 10, 10, "gif"), "bomb.png": bomb(20_000, 20_000), "cut.png": small[:60], "cut.jpg": picture(t, 40, 30, "jpeg")[:700], "huge.png": bomb(1<<31-1, 1<<31-1),
		"late.png": bomb(3000, 3000), "bmw": "BMW\n",
	})
	for _, test := range []struct{ path, mediaType, note string }{
		{"small.png", "image/png", "(small.png: png image of 40 x 30 pixels)\n"},
		{"wrong-name.txt", "image/png", "(wrong-name.txt: png image of 40 x 30 pixels)\n"},
		{"large.png", "image/png", "(large.png: png image of 1800 x 600 pixels, shown as 1568 x 522)\n"},
		{"large.jpg", "image/jpeg", "(large.jpg: jpeg image of 400 x 1600 pixels, shown as 392 x 1568)\n"},
		{"anim.gif", "image/gif", "(anim.gif: gif image of 10 x 10 pixels)\n"},
	} {
		result, _, err := toolstest.Run(t, byName("read_file"), env, `{"path":"`+test.path+`"}`)
		if err != nil {
			t.Errorf("%s: %v", test.path, err)
			continue
		}
		shown, ok := result.Content[0].(tools.Image)
		if !ok || shown.MediaType != test.mediaType || toolstest.Text(result) != test.note {
			t.Errorf("%s: %T %s, %q", test.path, result.Content[0], shown.MediaType, toolstest.Text(result))
		}
		if _, _, err := image.DecodeConfig(bytes.NewReader(shown.Data)); err != nil {
			t.Errorf("%s: %v", test.path, err)
		}
	}
	for path, want := range map[string]string{
		"bmw": "1\tBMW", "bomb.png": "! image_too_large", "huge.png": "! ", "late.png": "! bad_image",
		"cut.png": "! bad_image", "cut.jpg": "! bad_image",
	} {
		if got := answer(t, env, "read_file", `{"path":"`+path+`"}`); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s", path, got)
		}
	}
}

// TestImagesKeepThinLines proves that an image is scaled down by what its pixels
// have in common: of fine stripes none is preferred, and nothing gets lost.
func TestImagesKeepThinLines(t *testing.T) {
	const width, height = 3136, 100 // shown as 1568 x 50
	m := image.NewRGBA(image.Rect(0, 0, width, height))
	for x := range width {
		for y := range height {
			m.SetRGBA(x, y, color.RGBA{uint8(255 * (x & 1)), uint8(255 * (y & 1)), 200, 255})
		}
	}
	var file bytes.Buffer
	if err := png.Encode(&file, m); err != nil {
		t.Fatal(err)
	}
	env := toolstest.Env(t, map[string]string{"stripes.png": file.String()})
	result, _, err := toolstest.Run(t, byName("read_file"), env, `{"path":"stripes.png"}`)
	if err != nil {
		t.Fatal(err)
	}
	shown, err := png.Decode(bytes.NewReader(result.Content[0].(tools.Image).Data))
	if err != nil {
		t.Fatal(err)
	}
	if got := shown.Bounds().Size(); got != image.Pt(1568, 50) {
		t.Fatalf("shown as %v", got)
	}
	for x := range 1568 {
		for y := range 50 {
			got := color.RGBAModel.Convert(shown.At(x, y)).(color.RGBA)
			if got.R|1 != 127 || got.G|1 != 127 || got.B != 200 || got.A != 255 { // the mean, rounded down
				t.Fatalf("pixel %d, %d is %v", x, y, got)
			}
		}
	}
}

func TestReadOutline(t *testing.T) {
	var source strings.Builder
	source.WriteString("package big\n\nimport \"fmt\"\n\n// T is a type.\ntype T struct {\n\tA int\n}\n\ntype I interface{ M() }\n\nconst (\n\tX = 1\n\tY, Z = 2, 3\n)\n\nvar global = fmt.Sprint()\n\n")
	for i := range 3000 {
		fmt.Fprintf(&source, "// F%d does nothing.\nfunc (t *T) F%d(a int, b string) (c error) {\n\treturn nil\n}\n\n", i, i)
	}
	env := toolstest.Env(t, map[string]string{
		"big.go": source.String(), "broken.go": source.String() + "func (", "small.go": "package small\n",
		"big.py": "class A:\n    def f(self):\n        pass\n" + strings.Repeat("x = 1\n", 20_000), "big.txt": strings.Repeat("func x() {\n", 20_000),
	})
	for path, wants := range map[string][]string{
		"big.go":    {"(big.go has 15018 lines", "6\ttype T struct\n", "10\ttype I interface{ M() }\n12\tconst (\n17\tvar global = fmt.Sprint()\n20\tfunc (t *T) F0(a int, b string) (c error)\n", "more)\n"},
		"broken.go": {"20\tfunc (t *T) F0(a int, b string) (c error)\n"},
		"small.go":  {"1\tpackage small\n"},
		"big.py":    {"1\tclass A:\n2\t    def f(self):\n"},
		"big.txt":   {"2000\tfunc x() {\n(there is more: go on with read_file {\"path\":\"big.txt\",\"offset\":2001})\n"},
	} {
		got := answer(t, env, "read_file", `{"path":"`+path+`"}`)
		for _, want := range wants {
			if !strings.Contains(got, want) {
				t.Errorf("%s: no %q in %.400q", path, want, got)
			}
		}
		if len(got) > tools.DefaultAnswer {
			t.Errorf("%s: %d bytes", path, len(got))
		}
	}
	if got := answer(t, env, "read_file", `{"path":"big.go","offset":20,"limit":1}`); got != "20\tfunc (t *T) F0(a int, b string) (c error) {\n(there is more: go on with read_file {\"path\":\"big.go\",\"offset\":21,\"limit\":1})\n" {
		t.Errorf("%q", got)
	}
}

// TestReadHash tells the hash of a whole file, whatever part is shown.
func TestReadHash(t *testing.T) {
	env := toolstest.Env(t, map[string]string{"f": strings.Repeat("line\n", 100_000), "empty": ""})
	if err := os.Truncate(filepath.Join(env.Workspace.Dir(), "f"), 100_000); err != nil {
		t.Fatal(err)
	}
	var hashes []string
	for _, input := range []string{`{"path":"f","hash":true}`, `{"path":"f","hash":true,"offset":-3}`, `{"path":"f","hash":true,"offset":9999999}`, `{"path":"f","hash":true,"limit":1}`} {
		text := answer(t, env, "read_file", input)
		hashes = append(hashes, text[strings.LastIndex(text, "(hash "):])
	}
	for _, hash := range hashes {
		if hash != hashes[0] || len(hash) != len("(hash 012345678901)\n") {
			t.Errorf("hashes %q", hashes)
		}
	}
	if got := answer(t, env, "read_file", `{"path":"empty","hash":true}`); got != "(the file is empty)\n(hash e3b0c44298fc)\n" {
		t.Errorf("%q", got)
	}
	hash := strings.TrimSuffix(strings.TrimPrefix(hashes[0], "(hash "), ")\n")
	if got := answer(t, env, "write_file", `{"path":"f","content":"new","expected_hash":"`+hash+`"}`); !strings.HasPrefix(got, "Changed f") {
		t.Error(got)
	}
}

// TestReadOfADirectoryIsJudged lists what was a directory when the call was judged: what
// came to be one since is not.
func TestReadOfADirectoryIsJudged(t *testing.T) {
	for _, test := range []struct {
		name, input string
		tree        bool
		become      string // what is there when the call runs
		want        string
	}{
		{"a directory", `{"path":"d"}`, true, "", "f\t1\n"},
		{"a link to one", `{"path":"l"}`, true, "", "f\t1\n"},
		{"one of several", `{"operations":[{"path":"d","depth":3}]}`, true, "", "f\t1\n"},
		{"by its lines", `{"path":"d","mode":"lines"}`, false, "", "! not_a_file"},
		{"a file", `{"path":"f"}`, false, "", "1\ty"},
		{"a file that becomes a directory", `{"path":"f"}`, false, "f", "! not_a_file"},
		{"nothing that becomes a directory", `{"path":"n","depth":2}`, false, "n", "! not_a_file"},
	} {
		t.Run(test.name, func(t *testing.T) {
			env := toolstest.Env(t, map[string]string{"d/f": "x", "f": "y"})
			dir := env.Workspace.Dir()
			if err := os.Symlink("d", dir+"/l"); err != nil {
				t.Fatal(err)
			}
			call, err := byName("read_file").Decode(&env, json.RawMessage(test.input))
			if err != nil {
				t.Fatal(err)
			}
			if got := slices.ContainsFunc(call.Effects(), func(e tools.Effect) bool { return e.Tree }); got != test.tree {
				t.Errorf("it reads a tree: %v", got)
			}
			if test.become != "" {
				os.Remove(dir + "/" + test.become)
				if err := os.Rename(dir+"/d", dir+"/"+test.become); err != nil {
					t.Fatal(err)
				}
			}
			result, err := call.Run(t.Context(), tools.Rights{}, new(toolstest.Recorder))
			got := toolstest.Text(result)
			if failure, ok := errors.AsType[*tools.Failure](err); ok {
				got = "! " + failure.Code
			}
			if !strings.Contains(got, test.want) {
				t.Errorf("%q, %v, want %q", got, err, test.want)
			}
		})
	}
}

// TestReadOperationsAreBounded reads more than an answer can hold.
func TestReadOperationsAreBounded(t *testing.T) {
	env := toolstest.Env(t, map[string]string{"f": strings.Repeat(strings.Repeat("x", 99)+"\n", 10_000)})
	operations := strings.Repeat(`{"path":"f","limit":2000},`, 20)
	got := answer(t, env, "read_file", `{"operations":[`+strings.TrimSuffix(operations, ",")+`]}`)
	if len(got) > 300_000 || !strings.Contains(got, "answer_full") {
		t.Errorf("%d bytes", len(got))
	}
}
