import type { DynamicDisk } from "@diskmesh/api/director";
import { UsageError } from "./exit-codes.js";

/** Name of the driver in Kubernetes. */
const DRIVER = "csi.diskmesh";
/** Names of disks that the CSI driver makes. */
const OF_DRIVER = /^csi-[0-9a-f]{32}$/;

export interface Leak {
  /** Name of the disk, which is the volume's handle in Kubernetes. */
  readonly name: string;
  /** Name of the volume, as Kubernetes asked for it. */
  readonly volume: string;
  /** Instance that has the disk; empty for none. */
  readonly instance: string;
  readonly leak: string;
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

/** Compares the disks of a cluster's deployment with the objects of Kubernetes. */
export function leaksIn(disks: readonly DynamicDisk[], objects: readonly KubernetesObject[]): Leak[] {
  const handles = new Map<string, string>();
  for (const { kind, metadata, spec } of objects)
    if (kind === "PersistentVolume" && spec?.csi?.driver === DRIVER)
      handles.set(metadata?.name ?? "", spec.csi.volumeHandle ?? "");
  const attached = new Set(
    objects
      .filter(({ kind }) => kind === "VolumeAttachment")
      .map(({ spec }) => handles.get(spec?.source?.persistentVolumeName ?? "")),
  );
  const known = new Set(handles.values());
  const ofDriver = disks.filter(({ diskName }) => OF_DRIVER.test(diskName));
  const lost = [...handles].filter(([, handle]) => !ofDriver.some(({ diskName }) => diskName === handle));
  return [
    ...ofDriver.flatMap(({ diskName: name, instanceId: instance, metadata }) => {
      const volume = String(metadata?.csi_name ?? "");
      if (!known.has(name)) return [{ name, volume, instance, leak: "no PersistentVolume" }];
      return instance !== "" && !attached.has(name) ? [{ name, volume, instance, leak: "no VolumeAttachment" }] : [];
    }),
    ...lost.map(([volume, name]) => ({ name, volume, instance: "", leak: "no disk" })),
  ];
}
