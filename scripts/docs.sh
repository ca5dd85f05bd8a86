#!/usr/bin/env bash
# Sets up, builds gemm_bench and the site: site/build/html, which Git ignores.
#   scripts/docs.sh           build it
#   scripts/docs.sh serve     build it, and serve it at http://127.0.0.1:8000
#   scripts/docs.sh test      build it, and test it in a browser without a window
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

scripts/setup.sh --site
case ${1-} in
  '' | serve | test) build site ;;
  *) status=2 die "docs.sh: unknown argument '$1': allowed are serve, test" ;;
esac
if [[ ${1-} == test ]]; then
  exec ctest --test-dir build -L site --output-on-failure
fi
say "site"
"$python" scripts/build_site.py
[[ ${1-} != serve ]] || exec "$python" -m http.server --bind 127.0.0.1 --directory site/build/html 8000
