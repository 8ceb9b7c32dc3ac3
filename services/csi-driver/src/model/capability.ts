import { InvalidArgumentError } from "@diskmesh/domain";

/** File systems that a node can make, with the default first. */
const FILE_SYSTEMS = ["ext4", "xfs"] as const;
export type FileSystem = (typeof FILE_SYSTEMS)[number];

/**
 * Mount options that a volume may have. Others are refused, because mount(8) and the file systems know options that reach
 * other devices and programs of the node, such as `loop=`, `helper=`, `journal_path=` and `logdev=`, or that lift `nosuid`
 * and `nodev`.
 */
const MOUNT_OPTIONS = new Set([
  ...["ro", "rw", "sync", "async", "dirsync", "exec", "noexec", "nosuid", "nodev", "nosymfollow", "iversion"],
  ...["atime", "noatime", "diratime", "nodiratime", "relatime", "strictatime", "lazytime", "nolazytime"],
  ...["discard", "nodiscard", "barrier", "nobarrier", "acl", "noacl", "user_xattr", "nouser_xattr"],
  ...[
    "commit=",
    "data=",
    "errors=remount-ro",
    "delalloc",
    "nodelalloc",
    "auto_da_alloc",
    "noauto_da_alloc",
    "dioread_lock",
  ],
  ...["dioread_nolock", "init_itable=", "noinit_itable", "max_batch_time=", "min_batch_time=", "stripe="],
  ...["journal_checksum", "inode_readahead_blks=", "quota", "noquota", "usrquota", "grpquota", "prjquota"],
  ...["uquota", "gquota", "pquota", "inode32", "inode64", "largeio", "nolargeio", "logbufs=", "logbsize="],
  ...["allocsize=", "swalloc", "wsync", "nouuid", "sunit=", "swidth="],
]);

/** The greatest ID of a group. chown(2) takes the next number for "unchanged". */
const MAX_GROUP_ID = 2 ** 32 - 2;

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
  const { fsType, mountFlags, volumeMountGroup } = accessType.value;
  if (fsType !== "" && !FILE_SYSTEMS.some((each) => each === fsType))
    return `file system ${JSON.stringify(fsType)} is not supported: use ${FILE_SYSTEMS.join(" or ")}`;
  if (!/^\d{0,10}$/.test(volumeMountGroup) || Number(volumeMountGroup) > MAX_GROUP_ID)
    return `volume_mount_group ${JSON.stringify(volumeMountGroup)} is not a group ID: give 0 to ${MAX_GROUP_ID}`;
  const option = mountFlags.flatMap((flags) => flags.split(",")).find((each) => !isMountOption(each));
  if (option !== undefined) return `mount option ${JSON.stringify(option)} is not one that a volume may have`;
  return undefined;
}

/** Accepts a name with a value, whose characters reach no other option and no path. */
function isMountOption(option: string): boolean {
  const [, name = "", value] = /^([a-z0-9_]+)(?:=([a-z0-9-]+))?$/.exec(option) ?? [];
  return MOUNT_OPTIONS.has(value === undefined ? name : `${name}=`) || MOUNT_OPTIONS.has(option);
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
