// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package deploy_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolserver/toolserver/internal/sandbox/sandboxtest"
)

// TestImage builds the image of the server without a container engine, reads its layout
// back, and runs it as a pod of Kubernetes is run.
func TestImage(t *testing.T) {
	t.Parallel()
	bin := programs(t)
	parser := staticSyntax(t)
	out := filepath.Join(t.TempDir(), "image")
	build := func() string {
		t.Helper()
		cmd := exec.Command("go", "run", ".", "-out", out, "-version", "test", filepath.Join(bin, "toolserver"), filepath.Join(bin, "toolserver-exec"), parser)
		cmd.Dir, cmd.Env = "../build/image", append(os.Environ(), "CGO_ENABLED=0")
		cmd.Stderr = os.Stderr
		digest, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(digest))
	}
	first := build()
	if again := build(); again != first {
		t.Errorf("the same input made %s and %s", first, again)
	}
	image := readLayout(t, out)
	if image.digest != first {
		t.Errorf("the layout has %s, want %s", image.digest, first)
	}
	if image.Architecture == "" || image.OS != "linux" || image.Config.User != "65532:65532" ||
		!slices.Equal(image.Config.Entrypoint, []string{"/usr/bin/toolserver"}) || image.Config.Labels["org.opencontainers.image.version"] != "test" {
		t.Errorf("configuration %+v", image)
	}
	bundle := t.TempDir()
	files := image.unpack(t, filepath.Join(bundle, "rootfs"))
	for _, name := range files {
		if base := filepath.Base(name); base == "sh" || base == "bash" || base == "busybox" {
			t.Errorf("the image of the server alone has %s", name)
		}
	}
	if !slices.Contains(files, "usr/bin/toolserver-syntax") {
		t.Errorf("what parses source code is not in the image: %q", files)
	}
	checkDockerfile(t, image)
	t.Run("it serves", func(t *testing.T) {
		pod := runPod(t, bundle, image)
		pod.prints(t, "Waited 1ms.", "call", "sleep", "duration_ms=1")
		pod.prints(t, "a.go", "call", "write_file", "path=a.go", "content=package a\n\nfunc Greet() {}\n")
		pod.prints(t, "func Greet()", "call", "code", "operation=get_document_symbols", "file_path=a.go")
		old := pod.token
		pod.giveToken(t)
		pod.until(t, "you are alice", "version")
		pod.token = old
		pod.until(t, "unknown token", "version")
		pod.stop(t)
	})
}

// staticSyntax builds toolserver-syntax as make syntax does, so that it runs where there is no
// system.
func staticSyntax(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "toolserver-syntax")
	cmd := exec.Command("go", "build", "-p", "1", "-trimpath", "-ldflags", `-s -w -extldflags "-static"`, "-o", program, ".")
	cmd.Dir, cmd.Env = "../cmd/toolserver-syntax", append(os.Environ(), "CGO_ENABLED=1")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building toolserver-syntax, which needs a C compiler: %v\n%s", err, text)
	}
	return program
}

// checkDockerfile sees that both ways to build an image make the same of it.
func checkDockerfile(t *testing.T, image *layoutImage) {
	t.Helper()
	stages := strings.Split(string(read(t, "Dockerfile")), "\nFROM ")
	for _, stage := range stages[len(stages)-2:] {
		name := regexp.MustCompile(`AS (\w+)`).FindStringSubmatch(stage)
		entrypoint, err := json.Marshal(image.Config.Entrypoint)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{
			"USER " + image.Config.User, "WORKDIR " + image.Config.WorkingDir, "ENTRYPOINT " + string(entrypoint), "ENV " + strings.Join(image.Config.Env, " "),
		} {
			if !strings.Contains(stage, "\n"+want+"\n") {
				t.Errorf("stage %v of the Dockerfile has no %s", name, want)
			}
		}
	}
}

// TestImageWithTools does the same with the file tree of a system, which make image-tools
// has made of Debian's packages. Its commands run, as long as the policy says so.
func TestImageWithTools(t *testing.T) {
	layout := os.Getenv("TOOLSERVER_IMAGE_TOOLS")
	if layout == "" {
		t.Skip("this needs the image with programs: see make image-tools")
	}
	image := readLayout(t, layout)
	bundle := t.TempDir()
	image.unpack(t, filepath.Join(bundle, "rootfs"))
	pod := runPod(t, bundle, image)
	for command, want := range map[string]string{
		"git --version": "git version", "python3 --version": "Python 3", "node --version": "v", "npm --version": ".", "make --version": "GNU Make",
		"gcc --version": "gcc", "rg --version": "ripgrep", "jq --version": "jq", "id -u": "65532", "env": "HOME=",
		"git init -q . && echo 'int main(){return 0;}' > a.c && gcc -o a a.c && ./a && echo compiled": "compiled",
	} {
		pod.prints(t, want, "call", "bash", "command="+command)
	}
	// What is the server's own no command reaches that does not say so, and none that
	// does where a rule is about it: this one is in docs/operations.md.
	for _, file := range []string{
		"/etc/toolserver/tls/tls.key", "/etc/toolserver/tokens/tokens", "/etc/toolserver/tokens/..data/tokens", "/etc/toolserver/policy/policy.yaml",
		"/etc/toolserver/config/toolserver.yaml", "/var/lib/toolserver/audit.jsonl",
	} {
		program := `#include <stdio.h>\nint main(){FILE *f=fopen("` + file + `","r"); if(!f) perror("refused"); else puts("open"); return 0;}`
		command := "printf '" + program + "' > r.c; gcc -o r r.c; ./r"
		if out, _ := pod.run("call", "bash", "command="+command); !strings.Contains(out, "refused: Permission denied") {
			t.Errorf("commands can read %s:\n%s", file, out)
		}
	}
	rule := regexp.MustCompile(`(?m)^- \{name: own, .*\}$`).FindString(string(read(t, "../docs/operations.md")))
	pod.mount(t, "policy", map[string]string{"policy.yaml": "version: 1\nrules:\n" + rule + "\n- {name: all, action: allow, tools: [bash]}\n"})
	pod.until(t, "the rule own", "call", "bash", "command=cat /etc/toolserver/tls/tls.key")
	for _, command := range []string{"cat /etc/toolserver/tokens/*", "cat /var/lib/toolserver/audit.jsonl", "grep -r hash /etc/toolserver", "tail /var/lib/toolserver/../toolserver/audit.jsonl"} {
		if out, _ := pod.run("call", "bash", "command="+command); !strings.Contains(out, "the rule own") {
			t.Errorf("%s:\n%s", command, out)
		}
	}
	pod.prints(t, "65532", "call", "bash", "command=id -u > a && cat a")
	pod.mount(t, "policy", map[string]string{"policy.yaml": "version: 1\nrules: [{name: none, action: deny, tools: [bash]}]\n"})
	pod.until(t, "There is no tool", "call", "bash", "command=id -u")
	pod.stop(t)
}

// A layoutImage is the image of an OCI image layout.
type layoutImage struct {
	dir, digest  string
	layers       []descriptor
	OS           string
	Architecture string
	Config       struct {
		User, WorkingDir     string
		Env, Entrypoint, Cmd []string
		Labels               map[string]string
	}
	RootFS struct {
		DiffIDs []string `json:"diff_ids"`
	}
}

type descriptor struct {
	MediaType string
	Digest    string
	Size      int64
}

// blob returns a blob, which has to be what its digest says.
func blob(t *testing.T, dir string, d descriptor) []byte {
	t.Helper()
	algorithm, name, _ := strings.Cut(d.Digest, ":")
	text, err := os.ReadFile(filepath.Join(dir, "blobs", algorithm, name))
	if err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256(text); hex.EncodeToString(sum[:]) != name || int64(len(text)) != d.Size {
		t.Fatalf("blob %s is not what its digest says", d.Digest)
	}
	return text
}

func readLayout(t *testing.T, dir string) *layoutImage {
	t.Helper()
	var about struct{ ImageLayoutVersion string }
	var index struct{ Manifests []descriptor }
	for name, target := range map[string]any{"oci-layout": &about, "index.json": &index} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, target); err != nil {
			t.Fatal(err)
		}
	}
	if about.ImageLayoutVersion != "1.0.0" || len(index.Manifests) != 1 {
		t.Fatalf("layout %v with %d manifests", about, len(index.Manifests))
	}
	var manifest struct {
		MediaType string
		Config    descriptor
		Layers    []descriptor
	}
	if err := json.Unmarshal(blob(t, dir, index.Manifests[0]), &manifest); err != nil {
		t.Fatal(err)
	}
	if manifest.MediaType != "application/vnd.oci.image.manifest.v1+json" || manifest.Config.MediaType != "application/vnd.oci.image.config.v1+json" {
		t.Errorf("types %s and %s", manifest.MediaType, manifest.Config.MediaType)
	}
	image := &layoutImage{dir: dir, digest: index.Manifests[0].Digest, layers: manifest.Layers}
	if err := json.Unmarshal(blob(t, dir, manifest.Config), image); err != nil {
		t.Fatal(err)
	}
	return image
}

// unpack writes the files of the image below dir and returns their names. It is root who
// can give them to their owners.
func (i *layoutImage) unpack(t *testing.T, dir string) []string {
	t.Helper()
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	var names []string
	for n, layer := range i.layers {
		unzipped, err := gzip.NewReader(bytes.NewReader(blob(t, i.dir, layer)))
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.New()
		text := io.TeeReader(unzipped, sum)
		files := tar.NewReader(text)
		for {
			header, err := files.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := unpackFile(root, header, files); err != nil {
				t.Fatalf("%s: %v", header.Name, err)
			}
			if header.Mode&0o6000 != 0 && header.Typeflag == tar.TypeReg {
				t.Errorf("%s is of somebody else when it runs", header.Name)
			}
			names = append(names, header.Name)
		}
		if _, err := io.Copy(io.Discard, text); err != nil {
			t.Fatal(err)
		}
		if got := "sha256:" + hex.EncodeToString(sum.Sum(nil)); got != i.RootFS.DiffIDs[n] {
			t.Errorf("layer %d is %s, want %s", n, got, i.RootFS.DiffIDs[n])
		}
	}
	return names
}

func unpackFile(root *os.Root, header *tar.Header, text io.Reader) error {
	name := strings.TrimSuffix(header.Name, "/")
	mode := fs.FileMode(header.Mode).Perm()
	switch header.Typeflag {
	case tar.TypeDir:
		if err := root.Mkdir(name, mode); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if header.Mode&0o1000 != 0 {
			mode |= fs.ModeSticky
		}
		if err := root.Chmod(name, mode); err != nil {
			return err
		}
	case tar.TypeReg:
		file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		if err != nil {
			return err
		}
		defer file.Close()
		if _, err := io.Copy(file, text); err != nil {
			return err
		}
		if err := file.Chmod(mode); err != nil {
			return err
		}
	case tar.TypeSymlink:
		return root.Symlink(header.Linkname, name)
	case tar.TypeLink:
		return root.Link(header.Linkname, name)
	default:
		return fmt.Errorf("a file of type %q", header.Typeflag)
	}
	if os.Getuid() == 0 {
		return root.Lchown(name, header.Uid, header.Gid)
	}
	return nil
}

// A pod is a container that serves as the Deployment of deploy/manifests does: with its
// configuration, mounted as Kubernetes mounts it, and a root that cannot be written to.
type pod struct {
	bundle, runc, state, name, token string
	log                              *os.File
	ended                            chan error
}

func runPod(t *testing.T, bundle string, image *layoutImage) *pod {
	t.Helper()
	runc, err := exec.LookPath("runc")
	if err != nil || os.Getuid() != 0 {
		t.Skip("running it needs root and runc")
	}
	p := &pod{bundle: bundle, runc: runc, state: filepath.Join(bundle, "runc"), ended: make(chan error, 1)}
	p.name = fmt.Sprintf("toolserver-image-%d-%d", os.Getpid(), time.Now().UnixNano())
	writable := map[string]string{"/var/lib/toolserver": filepath.Join(bundle, "data"), "/tmp": filepath.Join(bundle, "tmp")}
	for _, dir := range writable {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(dir, 65532, 65532); err != nil {
			t.Fatal(err)
		}
	}
	manifest := string(read(t, "manifests/deployment.yaml"))
	config, ok := literal(manifest, "toolserver.yaml")
	if !ok {
		t.Fatal("the Deployment has no configuration")
	}
	p.giveToken(t)
	certificate, key := certificateFor(t, t.TempDir())
	readable := make(map[string]string)
	for name, files := range map[string]map[string]string{
		"config": {"toolserver.yaml": config},
		"policy": {"policy.yaml": "version: 1\nrules: [{name: all, action: allow, tools: [bash, write_file]}]\n"},
		"tls":    {"tls.crt": string(read(t, certificate)), "tls.key": string(read(t, key))},
	} {
		p.mount(t, name, files)
	}
	for _, name := range []string{"config", "policy", "tls", "tokens"} {
		readable["/etc/toolserver/"+name] = filepath.Join(bundle, name)
	}
	spec, err := json.Marshal(sandboxtest.ContainerSpec(sandboxtest.Container{
		User: 65532, Args: append(slices.Clone(image.Config.Entrypoint), "serve", "--config", "/etc/toolserver/config/toolserver.yaml"),
		Env: image.Config.Env, Dir: image.Config.WorkingDir, Readable: readable, Writable: writable,
	}))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bundle, "config.json"), spec, 0o644); err != nil {
		t.Fatal(err)
	}
	if p.log, err = os.Create(filepath.Join(bundle, "log")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(runc, "--root", p.state, "run", "--bundle", bundle, p.name)
	cmd.Stdout, cmd.Stderr = p.log, p.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.ended <- cmd.Wait() }()
	t.Cleanup(func() {
		exec.Command(runc, "--root", p.state, "delete", "--force", p.name).Run()
		cmd.Process.Kill()
		p.log.Close()
	})
	for limit := time.Now().Add(time.Minute); !strings.Contains(p.written(t), `"serving"`); time.Sleep(20 * time.Millisecond) {
		select {
		case err := <-p.ended:
			t.Fatalf("it ended: %v\n%s", err, p.written(t))
		default:
		}
		if time.Now().After(limit) {
			t.Fatalf("it does not serve:\n%s", p.written(t))
		}
	}
	return p
}

// mount puts files where the pod has them, as Kubernetes does: in a new directory, to
// which a link is swapped.
func (p *pod) mount(t *testing.T, name string, files map[string]string) {
	t.Helper()
	dir := filepath.Join(p.bundle, name)
	version := fmt.Sprintf("..%d", time.Now().UnixNano())
	if err := os.MkdirAll(filepath.Join(dir, version), 0o755); err != nil {
		t.Fatal(err)
	}
	for file, text := range files {
		if err := os.WriteFile(filepath.Join(dir, version, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		os.Symlink("..data/"+file, filepath.Join(dir, file)) // which stays
	}
	if err := os.Symlink(version, filepath.Join(dir, "..tmp")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "..tmp"), filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
}

// giveToken replaces the token of the caller.
func (p *pod) giveToken(t *testing.T) {
	t.Helper()
	p.token = "tsk_" + rand.Text() + rand.Text()
	p.mount(t, "tokens", map[string]string{"tokens": fmt.Sprintf("sha256:%x roles=agent name=alice\n", sha256.Sum256([]byte(p.token)))})
}

// until runs a command until it prints what is wanted.
func (p *pod) until(t *testing.T, want string, command ...string) {
	t.Helper()
	for limit := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		out, err := p.run(command...)
		if strings.Contains(out, want) {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("%v: %v, want %q\n%s\n%s", command, err, want, out, p.written(t))
		}
	}
}

// written returns what the container has written.
func (p *pod) written(t *testing.T) string { return string(read(t, p.log.Name())) }

// run runs a command of the program in the container, as its user.
func (p *pod) run(command ...string) (string, error) {
	args := append([]string{"--root", p.state, "exec", "--user", "65532:65532", p.name, "/usr/bin/toolserver"}, command...)
	args = append(args, "--address", "127.0.0.1:8665", "--ca", "/etc/toolserver/tls/tls.crt", "--token", p.token)
	if command[0] == "call" {
		args = append(args, "--approve", "no") // there is nobody to ask
	}
	out, err := exec.Command(p.runc, args...).CombinedOutput()
	return string(out), err
}

// prints runs a command, which has to succeed and print what is wanted.
func (p *pod) prints(t *testing.T, want string, command ...string) {
	t.Helper()
	if out, err := p.run(command...); err != nil || !strings.Contains(out, want) {
		t.Errorf("%v: %v, want %q\n%s\n%s", command, err, want, out, p.written(t))
	}
}

// stop ends the pod as the kubelet does.
func (p *pod) stop(t *testing.T) {
	t.Helper()
	if out, err := exec.Command(p.runc, "--root", p.state, "kill", p.name, "TERM").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	select {
	case err := <-p.ended:
		if err != nil || !strings.Contains(p.written(t), `"stopped"`) {
			t.Errorf("it ended with %v\n%s", err, p.written(t))
		}
	case <-time.After(time.Minute):
		t.Errorf("it does not end:\n%s", p.written(t))
	}
}
