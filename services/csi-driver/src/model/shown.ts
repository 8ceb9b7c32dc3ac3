/** Keys under which Kubernetes gives the names of a volume's claim. */
const [CLAIM_NAMESPACE, CLAIM_NAME] = ["csi.storage.k8s.io/pvc/namespace", "csi.storage.k8s.io/pvc/name"];

/** Names in Kubernetes, and nothing else that a message must not hold. */
const NAME = /^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/;

/** Returns the volume for a message, with its claim if the facts name one. */
export function shownVolume(volumeId: string, facts: Readonly<Record<string, unknown>> | undefined): string {
  const [namespace, name] = [facts?.[CLAIM_NAMESPACE], facts?.[CLAIM_NAME]].map((fact) => `${fact ?? ""}`);
  const isClaim = NAME.test(namespace ?? "") && NAME.test(name ?? "");
  return `volume ${volumeId}${isClaim ? ` (claim ${namespace}/${name})` : ""}`;
}

/** Returns a path for a message, with the pod that the kubelet made it for. */
export function shownPath(path: string): string {
  const pod = /\/pods\/([0-9a-f-]{36})\/volumes\//.exec(path)?.[1];
  return pod === undefined ? path : `${path}, of the pod with the UID ${pod}`;
}
