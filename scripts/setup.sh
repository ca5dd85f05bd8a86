#!/usr/bin/env bash
# Installs what the build, the tests and the plots need: Debian/Ubuntu packages, and a Python
# environment in .venv with the exact versions of scripts/requirements.txt. Does nothing, quickly,
# when all is there. CUDA is never installed: the toolkit is used when it is found, else the
# simulator alone is built.
#   --bench: what scripts/bench.sh needs; without a GPU nothing is drawn, and no .venv is made
#   --site: also what the site, the slides and their tests need, in .venv-site
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

packages=(
  cmake ninja-build ccache g++ git python3 python3-venv
  libbenchmark-dev libgtest-dev libgmock-dev libcli11-dev libfmt-dev nlohmann-json3-dev
  libopenblas-pthread-dev libboost-context-dev
)
case ${1-} in
  '' | --bench) ;;
  --site)
    packages+=(libjs-chart.js pandoc)
    # Ubuntu's chromium is a snap, which containers and CI lack; its runners have Chrome.
    command -v chromium chromium-browser google-chrome >/dev/null || packages+=(chromium)
    ;;
  *) status=2 die "setup.sh: unknown argument '$1': allowed are --bench, --site" ;;
esac

install_packages() {
  command -v apt-get dpkg-query >/dev/null ||
    die "setup.sh knows Debian and Ubuntu; here, install the equivalents of: ${packages[*]}"
  local installed missing
  installed=$(dpkg-query --show --showformat='${db:Status-Status} ${Package}\n' \
    "${packages[@]}" 2>/dev/null | sed -n 's/^installed //p' || true)
  mapfile -t missing < <(comm -23 <(printf '%s\n' "${packages[@]}" | sort) <(sort <<<"$installed"))
  ((${#missing[@]})) || return 0

  local as_root=()
  if [[ $EUID -ne 0 ]]; then
    command -v sudo >/dev/null || die "not root and no sudo; as root: apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  say "updating the list of packages"
  "${as_root[@]}" apt-get update -qq
  local size  # "Need to get 31.4 MB of archives."
  size=$(apt-get install --assume-no --no-install-recommends "${missing[@]}" 2>/dev/null |
    sed -n 's/^Need to get \(.*\) of archives.*/, \1 to download/p' || true)
  say "installing ${#missing[@]} packages$size: ${missing[*]}"
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y \
    --no-install-recommends -o DPkg::Lock::Timeout=300 "${missing[@]}" >/dev/null
}

# An environment and the file that lists its packages. requirements.txt has plot_requirements.txt in it.
install_python() {
  local folder=$1 list=scripts/$2 stamp=$1/installed.sha256 wanted chosen=
  wanted=$(cat scripts/*requirements.txt | sha256sum)
  wanted=${wanted%% *}
  [[ ! -x $folder/bin/python ]] || ! grep -qE "^$wanted .*\b$2\b" "$stamp" 2>/dev/null || return 0

  for candidate in python3 /usr/bin/python3; do
    if "$candidate" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 10))' \
      2>/dev/null; then
      chosen=$candidate
      break
    fi
  done
  [[ -n $chosen ]] || die "no Python >= 3.10 with the venv module (python3-venv) was found"

  say "installing the Python packages of $list into $folder"
  "$chosen" -m venv --clear "$folder"
  "$folder/bin/python" -m pip install --quiet --disable-pip-version-check -r "$list"
  printf '%s %s\n' "$wanted" "$2 $(sed -n 's/^-r //p' "$list")" >"$stamp"
}

install_packages
case ${1-} in
  --bench) ! nvidia-smi -L &>/dev/null || install_python .venv plot_requirements.txt ;;
  *) install_python .venv requirements.txt ;;
esac
[[ ${1-} != --site ]] || install_python .venv-site site_requirements.txt
