#!/usr/bin/env bash
# Makes what a release consists of, in dist/: the wheel, the source archive, and SHA256SUMS.
#   scripts/release.sh [TAG] [options of pip wheel]
# TAG is HEAD, or a tag named as its VERSION: v1.2.3. All is made from what is committed there.
# auditwheel copies libraries that not every Linux has into the wheel, and its tag is the oldest glibc
# that the wheel runs with. Nothing in it is linked with CUDA's libraries. Their licences, and those of
# what is linked in, come from Debian's or Ubuntu's packages.
#   scripts/release.sh v1.2.3 -C cmake.define.GEMM_CUDA=OFF    the simulator alone
# Exit status: 0, 1 it could not be built, 2 there is no such tag, changes are not committed,
# CHANGELOG.md lacks the version, or a licence was not found.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

refuse() { status=2 die "release.sh: $*"; }
tag=HEAD
if [[ ${1-} && $1 != -* ]]; then
  tag=$1
  shift
fi
version=$(git show "$tag:VERSION" 2>/dev/null) || refuse "there is no tag '$tag'"
[[ $tag == HEAD || $tag == "v$version" ]] || refuse "$tag has version $version, so its tag is v$version"
[[ -z $(git status --porcelain) ]] || refuse "changes are not committed: git status lists them"
[[ $(git show "$tag:CHANGELOG.md") == *$'\n'"## [$version]"* ]] ||
  refuse "CHANGELOG.md has no section of version $version, which VERSION names"

work=$(mktemp -d)
trap 'git worktree remove --force "$work/tree"; rm -rf "$work"' EXIT
git worktree add --quiet --detach "$work/tree" "$tag"
rm -rf dist
mkdir dist
git archive --prefix="gemm_ladder-$version/" --output="dist/gemm_ladder-$version.tar.gz" "$tag"
"$python" -m pip --disable-pip-version-check wheel --quiet --no-deps --no-build-isolation \
  --wheel-dir "$work" "$@" "$work/tree"
PATH=$root/.venv/bin:$PATH "$python" -m auditwheel repair --wheel-dir dist "$work"/*.whl
"$python" scripts/wheel_licences.py dist/*.whl
(cd dist && sha256sum -- *.whl *.tar.gz >SHA256SUMS && cat SHA256SUMS)
