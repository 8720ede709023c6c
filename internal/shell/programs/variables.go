// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"slices"
	"strings"
	"sync"
)

// dangerous are the variables that make programs run other code, look for files
// elsewhere or talk to somebody else. A star at the end means every name that
// begins so.
var dangerous = wordsOf(`
	PATH HOME SHELL IFS ENV BASH_ENV PROMPT_COMMAND PS0 PS1 PS2 PS4 SHELLOPTS BASHOPTS BASH_FUNC_* BASH_XTRACEFD
	BASH_LOADABLES_PATH BASH_CMDS BASH_ALIASES BASH_COMPAT MAIL MAILPATH PWD OLDPWD DIRSTACK CDPATH GLOBIGNORE EXECIGNORE FPATH ZDOTDIR INPUTRC HISTFILE POSIXLY_CORRECT TMPDIR TMOUT
	PAGER *PAGER EDITOR *EDITOR VISUAL BROWSER *_BROWSER FCEDIT LESS* LV MORE MANOPT MANPATH
	LD_* DYLD_* _RLD* LIBPATH SHLIB_PATH GCONV_PATH LOCPATH NLSPATH TEXTDOMAIN TEXTDOMAINDIR LANGUAGE OUTPUT_CHARSET GLIBC_TUNABLES MALLOC_* HOSTALIASES RES_OPTIONS
	LOCALDOMAIN TERMINFO* TERMCAP TERMPATH
	GIT_* SSH_* SVN_* CVS_* HG* RSYNC_* DELTA_*
	PYTHON* PERL* RUBY* NODE_* GEM_* BUNDLE_* BUNDLER_* LUA_* PHPRC PHP_* TCLLIBPATH R_* JULIA_*
	JAVA_* _JAVA_* JDK_* CLASSPATH MAVEN_* GRADLE_* ANT_* SBT_* KOTLIN*
	GOFLAGS GOROOT GOTOOLDIR GOTOOLCHAIN GOPROXY GONOSUMDB GOSUMDB GONOSUMCHECK GOINSECURE GOENV GOPATH GOBIN GOEXPERIMENT GOAUTH CGO_*
	CC CXX CPP LD AR AS RUSTC* RUSTDOC* RUSTUP_* RUSTFLAGS CARGO* MAKE MAKEFLAGS MAKEFILES MFLAGS GNUMAKEFLAGS
	CONFIG_SHELL CMAKE_* PKG_CONFIG* COMPILER_PATH GCC_* CPATH LIBRARY_PATH C_INCLUDE_PATH
	npm_* NPM_* YARN_* PNPM_* COREPACK_* BUN_* DENO_* PIP_* UV_* POETRY_* VIRTUAL_ENV CONDA_*
	http_proxy https_proxy ftp_proxy all_proxy no_proxy HTTP_PROXY HTTPS_PROXY FTP_PROXY ALL_PROXY NO_PROXY
	OPENSSL_* SSL_* SSLKEYLOGFILE CURL_* WGETRC NETRC KRB5* REQUESTS_CA_BUNDLE
	XDG_* RIPGREP_CONFIG_PATH GREP_OPTIONS GREP_COLOR* TAR_OPTIONS SIMPLE_BACKUP_SUFFIX TAPE RSH ZIPOPT UNZIP UNZIPOPT GZIP BZIP* XZ_* ZSTD_* TIME
	FZF_* VIMINIT EXINIT VIM* NVIM_* EMACS* DOCKER_* KUBE* AWS_* ANSIBLE_* TF_* HELM_* SUDO_* SYSTEMD_* DEBUGINFOD_* DBUS_* DISPLAY
`)

// harmless are the values with which a dangerous variable does nothing. A star
// stands for every value.
var harmless = sync.OnceValue(func() map[string][]string {
	return map[string][]string{
		"PAGER": {"", "cat"}, "GIT_PAGER": {"", "cat"}, "MANPAGER": {"", "cat"}, "SYSTEMD_PAGER": {"", "cat"}, "GH_PAGER": {"", "cat"},
		"AWS_PAGER": {"", "cat"}, "EDITOR": {"", "true", ":"}, "VISUAL": {"", "true", ":"}, "GIT_EDITOR": {"true", ":"},
		"GIT_SEQUENCE_EDITOR": {"true", ":"}, "BROWSER": {"", "true"}, "LESS": {"", "-R", "-FRX", "FRX", "-F", "-X"}, "LESSCHARSET": {"utf-8"},
		"GIT_TERMINAL_PROMPT": {"0", "1"}, "GIT_OPTIONAL_LOCKS": {"0", "1"}, "GIT_MERGE_AUTOEDIT": {"no"}, "GIT_LFS_SKIP_SMUDGE": {"1"},
		"GIT_PAGER_IN_USE": {"*"}, "GIT_AUTHOR_NAME": {"*"}, "GIT_AUTHOR_EMAIL": {"*"}, "GIT_AUTHOR_DATE": {"*"},
		"GIT_COMMITTER_NAME": {"*"}, "GIT_COMMITTER_EMAIL": {"*"}, "GIT_COMMITTER_DATE": {"*"},
		"NODE_ENV": {"*"}, "NODE_NO_WARNINGS": {"*"}, "PYTHONUNBUFFERED": {"*"}, "PYTHONDONTWRITEBYTECODE": {"*"}, "PYTHONHASHSEED": {"*"},
		"PYTHONIOENCODING": {"*"}, "PYTHONUTF8": {"*"}, "PERL_UNICODE": {"*"}, "CGO_ENABLED": {"0", "1"}, "CARGO_TERM_COLOR": {"*"},
		"CARGO_INCREMENTAL": {"0", "1"}, "GOTOOLCHAIN": {"local"}, "GOPROXY": {"off"}, "GOFLAGS": {"", "-mod=vendor", "-mod=mod", "-mod=readonly"},
		"AWS_REGION": {"*"}, "AWS_DEFAULT_REGION": {"*"}, "PIP_DISABLE_PIP_VERSION_CHECK": {"*"}, "NPM_TOKEN": {"*"}, "SSH_ASKPASS": {""},
		"POSIXLY_CORRECT": {}, "LD_PRELOAD": {""}, "LD_LIBRARY_PATH": {""}, "BASH_ENV": {""}, "ENV": {""}, "RUSTC_WRAPPER": {""},
	}
})

// integers are the variables of the shell that evaluate what they are given as
// arithmetic, which can run commands.
var integers = wordsOf(`
	RANDOM SRANDOM SECONDS LINENO HISTCMD OPTIND OPTERR EPOCHSECONDS EPOCHREALTIME BASH_MONOSECONDS BASHPID BASH_SUBSHELL
	UID EUID PPID SHLVL COLUMNS LINES COPROC_PID MAILCHECK HISTSIZE HISTFILESIZE FUNCNEST
`)

// EvaluatesValue reports whether a variable of the shell evaluates what it is given as
// arithmetic.
func EvaluatesValue(name string) bool { return slices.Contains(integers(), name) }

// HarmlessValue reports whether a dangerous variable does nothing with a value, which may
// not be known.
func HarmlessValue(name, value string, known bool) bool {
	values := harmless()[name]
	return slices.Contains(values, "*") || known && slices.Contains(values, value)
}

// Dangerous reports whether a variable makes programs run other code, look for files
// elsewhere or talk to somebody else.
func Dangerous(name string) bool {
	return slices.ContainsFunc(dangerous(), func(pattern string) bool {
		if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
			return strings.HasPrefix(name, prefix)
		}
		if suffix, ok := strings.CutPrefix(pattern, "*"); ok {
			return strings.HasSuffix(name, suffix)
		}
		return name == pattern
	})
}
