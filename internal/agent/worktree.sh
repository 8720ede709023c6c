# Commits what was changed in a worktree and removes it. The last line tells what came of it:
# nothing, merged or kept.
set -e
# The agent may have left anything at .git, or nothing: git would take another repository for
# that of the worktree.
common=$(cd "$(git rev-parse --git-common-dir)" && pwd)
within() { git -C "$dir" --git-dir="$common/worktrees/${dir##*/}" --work-tree=. -c core.hooksPath=/dev/null "$@"; }
# What the agent was not given is not what it removed. git has quoted the names.
if [ -n "$withheld" ]; then printf '%s\n' "$withheld" | within checkout-index --force --stdin; fi
within add --all
within diff --cached --quiet || within -c user.name=agent -c user.email=agent@localhost commit --quiet --no-verify -m "$branch"
git worktree remove --force "$dir" 2>/dev/null || { rm -rf "$dir" && git worktree prune; }
rmdir .worktrees 2>/dev/null || true
if [ -z "$(git rev-list HEAD.."$branch" | head -n 1)" ]; then
	git branch --quiet -D "$branch"
	echo nothing
elif [ "$merge" = true ] && git merge --quiet --no-edit "$branch" >/dev/null 2>&1; then
	git branch --quiet -d "$branch"
	echo merged
else
	git merge --abort 2>/dev/null || true
	echo kept
fi
