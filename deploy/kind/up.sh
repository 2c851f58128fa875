#!/usr/bin/env bash
# Holdfast on a Kubernetes in Docker (kind). Without arguments: builds both images, makes a cluster,
# installs two drivers and a PostgreSQL for trial, and says how to go on. Again: brings what is there up
# to date. With `chaos NAME…` or `demo`: makes another cluster, where nothing is installed, and plays
# the scenarios of `holdfast chaos list --cluster kubernetes` there, with emulated nodes that join it;
# needs no image, but `make setup`. Needs docker, kind and kubectl.
# The end of it: kind delete cluster --name holdfast; kind delete cluster --name holdfast-chaos
set -euo pipefail
cd "$(dirname "$0")/../.."
for tool in docker kind kubectl; do
  command -v "$tool" >/dev/null || { echo "$tool is not installed" >&2; exit 69; }
done

cluster() { # NAME, and more for `kind create cluster`; its kubeconfig is ours alone to read
  kind get clusters | grep -qx "$1" || kind create cluster --name "$@" --wait 120s
  (umask 077; kind get kubeconfig --name "$1" > "deploy/kind/kubeconfig-$1")
}

case "${1:-install}" in
  install) ;;
  chaos | demo)
    cluster holdfast-chaos
    at=(--cluster kubernetes --kubeconfig deploy/kind/kubeconfig-holdfast-chaos)
    case "$1" in
      demo) exec "${HOLDFAST:-.venv/bin/holdfast}" demo "${at[@]}" ;;
      chaos) shift; exec "${HOLDFAST:-.venv/bin/holdfast}" chaos run "${@:-all}" "${at[@]}" ;;
    esac ;;
  *) echo "usage: deploy/kind/up.sh [chaos [NAME…] | demo]" >&2; exit 2 ;;
esac

for image in driver executor; do
  docker build -f "deploy/docker/$image.Dockerfile" -t "holdfast-$image:0.1.0" .
done
cluster holdfast --config deploy/kind/cluster.yaml
kind load docker-image holdfast-driver:0.1.0 holdfast-executor:0.1.0 --name holdfast

k() { kubectl --context kind-holdfast "$@"; }
again=
! k -n holdfast get deployment holdfast-driver >/dev/null 2>&1 || again=yes
k apply -k deploy/kubernetes/overlays/trial-database
if ! k -n holdfast get secret holdfast-journal >/dev/null 2>&1; then
  k -n holdfast create secret generic holdfast-journal \
    --from-literal=url=postgresql://holdfast@holdfast-postgres.holdfast.svc/holdfast \
    --from-literal=password="$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')"
fi
k -n holdfast rollout status statefulset/holdfast-postgres --timeout=180s
# the new image has the tag of the one before, so that nothing else tells the drivers of it
[ -z "$again" ] || k -n holdfast rollout restart deployment/holdfast-driver
k -n holdfast rollout status deployment/holdfast-driver --timeout=180s

echo "Holdfast is up: kubectl --context kind-holdfast get tj"
echo "Tests and scenarios have a cluster of their own:"
echo "  deploy/kind/up.sh chaos node-lost"
echo "  HOLDFAST_TEST_KUBECONFIG=$PWD/deploy/kind/kubeconfig-holdfast-chaos make test"
