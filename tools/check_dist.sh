#!/usr/bin/env bash
# Installs each file of dist/ into an environment of its own and uses it there: simulate, report, and up with kubectl.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
unset PYTHONPATH FAIRWAY_COMPILED
for file in dist/*.tar.gz dist/*.whl; do
  name=$(basename "$file")
  home="$scratch/$name.env"
  "${PYTHON:-python3}" -m venv "$home"
  "$home/bin/python" -m pip install -q --disable-pip-version-check "$file" 2>/dev/null
  cd "$scratch"
  "$home/bin/fairway" simulate "$root/examples/01-two-teams" --out "$home/run" >"$home/said" 2>&1
  grep -q "8 of 8 hold" "$home/said"
  "$home/bin/fairway" report "$home/run" | grep -q "8 of 8 hold"
  case "$name" in *none-any* | *.tar.gz) wanted="pure Python" ;; *) wanted="compiled modules" ;; esac
  "$home/bin/python" -m fairway.compiled | grep -q "$wanted"
  "$home/bin/fairway" up --data "$home/data" --kubeconfig "$home/kubeconfig" --detach >"$home/up" 2>&1 || { cat "$home/up"; exit 1; }
  if command -v kubectl >/dev/null; then
    KUBECONFIG="$home/kubeconfig" kubectl get namespaces -o name | grep -q namespace/kube-system
  fi
  "$home/bin/fairway" down --data "$home/data" >/dev/null
  megabytes=$(du -sm "$home"/lib/python*/site-packages | cut -f1)
  echo "$name: simulate, report, up: well; $wanted; $megabytes MB of packages, pip among them"
  cd "$root"
done
