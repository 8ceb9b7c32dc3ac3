import type { IoLimits } from "@diskmesh/domain";
import { FAILURES_TRACE } from "./daemon-log.js";

/** A part of a disk on a device file of this host. */
export interface LocalFilePart {
  /** Number of the descriptor in the daemon, through which it opens the file. */
  readonly fd: number;
  readonly isBlockDevice: boolean;
  readonly offsetBytes: number;
  readonly sizeBytes: number;
}

/** A disk that is one device of another host, which is reached as NBD over TLS. */
export interface RemoteDevice {
  readonly host: string;
  readonly port: number;
  /** Identity of the pre-shared key. */
  readonly identity: string;
  /**
   * Name of the device's export while its machine does not restart. After a restart the daemon cannot connect again,
   * because a later flush would not cover writes that the restart has lost.
   */
  readonly exportName: string;
  /** Size of the disk. The export goes on to the end of the device's run. */
  readonly sizeBytes: number;
  /** Time in ms that I/O waits for a lost connection. */
  readonly ioTimeoutMs: number;
}

/** Names of a daemon's files, relative to the folder of the exports, in which the daemon runs. */
export interface DaemonFiles {
  readonly nbdSocket: string;
  readonly qmpSocket: string;
  /** Socket at which the agent serves the disk to the daemon while a part of it moves. */
  readonly detourSocket: string;
  readonly pidFile: string;
  /** Standard output and errors, and failed requests. */
  readonly log: string;
  /** Descriptor of a disk of several parts. */
  readonly descriptor: string;
  /** Folder of the pre-shared key, which the daemon reads once. */
  readonly keyFolder: string;
}

/** Short, because the path of a Unix socket may have 107 bytes. Session numbers are unique over all disks. */
export function daemonFiles(sessionNumber: number): DaemonFiles {
  const name = `session-${sessionNumber}`;
  return {
    nbdSocket: `${name}.nbd`,
    qmpSocket: `${name}.qmp`,
    detourSocket: `${name}.via`,
    pidFile: `${name}.pid`,
    log: `${name}.log`,
    descriptor: `${name}.vmdk`,
    keyFolder: `${name}.key`,
  };
}

/** Returns the session of a daemon's pid file; undefined for other names. */
export function sessionOfPidFile(name: string): number | undefined {
  const number = /^session-(\d{1,16})\.pid$/.exec(name)?.[1];
  return number === undefined ? undefined : Number(number);
}

/** Largest value that QEMU takes. */
const MAX_THROTTLE = 10 ** 15;

/** Name of the daemon's object that has the limits. */
export const LIMITS_OBJECT = "limits";

/**
 * Returns the limits as QEMU has them. All fields are set, because QEMU keeps the former value of an absent one. A burst
 * is the size of the bucket that fills at the limit's rate; without one, QEMU takes a tenth of a second.
 */
export function throttleLimits(limits: IoLimits | undefined): Readonly<Record<string, number>> {
  const {
    readIops = 0,
    writeIops = 0,
    readBytesPerSecond = 0,
    writeBytesPerSecond = 0,
    burstSeconds = 0,
  } = limits ?? {};
  const each = {
    "iops-read": readIops,
    "iops-write": writeIops,
    "bps-read": readBytesPerSecond,
    "bps-write": writeBytesPerSecond,
  };
  const bursts = Object.entries(each).map(
    ([name, rate]) => [`${name}-max`, Math.min(rate * burstSeconds, MAX_THROTTLE)] as const,
  );
  return { ...each, ...Object.fromEntries(bursts) };
}

/** Name of the node that the daemon exports. */
export const DISK_NODE = "disk";

/**
 * Returns the arguments of the qemu-storage-daemon that serves a disk over NBD. Threads carry its I/O, because a kill
 * then leaves nothing to the kernel. Its locks are off where they can be, because the session's lock excludes others.
 */
export function daemonArguments(
  disk: {
    readonly diskId: string;
    /** Parts of files of this host, or the one remote device. */
    readonly parts: readonly LocalFilePart[] | RemoteDevice;
    readonly readOnly: boolean;
    readonly limits?: IoLimits | undefined;
  },
  files: DaemonFiles,
): string[] {
  const limits = throttleLimits(disk.limits);
  return [
    ...("identity" in disk.parts ? ["--object", JSON.stringify(keyObject(disk.parts, files))] : []),
    ...["--object", JSON.stringify({ "qom-type": "throttle-group", id: LIMITS_OBJECT, limits })],
    ...["--blockdev", JSON.stringify(diskNode(disk.parts, files))],
    ...["--nbd-server", `addr.type=unix,addr.path=${files.nbdSocket},max-connections=16`],
    ...["", disk.diskId].flatMap((name) => ["--export", JSON.stringify(nbdExport(name, disk.readOnly))]),
    ...["--chardev", `socket,id=qmp,path=${files.qmpSocket},server=on,wait=off`, "--monitor", "chardev=qmp"],
    ...["--trace", `enable=${FAILURES_TRACE}`, "--pidfile", files.pidFile],
  ];
}

/** The disk is served under its own name and under the empty name, which clients ask for by default. */
function nbdExport(name: string, isReadOnly: boolean): object {
  return { type: "nbd", id: `nbd-${name}`, "node-name": DISK_NODE, name, writable: !isReadOnly };
}

/** The node on top has the limits, also when there are none, so that they can be set later. */
function diskNode(parts: readonly LocalFilePart[] | RemoteDevice, files: DaemonFiles): object {
  const file = "identity" in parts ? remoteNode(parts) : joinedNode(parts, files);
  return throttled(file);
}

function throttled(file: object | string): object {
  return { driver: "throttle", "node-name": DISK_NODE, "throttle-group": LIMITS_OBJECT, discard: "unmap", file };
}

/** Name of the node that leads through the agent. */
export const DETOUR_NODE = "detour";

/** Seconds that a daemon waits for a restarted agent, which may have to wait for its registry. */
const DETOUR_RECONNECT_SECONDS = 3_600;

/** Returns the node through which the bytes go while a part of the disk moves, and from then on. */
export function detourNode({ detourSocket: path }: DaemonFiles): object {
  const server = { type: "unix", path };
  const reconnect = { "reconnect-delay": DETOUR_RECONNECT_SECONDS };
  return { driver: "nbd", "node-name": DETOUR_NODE, server, ...reconnect, discard: "unmap" };
}

/** Returns the options with which the exported node is opened again on the detour. */
export function detouredDisk(): object {
  return throttled(DETOUR_NODE);
}

const KEY_OBJECT = "key";

function keyObject({ identity }: RemoteDevice, { keyFolder }: DaemonFiles): object {
  return { "qom-type": "tls-creds-psk", id: KEY_OBJECT, endpoint: "client", dir: keyFolder, username: identity };
}

function remoteNode({ host, port, exportName, sizeBytes: size, ioTimeoutMs }: RemoteDevice): object {
  const file = {
    driver: "nbd",
    server: { type: "inet", host, port: String(port) },
    export: exportName,
    "tls-creds": KEY_OBJECT,
    "reconnect-delay": Math.max(1, Math.round(ioTimeoutMs / 1_000)),
    discard: "unmap",
  };
  return { driver: "raw", size, discard: "unmap", file };
}

function joinedNode(parts: readonly LocalFilePart[], files: DaemonFiles): object {
  const [only] = parts;
  if (only !== undefined && parts.length === 1) {
    const { offsetBytes: offset, sizeBytes: size } = only;
    return { driver: "raw", offset, size, discard: "unmap", file: { ...fileNode(only), discard: "unmap" } };
  }
  // QEMU has no driver that concatenates nodes, but its vmdk driver concatenates files.
  const descriptor = { driver: "file", filename: files.descriptor, locking: "off" };
  return { driver: "vmdk", discard: "unmap", file: descriptor };
}

function fileNode({ fd, isBlockDevice }: LocalFilePart): object {
  const driver = isBlockDevice ? "host_device" : "file";
  return { driver, filename: `/proc/self/fd/${fd}`, aio: "threads", locking: "off" };
}

const SECTOR_BYTES = 512;

/** Returns why the parts cannot be one disk of a daemon; undefined when they can. */
export function whyNotConcatenated(
  parts: readonly { readonly offsetBytes: number; readonly sizeBytes: number; readonly fileName: string }[],
): string | undefined {
  if (parts.length === 1) return undefined;
  // Two nodes of one file would refuse each other.
  if (new Set(parts.map(({ fileName }) => fileName)).size < parts.length)
    return "two of its devices lie on the same file";
  const isOdd = ({ offsetBytes, sizeBytes }: { offsetBytes: number; sizeBytes: number }) =>
    offsetBytes % SECTOR_BYTES > 0 || sizeBytes % SECTOR_BYTES > 0;
  return parts.some(isOdd) ? `a device does not consist of whole sectors of ${SECTOR_BYTES} bytes` : undefined;
}

/** Returns the text of the vmdk descriptor that concatenates the parts. */
export function vmdkDescriptor(parts: readonly LocalFilePart[]): string {
  const extents = parts.map(
    ({ fd, offsetBytes, sizeBytes }) =>
      `RW ${sizeBytes / SECTOR_BYTES} FLAT "/proc/self/fd/${fd}" ${offsetBytes / SECTOR_BYTES}`,
  );
  return [
    "# Disk DescriptorFile",
    "version=1",
    "CID=fffffffe",
    "parentCID=ffffffff",
    'createType="monolithicFlat"',
    "",
    "# Extent description",
    ...extents,
    "",
    "# The Disk Data Base",
    "#DDB",
    'ddb.virtualHWVersion = "4"',
    'ddb.geometry.cylinders = "1"',
    'ddb.geometry.heads = "1"',
    'ddb.geometry.sectors = "1"',
    'ddb.adapterType = "ide"',
    "",
  ].join("\n");
}
