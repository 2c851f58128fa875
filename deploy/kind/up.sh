#!/usr/bin/env bash
# Holdfast on a Kubernetes in Docker (kind): builds both images, makes the cluster, installs two drivers
# and a PostgreSQL for trial, and says how to go on. Again: brings what is there up to date.
# Needs docker, kind and kubectl. The end of it: kind delete cluster --name holdfast
set -euo pipefail
cd "$(dirname "$0")/../.."
for tool in docker kind kubectl; do
  command -v "$tool" >/dev/null || { echo "$tool is not installed" >&2; exit 69; }
done

for image in driver executor; do
  docker build -f "deploy/docker/$image.Dockerfile" -t "holdfast-$image:0.1.0" .
done
kind get clusters | grep -qx holdfast || kind create cluster --config deploy/kind/cluster.yaml --wait 120s
kind load docker-image holdfast-driver:0.1.0 holdfast-executor:0.1.0 --name holdfast

k() { kubectl --context kind-holdfast "$@"; }
k apply -k deploy/kubernetes/overlays/trial-database
if ! k -n holdfast get secret holdfast-journal >/dev/null 2>&1; then
  k -n holdfast create secret generic holdfast-journal \
    --from-literal=url=postgresql://holdfast@holdfast-postgres.holdfast.svc/holdfast \
    --from-literal=password="$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')"
fi
k -n holdfast rollout status statefulset/holdfast-postgres --timeout=180s
k -n holdfast rollout status deployment/holdfast-driver --timeout=180s

kind get kubeconfig --name holdfast > deploy/kind/kubeconfig
chmod 600 deploy/kind/kubeconfig
echo "Holdfast is up. Tests that need kubectl alone run on it, while its own drivers rest:"
echo "  kubectl --context kind-holdfast -n holdfast scale deployment/holdfast-driver --replicas=0"
echo "  HOLDFAST_TEST_KUBECONFIG=$PWD/deploy/kind/kubeconfig make test"
