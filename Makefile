# `make run` needs Go alone, and builds the server and grpcurl, and what parses source
# code where there is a C compiler. What else the
# project needs comes into .bin from build/tools.mod, once, when `make test` or `make
# generate` asks for it. A C compiler, for the race detector, and gRPC for Python
# are installed where Debian's packages can be. With npm, buf need not be built,
# and there is ripgrep, which search is compared with.

SHELL := /bin/bash
.DEFAULT_GOAL := help
BIN := $(CURDIR)/.bin
export PATH := $(BIN):$(PATH)
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
# The compiler spends a fifth of its time on collecting garbage that it need not collect, where there
# is a gigabyte for it.
WASTEFUL := GOGC=800 GOMEMLIMIT=1GiB
# What is linked without the tables of debuggers is compiled without them: a tenth of the time. All
# programs are compiled alike, so that they share the packages. QUICK=1 inlines nothing: that is
# compiled in two thirds of the time, runs slower, and is what build/run serves first.
COMPILE := CGO_ENABLED=0 $(WASTEFUL) go build $(GOV) -trimpath -gcflags=all="-dwarf=false$(if $(QUICK), -l)"
# grpcnotrace leaves out an HTML page of requests that nobody serves here, and
# with it a seventh of the binary.
BUILD := $(COMPILE) -tags grpcnotrace,embedded -ldflags "-s -w -X github.com/toolserver/toolserver/internal/version.linked=$(VERSION)"
# The contract with its comments, for reflection.
SCHEMA := buf build --exclude-imports --as-file-descriptor-set
TOOL := $(COMPILE) -ldflags "-s -w" -modfile=build/tools.mod -o $(BIN)/

.PHONY: help
help: ## Show what can be made.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

.PHONY: run
run: ## Build and serve on 127.0.0.1:8665, and build .bin/grpcurl beside it.
	@build/run

.PHONY: cluster
cluster: server ## Three NATS servers and three replicas on loopback, and a call that one cancels for another; DEMO=1 ends then.
	go run ./build/cluster -program $(BIN)/toolserver $(if $(DEMO),-demo)

.PHONY: build
build: server syntax ## Build .bin/toolserver, and .bin/toolserver-syntax where there is a C compiler.

.PHONY: server
server: ## Build .bin/toolserver alone, with toolserver-exec in it.
	$(COMPILE) -ldflags "-s -w" -o internal/server/toolserver-exec ./cmd/toolserver-exec
	$(BUILD) -o $(BIN)/toolserver ./cmd/toolserver
	@$(if $(QUICK),touch,rm -f) $(BIN)/.quick
	@! grep -qF 'text/template.(*state)' $(BIN)/toolserver || { echo "text/template is reached: it calls methods by name, so that the linker keeps all of them, a tenth of the binary"; exit 1; }

# The standard library does not wait for modules to be there. What the server needs of it is known from
# the server's own files.
.PHONY: standard
standard:
	@GOPROXY=off GOFLAGS=-mod=mod CGO_ENABLED=0 go list -e -deps -f '{{if .Standard}}{{.ImportPath}}{{end}}' ./cmd/toolserver 2>/dev/null | \
		xargs env $(COMPILE)

# The one program that needs a C compiler: the grammars of tree-sitter take minutes, once. It is linked
# statically where that can be done, so that it runs in any image.
SYNTAX := cd cmd/toolserver-syntax && CGO_ENABLED=1 $(if $(CC_FOR_TARGET),CC=$(CC_FOR_TARGET)) nice go build $(GOV) -p 1 -trimpath
.PHONY: syntax
syntax: | $(BIN) ## Build .bin/toolserver-syntax, which parses source code, where there is a C compiler.
	@if [ "$$(go env GOOS GOARCH)" != "$$(go env GOHOSTOS GOHOSTARCH)" ] && [ -z "$(CC_FOR_TARGET)" ]; then rm -f $(BIN)/toolserver-syntax; \
		echo "toolserver-syntax is not built for $$(go env GOOS)/$$(go env GOARCH): name a C compiler for it, make CC_FOR_TARGET=aarch64-linux-gnu-gcc"; \
	elif command -v $(or $(CC_FOR_TARGET),$$(go env CC)) >/dev/null; then \
		($(SYNTAX) -ldflags '-s -w -extldflags "-static"' -o $(BIN)/toolserver-syntax .) || { $(SYNTAX) -ldflags '-s -w' -o $(BIN)/toolserver-syntax .; }; \
	else echo "there is no C compiler: the tool code does without source code that is parsed, until there is one and make syntax ran"; fi

.PHONY: test
test: compiler network ctags tools ripgrep terminal chromium python typescript mcp providers openapi pages sources $(BIN)/console/installed language-servers lint generated ## Run every check and test, as CI does.
	build/test ./...

# Without cgo, as the programs that tests start: or all is compiled once more to be looked at.
.PHONY: lint
lint: export CGO_ENABLED = 0
lint: compiler $(BIN)/buf $(BIN)/.tools ## Run gofmt, go vet, staticcheck, buf lint, buf format and buf breaking.
	@test -z "$$(gofmt -l $$(git ls-files '*.go' ':!*.pb.go'))" || { gofmt -d $$(git ls-files '*.go' ':!*.pb.go'); exit 1; }
	$(WASTEFUL) go vet ./...
	cd cmd/toolserver-syntax && CGO_ENABLED=1 go vet -trimpath .
	go vet -tags bench ./internal/server
	staticcheck ./...
	buf lint
	buf format --diff --exit-code
	buf breaking --against proto/contract.binpb

.PHONY: generate
generate: $(BIN)/buf $(BIN)/.tools ## Generate Go code from proto/, unless the contract was broken.
	@test ! -e proto/contract.binpb || buf breaking --against proto/contract.binpb
	buf build --exclude-source-info -o proto/contract.binpb
	$(SCHEMA) -o internal/service/schema.binpb
	buf generate

.PHONY: generated
generated: $(BIN)/buf $(BIN)/.tools ## Fail if generating would change anything.
	@rm -rf .bin/generated && mkdir -p .bin/generated
	@buf generate --output .bin/generated
	@buf build --exclude-source-info -o .bin/generated/proto/contract.binpb
	@$(SCHEMA) -o .bin/generated/schema.binpb
	@diff -r -x '*.proto' -x rest.yaml proto .bin/generated/proto && diff -r -x '*.go' internal/rest .bin/generated/internal/rest && diff -r internal/rest/gateway .bin/generated/internal/rest/gateway && cmp internal/service/schema.binpb .bin/generated/schema.binpb || { echo "generated code is out of date: run make generate"; exit 1; }

.PHONY: bench
bench: ripgrep fd sources $(BIN)/gopls ## Measure against a bare gRPC server, and search against ripgrep; takes an hour.
	go run ./bench
	go test -run '^$$' -bench Gopls -benchtime 1000x ./internal/lsp

.PHONY: soak
soak: compiler ripgrep ## The long forms of the tests that repeat: minutes, not seconds.
	TOOLSERVER_SOAK=1 go test -race -timeout 60m -count 1 -v -run Soak ./internal/service
	TOOLSERVER_SOAK=1 go test -race -timeout 60m -count 1 -v -run RollingRestarts ./cmd/toolserver
	TOOLSERVER_SOAK=1 go test -race -timeout 60m -count 1 -v -run 'Swaps|Killed|UndoRestoresExactly|ManyFiles' ./internal/workspace ./internal/history ./internal/tools/files
	TOOLSERVER_SOAK=1 go test -race -timeout 60m -count 1 -v -run NothingLeaks ./internal/sandbox
	TOOLSERVER_SOAK=1 go test -race -timeout 60m -count 1 -v -run Killed ./internal/state
	TOOLSERVER_SOAK=1 go test -timeout 120m -count 1 -v -run 'KilledUnderLoad|ReplyLost|FleetUnderFaults|WorkflowKilled|MixedVersions|SchedulesFireOnce' ./internal/restart
	TOOLSERVER_SOAK=1 go test -timeout 60m -count 1 -v -run 'Soak|Unprivileged|InterruptAnywhere' ./internal/tools/shell
	TOOLSERVER_SOAK=1 go test -timeout 120m -count 1 -v -run 'Trial|Isolation|Random|Unprivileged' ./internal/trial
	TOOLSERVER_SOAK=1 go test -timeout 60m -count 1 -v -run 'Differ|PublishedPages' ./internal/shell ./internal/tools/web
	TOOLSERVER_SOAK=1 go test -timeout 60m -count 1 -v -run '^TestAs|^TestIgnoreAs|TestLanes|TestWarmAsCold|TestWhileThingsChange' ./internal/search
	TOOLSERVER_SOAK=1 go test -timeout 60m -count 1 -v -run 'TestRoundTrip|NeverLoosens|TiersAllow|TestIdleIsForgotten' ./internal/toolcall ./internal/policy ./internal/limit

# Tests, what only tests import, benchmarks and generated code do not count; comments do.
.PHONY: lines
lines: ## Count the lines of Go in each package.
	@git ls-files '*.go' ':!*_test.go' ':!*.pb.go' ':!*.pb.gw.go' ':!*test/*' ':!bench/*' | xargs awk ' \
		{ name = FILENAME; sub("/[^/]*$$", "", name); lines[name]++ } \
		END { for (name in lines) print lines[name] "\t" name }' | sort -n | \
		awk '{ print; total += $$1 } END { print total "\ttotal" }'

.PHONY: runc
runc:
	@command -v runc >/dev/null || \
		{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends runc; }

# Needs root: a container is made by runc, from Debian's packages.
.PHONY: pod
pod: runc ## Test the sandbox in a container as a restricted pod of Kubernetes is one.
	TOOLSERVER_POD=1 go test -timeout 10m -count 1 -v -p 1 -run 'TestPod$$' ./internal/sandbox ./internal/tools/shell ./internal/trial

# An OCI image layout, without a container engine: push it with crane, skopeo or
# regctl. The one with programs for commands is made of Debian's packages, as root.
IMAGES ?= $(BIN)/images
# What parses source code is in them where it was built for any system: it names no interpreter.
STATIC_SYNTAX = $$(test -f $(BIN)/toolserver-syntax && ! readelf -l $(BIN)/toolserver-syntax | grep -q INTERP && echo $(BIN)/toolserver-syntax)
.PHONY: image
image: build runc ## Build the image of the server, as an OCI layout in .bin/images/server, and run it.
	cd build/image && go run . -out $(IMAGES)/server -version $(VERSION) $(BIN)/toolserver $(STATIC_SYNTAX)
	go test -count 1 -v -run 'TestImage$$' ./deploy

.PHONY: image-tools
image-tools: build ## Build the image with git, python3, node and others in .bin/images/tools, and run it.
	@mkdir -p $(IMAGES); test $(IMAGES)/root -nt deploy/packages.txt || nice build/image/tree $(IMAGES)/root
	cd build/image && go run . -out $(IMAGES)/tools -version $(VERSION)-tools -root $(IMAGES)/root $(BIN)/toolserver $(STATIC_SYNTAX)
	TOOLSERVER_IMAGE_TOOLS=$(IMAGES)/tools go test -count 1 -v -run TestImageWithTools ./deploy

# What is compiled here is half of Kubernetes: minutes for make chart, half an hour for
# make kube, once.
.PHONY: chart
chart: ## Hold the Helm chart against the types of Kubernetes, and the manifests against the chart.
	cd build/kube && go vet . && go test -trimpath -timeout 60m -count 1 .

.PHONY: manifests
manifests: ## Make deploy/manifests from the Helm chart.
	cd build/kube && UPDATE_GOLDEN=1 go test -trimpath -timeout 60m -count 1 -run TestManifests .
	UPDATE_GOLDEN=1 go test -count 1 -run TestManifestsAreMadeOfThisChart ./deploy

.PHONY: kube
kube: $(BIN)/etcd $(BIN)/kube-apiserver $(BIN)/helm ## Install, upgrade and remove the chart in a real API server.
	cd build/kube && TOOLSERVER_KUBE=1 go test -trimpath -timeout 60m -count 1 -v -run TestCluster .

$(BIN)/etcd: build/kube/cluster/go.mod build/kube/cluster/go.sum | $(BIN)
	cd build/kube/cluster && go build -trimpath -ldflags "-s -w" -o $@ go.etcd.io/etcd/server/v3
	@touch $@

# Charts ask which version it is.
$(BIN)/kube-apiserver: build/kube/cluster/go.mod build/kube/cluster/go.sum | $(BIN)
	cd build/kube/cluster && go build -trimpath -ldflags "-s -w -X k8s.io/component-base/version.gitVersion=$$(go list -m -f '{{.Version}}' k8s.io/kubernetes)" \
		-o $@ k8s.io/kubernetes/cmd/kube-apiserver
	@touch $@

$(BIN)/helm: build/kube/helm/go.mod build/kube/helm/go.sum | $(BIN)
	cd build/kube/helm && go build -trimpath -ldflags "-s -w" -o $@ helm.sh/helm/v4/cmd/helm
	@touch $@

FUZZTIME ?= 2m
.PHONY: fuzz
fuzz: compiler ## Fuzz every target for FUZZTIME each.
	@for package in $$(git grep -l '^func Fuzz' -- '*_test.go' | xargs -n 1 dirname | sort -u); do \
		for target in $$(go test -list '^Fuzz' ./$$package | grep '^Fuzz'); do \
			echo "$$package $$target"; \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) ./$$package || exit 1; \
		done; done

# Networks of tests are made with ip.
.PHONY: network
network:
	@command -v ip >/dev/null || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends iproute2; } || \
		echo "there is no ip: tests that cut networks apart are left out, or fail in CI"

# The race detector is linked by a C compiler, the one thing Go does not bring.
.PHONY: compiler
compiler:
	@command -v $$(go env CC) >/dev/null || \
		{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends gcc libc6-dev; } || \
		{ echo "go test -race needs a C compiler and none could be installed: install gcc, or set CC"; exit 1; }

# The client and the examples in Python are not tested where this cannot be installed. Debian's own
# python3-grpc-tools is not used: its protoc is too old for optional fields.
PYTHON := python3-grpcio python3-protobuf protobuf-compiler protobuf-compiler-grpc libprotobuf-dev curl
.PHONY: python
python: ## Install gRPC for Python, from Debian's packages.
	@dpkg --status $(PYTHON) >/dev/null 2>&1 || \
		{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $(PYTHON); } || \
		echo "gRPC for Python could not be installed: nothing in Python is tested"

# Packages of npm, by their place in .bin: the folder that names them.
NPM_typescript := sdk/typescript
NPM_mcp := build/mcp
NPM_providers := internal/toolcall/testdata/providers
NPM_npm := build/npm
NPM_console := internal/console/web
NPM_lsp := build/lsp

.SECONDEXPANSION:
$(BIN)/%/installed: $$(NPM_$$*)/package.json $$(NPM_$$*)/package-lock.json
	@mkdir -p $(@D)
	@cp $^ $(@D)/
	@if command -v npm >/dev/null && npm ci --ignore-scripts --prefix $$(realpath $(@D)) --no-audit --no-fund --loglevel=error; then touch $@; \
	else echo "npm is not there or could not install what $< names: tests that need it fail or are skipped"; fi

.PHONY: typescript
typescript: $(BIN)/typescript/installed ## Install what the client in TypeScript needs into .bin, with npm.

.PHONY: mcp
mcp: $(BIN)/mcp/installed ## Install the client of MCP in TypeScript, and its conformance tests, into .bin with npm.

.PHONY: providers
providers: $(BIN)/providers/installed ## Install the clients of Anthropic and OpenAI into .bin, with npm; tests hold what is rendered against them.

# Its files are checked in, so that Go alone builds the server; a test says when they are stale.
.PHONY: console
console: $(BIN)/console/installed $(BIN)/buf ## Build the files of the console in internal/console/dist, with npm.
	internal/console/web/build internal/console/dist

# The test of a large API fails where its document cannot be fetched. Of its package, which npm
# would unpack to half a gigabyte, one file is wanted.
.PHONY: openapi
openapi: $(BIN)/openapi/api.github.com.json ## Fetch a published OpenAPI document into .bin, with npm.

$(BIN)/openapi/api.github.com.json: | $(BIN)
	@mkdir -p $(BIN)/openapi
	@cd $(BIN)/openapi && npm pack --silent @octokit/openapi@23.0.2 >/dev/null && \
		tar -xzf octokit-openapi-23.0.2.tgz --strip-components=2 package/generated/api.github.com.json && rm octokit-openapi-23.0.2.tgz && \
		echo "829b4bebb19a53133289f7b0bc819f4f1118115821db2ca9f25e9ee995a7da2a  api.github.com.json" | sha256sum --check --quiet && touch api.github.com.json || \
		{ rm -f api.github.com.json; echo "npm could not fetch @octokit/openapi: the test of a large API will fail"; }

# Documentation as it was published, made by six generators and by hand: of the packages the
# pages are wanted alone.
PAGES := npm@11.6.2 paper@0.12.18 protobufjs@5.0.3 leaflet-draw@1.0.4 tern@0.24.3 bignumber.js@9.3.1
.PHONY: pages
pages: $(BIN)/pages/installed ## Fetch published pages into .bin, with npm; tests convert them.

$(BIN)/pages/installed: build/pages.sha256 | $(BIN)
	@mkdir -p $(@D)
	@cd $(@D) && npm pack --silent $(PAGES) >/dev/null && sha256sum --check --quiet $(CURDIR)/$< && \
		for package in *.tgz; do mkdir -p $${package%.tgz} && tar -xzf $$package -C $${package%.tgz} --warning=no-unknown-keyword \
			--strip-components=1 --wildcards 'package/doc*.html' 'package/dist/docs/*.html' 2>/dev/null || true; done && \
		rm -f *.tgz && touch $(@F) || echo "npm could not fetch published pages: the test of them will fail"

# Sources as they were published: 6,000 files of TypeScript for the benchmark, and modules that language
# servers are asked about.
SOURCES := rxjs@7.8.2 viem@2.57.13 effect@4.1.0 thirdweb@5.121.6 @theia/core@1.75.0 node-gyp@12.4.0
.PHONY: sources
sources: $(BIN)/sources/installed ## Fetch published sources in TypeScript and Python into .bin, with npm.

$(BIN)/sources/installed: build/sources.sha256 | $(BIN)
	@rm -rf $(@D) && mkdir -p $(@D)
	@cd $(@D) && npm pack --silent $(SOURCES) >/dev/null && sha256sum --check --quiet $(CURDIR)/$< && \
		for package in *.tgz; do mkdir $${package%-*} && tar -xzf $$package -C $${package%-*} --warning=no-unknown-keyword --strip-components=1 \
			--exclude '*.d.ts' --wildcards 'package/*.ts' 'package/*.tsx' 'package/*.py' 'package/*.json' 2>/dev/null || true; done && \
		rm -f *.tgz && touch $(@F) || echo "npm could not fetch published sources: what is asked about them fails or is left out"

# Outlines are compared with those of universal-ctags.
.PHONY: ctags
ctags:
	@command -v ctags >/dev/null || \
		{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends universal-ctags; } || \
		echo "universal-ctags could not be installed: outlines are not compared with it"

# Benchmarks that compare with fd are left out where it cannot be installed.
.PHONY: fd
fd:
	@command -v fdfind >/dev/null || command -v fd >/dev/null || \
		{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends fd-find; } || \
		echo "fd could not be installed: nothing is compared with it"

# Tests that look at screens are skipped where tmux, which draws them, cannot be
# installed.
.PHONY: terminal
terminal:
	@command -v tmux >/dev/null || \
		{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends tmux; } || \
		echo "tmux could not be installed: no screens are looked at"

# Tests of the browser are skipped where it cannot be installed.
.PHONY: chromium
chromium: ## Install Chromium, from Debian's packages.
	@command -v chromium >/dev/null || \
		{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends chromium; } || \
		echo "Chromium could not be installed: the browser is not tested"

# Tests of language servers that cannot be built or installed are skipped.
.PHONY: language-servers
language-servers: $(BIN)/gopls $(BIN)/lsp/installed ## Build gopls, and install other language servers, into .bin, for tests.

$(BIN)/gopls: build/gopls.mod build/gopls.sum | $(BIN)
	@CGO_ENABLED=0 go build -modfile=build/gopls.mod -o $@ golang.org/x/tools/gopls && touch $@ || echo "gopls could not be built: nothing is asked about Go"

# Tests that compare with ripgrep are skipped where it cannot be installed.
.PHONY: ripgrep
ripgrep: $(BIN)/rg ## Install ripgrep, and an MCP server, into .bin with npm, to compare with.

$(BIN)/rg: $(BIN)/npm/installed
	@cp $(BIN)/npm/node_modules/@vscode/ripgrep-*/bin/rg $@ 2>/dev/null || echo "nothing is compared with ripgrep"

$(BIN):
	@mkdir -p $@

.PHONY: tools
tools: $(BIN)/buf $(BIN)/grpcurl $(BIN)/.tools ## Build the tools that build/tools.mod pins into .bin.

$(BIN)/.tools: build/tools.mod build/tools.sum | $(BIN)
	$(TOOL) github.com/grpc-ecosystem/grpc-gateway/v2/protoc-gen-grpc-gateway github.com/grpc-ecosystem/grpc-gateway/v2/protoc-gen-openapiv2 \
		google.golang.org/grpc/cmd/protoc-gen-go-grpc google.golang.org/protobuf/cmd/protoc-gen-go honnef.co/go/tools/cmd/staticcheck
	@touch $@

$(BIN)/grpcurl: build/tools.mod build/tools.sum | $(BIN)
	$(TOOL) github.com/fullstorydev/grpcurl/cmd/grpcurl
	@touch $@

# npm's buf is buf's own binary, which saves two minutes of compiling; it is
# taken only if it has the version that build/tools.mod names.
$(BIN)/buf: build/tools.mod build/tools.sum | $(BIN) $(BIN)/npm/installed
	@for buf in $(BIN)/npm/node_modules/@bufbuild/buf-*/bin/buf; do \
		if grep -qs "bufbuild/buf v$$($$buf --version 2>/dev/null) " build/tools.mod; then cp "$$buf" $@; fi; done
	@test -e $@ -a $@ -nt build/tools.mod || { echo "$(TOOL) github.com/bufbuild/buf/cmd/buf"; $(TOOL) github.com/bufbuild/buf/cmd/buf; }
	@touch $@
