import { InvalidArgumentError } from "@diskmesh/domain";

/** File systems that a node can make, with the default first. */
const FILE_SYSTEMS = ["ext4", "xfs"] as const;
export type FileSystem = (typeof FILE_SYSTEMS)[number];

interface Mount {
  readonly fsType: string;
  readonly mountFlags: readonly string[];
  readonly volumeMountGroup: string;
}

/** A volume capability as CSI's protos have it. */
export interface Capability {
  readonly accessType?:
    | { readonly $case: "block"; readonly value: object }
    | { readonly $case: "mount"; readonly value: Mount }
    | undefined;
  readonly accessMode: { readonly mode: string } | undefined;
}

/** How a volume is used on a node. */
export interface Access {
  readonly isReadOnly: boolean;
  /** True when several paths of the node may use the volume at a time. */
  readonly isShared: boolean;
  /** Undefined for a block volume. */
  readonly mount: MountAccess | undefined;
}

export interface MountAccess {
  readonly fileSystem: FileSystem;
  readonly flags: readonly string[];
  /** Undefined to leave the owners of files alone. */
  readonly groupId: number | undefined;
}

const MODES = {
  SINGLE_NODE_WRITER: { isReadOnly: false, isShared: false },
  SINGLE_NODE_READER_ONLY: { isReadOnly: true, isShared: true },
  SINGLE_NODE_SINGLE_WRITER: { isReadOnly: false, isShared: false },
  SINGLE_NODE_MULTI_WRITER: { isReadOnly: false, isShared: true },
} as const;

/** Returns why the driver cannot provide a volume with this capability; undefined when it can. */
export function problemOf(capability: Capability): string | undefined {
  const { accessType, accessMode } = capability;
  if (accessType === undefined) return "the capability has no access type: give mount or block";
  const mode = accessMode?.mode ?? "UNKNOWN";
  if (mode === "UNKNOWN") return "the capability has no access mode";
  if (!Object.hasOwn(MODES, mode)) return `access mode ${mode} is not supported: a disk is attached to one node`;
  if (accessType.$case === "block") return undefined;
  const { fsType, volumeMountGroup } = accessType.value;
  if (fsType !== "" && !FILE_SYSTEMS.some((each) => each === fsType))
    return `file system ${JSON.stringify(fsType)} is not supported: use ${FILE_SYSTEMS.join(" or ")}`;
  if (!/^\d{0,10}$/.test(volumeMountGroup)) return "volume_mount_group is not a group ID";
  return undefined;
}

/** Parses a capability; throws InvalidArgumentError for one that the driver cannot provide. */
export function accessOf(capability: Capability | undefined, isReadOnly = false): Access {
  if (capability === undefined) throw new InvalidArgumentError("volume_capability is missing");
  const problem = problemOf(capability);
  if (problem !== undefined) throw new InvalidArgumentError(problem);
  const { accessType, accessMode } = capability;
  const mode = MODES[accessMode?.mode as keyof typeof MODES];
  const mount = accessType?.$case === "mount" ? accessType.value : undefined;
  return {
    isReadOnly: isReadOnly || mode.isReadOnly,
    isShared: mode.isShared,
    mount: mount && {
      fileSystem: FILE_SYSTEMS.find((each) => each === mount.fsType) ?? FILE_SYSTEMS[0],
      flags: mount.mountFlags,
      groupId: mount.volumeMountGroup === "" ? undefined : Number(mount.volumeMountGroup),
    },
  };
}
