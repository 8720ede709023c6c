# Commits what was changed in a worktree and removes it. The last line tells what came of it:
# nothing, merged or kept.
set -e
git -C "$dir" add --all
git -C "$dir" diff --cached --quiet || git -C "$dir" -c user.name=agent -c user.email=agent@localhost commit --quiet --no-verify -m "$branch"
git worktree remove --force "$dir"
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
