import { createHash } from "node:crypto";
import type { DynamicDisk } from "@diskmesh/api/director";
import { UsageError } from "../output/exit-codes.js";

/** Name of the driver in Kubernetes. */
const DRIVER = "csi.diskmesh";
/** Names of disks that the CSI driver makes. */
const OF_DRIVER = /^csi-[0-9a-f]{32}$/;

export interface Leak {
  /** Name of the disk, which is the volume's handle in Kubernetes. */
  readonly name: string;
  /** Name of the volume, as Kubernetes asked for it. */
  readonly volume: string;
  /** Node that has the disk: an instance, or `host/ID`; empty for none. */
  readonly node: string;
  readonly leak: string;
  /** Time of the disk's creation, if it is known. */
  readonly since: Date | undefined;
  /** Command that ends the leak. */
  readonly cure: string;
}

interface KubernetesObject {
  readonly kind?: string;
  readonly metadata?: { readonly name?: string };
  readonly spec?: {
    readonly csi?: { readonly driver?: string; readonly volumeHandle?: string };
    readonly source?: { readonly persistentVolumeName?: string };
  };
}

/** Parses what `kubectl get persistentvolumes,volumeattachments --output json` prints. */
export function parseObjects(text: string): readonly KubernetesObject[] {
  let items: unknown;
  try {
    items = JSON.parse(text)?.items;
  } catch {
    items = undefined;
  }
  if (Array.isArray(items)) return items;
  throw new UsageError(
    "the file is not a list: give what `kubectl get persistentvolumes,volumeattachments -o json` prints",
  );
}

/** Returns the handles of the driver's volumes by the volumes' names. */
function handlesIn(objects: readonly KubernetesObject[]): ReadonlyMap<string, string> {
  const handles = new Map<string, string>();
  for (const { kind, metadata, spec } of objects)
    if (kind === "PersistentVolume" && spec?.csi?.driver === DRIVER)
      handles.set(metadata?.name ?? "", spec.csi.volumeHandle ?? "");
  return handles;
}

/** Path at which a kubelet has a volume staged; its folder is the SHA-256 of the volume's handle. */
const STAGED = new RegExp(
  `\\S*/plugins/kubernetes\\.io/csi/${DRIVER.replace(".", "\\.")}/([0-9a-f]{64})/globalmount`,
  "g",
);

/** Finds file systems that a node has staged, but whose volume is unknown. `mounts` has the mountinfo of nodes. */
export function stagedLeaksIn(mounts: string, objects: readonly KubernetesObject[]): Leak[] {
  const known = new Set([...handlesIn(objects).values()].map((handle) => sha256(handle)));
  const lost = [...mounts.matchAll(STAGED)].filter(([, hash = ""]) => !known.has(hash));
  const paths = new Set(lost.map(([path]) => path));
  return [...paths].map((path) => {
    const leak = `no volume, staged at ${path}`;
    return { name: "", volume: "", node: "", leak, since: undefined, cure: `umount ${path}` };
  });
}

const sha256 = (text: string): string => createHash("sha256").update(text).digest("hex");

/** Returns whether a driver made the disk whose config names the cluster, or the deployment of its nodes. */
export function isOfCluster({ deployment, metadata }: DynamicDisk, cluster: string): boolean {
  return deployment === "" ? metadata?.csi_cluster === cluster : deployment === cluster;
}

/** Compares the disks of a cluster with the objects of Kubernetes. */
export function leaksIn(disks: readonly DynamicDisk[], objects: readonly KubernetesObject[]): Leak[] {
  const handles = handlesIn(objects);
  const attached = new Set(
    objects
      .filter(({ kind }) => kind === "VolumeAttachment")
      .map(({ spec }) => handles.get(spec?.source?.persistentVolumeName ?? "")),
  );
  const known = new Set(handles.values());
  const ofDriver = disks.filter(({ diskName }) => OF_DRIVER.test(diskName));
  const lost = [...handles].filter(([, handle]) => !ofDriver.some(({ diskName }) => diskName === handle));
  return [
    ...ofDriver.flatMap(({ diskName: name, instanceId, hostId, metadata, createTime: since, neverAttached }) => {
      const node = hostId === "" ? instanceId : `host/${hostId}`;
      const disk = { name, volume: String(metadata?.csi_name ?? ""), node, since };
      const detach = `diskmesh detach ${name}`;
      if (known.has(name))
        return node !== "" && !attached.has(name) ? [{ ...disk, leak: "no VolumeAttachment", cure: detach }] : [];
      const leak = `no PersistentVolume${neverAttached ? ", never attached" : ""}`;
      return [{ ...disk, leak, cure: node === "" ? `diskmesh delete ${name}` : detach }];
    }),
    ...lost.map(([volume, name]) => {
      const cure = `kubectl delete persistentvolume ${volume}`;
      return { name, volume, node: "", leak: "no disk", since: undefined, cure };
    }),
  ];
}
