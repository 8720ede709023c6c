# Runs git in the repository whose top is the working directory, without anything
# the repository says of itself: its configuration is never read, so no program
# that it names is run. Of its directory git is shown what is data, in a directory
# that is made for it.
#
#   bash -c THIS git N REVISION... -- WORD...
#
# runs git with the words; a word @ is replaced by the commits of the N revisions.
# What goes wrong before git runs is told by an exit status.
set -u
no_repository=201 no_revision=202 no_commits=203

top=$PWD meta=.git line=
if [[ -f $meta ]]; then # a worktree or a submodule
	IFS= read -r line <"$meta"
	[[ $line == 'gitdir: '* ]] || exit $no_repository
	meta=${line#gitdir: }
fi
cd -- "$meta" 2>/dev/null && [[ -r HEAD ]] || exit $no_repository
meta=$PWD common=$PWD
if [[ -f commondir ]]; then
	IFS= read -r line <commondir
	cd -- "$line" 2>/dev/null || exit $no_repository
	common=$PWD
fi
[[ -d $common/objects && -d $common/refs ]] || exit $no_repository

# What is in the environment goes before it.
unset "${!GIT_@}"
export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_SYSTEM=/dev/null GIT_CONFIG_GLOBAL=/dev/null GIT_ATTR_NOSYSTEM=1
export GIT_OPTIONAL_LOCKS=0 GIT_NO_LAZY_FETCH=1 GIT_NO_REPLACE_OBJECTS=1 GIT_TERMINAL_PROMPT=0
export GIT_PAGER=cat GIT_EDITOR=false GIT_ASKPASS=false GIT_SSH_COMMAND=false GIT_ALLOW_PROTOCOL= GIT_PROTOCOL_FROM_USER=0

shown=$TMPDIR/git-$$-$RANDOM$RANDOM
mkdir -m 700 -- "$shown" "$shown/info" || exit $no_repository
trap 'rm -rf -- "$shown"' EXIT
IFS= read -r head <"$meta/HEAD"
printf '%s\n' "$head" >"$shown/HEAD"
shopt -s nullglob
data=("$common"/refs "$common"/reftable* "$common"/packed-refs* "$common"/logs* "$common"/shallow* "$meta"/sharedindex.*
	"$meta"/*_HEAD "$meta"/rebase-* "$meta"/sequencer* "$meta"/MERGE_M* "$meta"/BISECT_*)
ln -s -t "$shown" -- "${data[@]}"
[[ -f $common/info/exclude ]] && ln -s -- "$common/info/exclude" "$shown/info/exclude"

# Of the configuration git gets what tells how the files are to be understood, and
# what the branch is compared with.
settings=0
setting() {
	export "GIT_CONFIG_KEY_$settings=$1" "GIT_CONFIG_VALUE_$settings=$2"
	settings=$((settings + 1))
}
wanted='^(core\.(filemode|symlinks|ignorecase|autocrlf|eol|precomposeunicode)|extensions\.(objectformat|refstorage)|branch\..*\.(remote|merge)|remote\..*\.fetch)$'
branch=${head#ref: refs/heads/} upstream= entries=()
printf '[core]\n\trepositoryformatversion = 1\n\tbare = false\n' >"$shown/config"
if [[ -f $common/config ]]; then
	mapfile -d '' -t entries < <(git config --file "$common/config" --no-includes --null --get-regexp "$wanted" 2>/dev/null)
fi
for entry in ${entries[@]+"${entries[@]}"}; do
	[[ $entry == "branch.$branch.remote"$'\n'* ]] && upstream=${entry#*$'\n'}
done
for entry in ${entries[@]+"${entries[@]}"}; do
	key=${entry%%$'\n'*}
	value=true
	[[ $entry == *$'\n'* ]] && value=${entry#*$'\n'}
	case $key in
	extensions.*)
		[[ $value =~ ^[a-z0-9]+$ ]] && printf '[extensions]\n\t%s = %s\n' "${key#*.}" "$value" >>"$shown/config"
		;;
	core.* | "branch.$branch.remote" | "branch.$branch.merge" | "remote.$upstream.fetch") setting "$key" "$value" ;;
	esac
done
setting safe.bareRepository explicit
setting core.fsmonitor false
setting core.hooksPath /dev/null
setting core.attributesFile /dev/null
setting core.quotePath false
export GIT_CONFIG_COUNT=$settings
export GIT_DIR=$shown GIT_OBJECT_DIRECTORY=$common/objects GIT_INDEX_FILE=$meta/index GIT_WORK_TREE=$top
cd -- "$top" || exit $no_repository

commit() {
	[[ -z $1 ]] && set -- HEAD
	git rev-parse --verify --quiet "$1^{commit}" && return
	git rev-parse --verify --quiet HEAD >/dev/null || exit $no_commits
	printf '%s' "$1" >&2
	exit $no_revision
}
commits=() left= right=
for ((n = $1; n > 0; n--)); do
	shift
	case $1 in
	*...*)
		left=$(commit "${1%%...*}") && right=$(commit "${1#*...}") || exit
		commits+=("$left...$right")
		;;
	*..*)
		left=$(commit "${1%%..*}") && right=$(commit "${1#*..}") || exit
		commits+=("$left..$right")
		;;
	*)
		left=$(commit "$1") || exit
		commits+=("$left")
		;;
	esac
done
shift 2
words=()
for word; do
	case $word in
	@) words+=("${commits[@]}") ;;
	@:*) words+=("${commits[0]}${word#@}") ;;
	*) words+=("$word") ;;
	esac
done
git --no-pager "${words[@]}"
