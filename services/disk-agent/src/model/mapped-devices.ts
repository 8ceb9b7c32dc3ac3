import { type DeviceId, type DiskId, parseDeviceId, parseDiskId } from "@diskmesh/domain";

/** Unit of device-mapper's tables, and of the kernel's sizes and counters of block devices, whatever their blocks are. */
export const SECTOR_BYTES = 512;

/** Prefix of the UUIDs of all device-mapper devices that agents make. Rules of udev know them by it. */
const UUID_PREFIX = "DISKMESH-";

/** A device of device-mapper, by what its name and UUID say of it. */
export type MappedRole =
  | GuardRole
  /** A run of a device in a session. The session's I/O goes through it, and its wipe is the fence. */
  | {
      readonly kind: "leg";
      readonly sessionNumber: number;
      readonly offsetBytes: number;
      readonly deviceId: DeviceId;
    }
  | DiskRole
  | PartRole;

/** Claims a drive, so that nobody else opens it. */
export interface GuardRole {
  readonly kind: "guard";
  /** Number of the drive, such as `7:0`; with `isOnFile` that of a loop device which the agent has made of a file. */
  readonly drive: string;
  /** Number of the drive's appearance, because a later drive may get the same number; 0 before Linux 5.15. */
  readonly sequence: number;
  readonly isOnFile: boolean;
}

/** A disk on legs. */
export interface DiskRole {
  readonly kind: "disk";
  readonly sessionNumber: number;
  /** Tells apart the devices of a disk in one session: a former one may still be mounted. */
  readonly making: number;
  readonly diskId: DiskId;
}

/** A part of a disk while it moves: below the disk's device, and on the legs of the part's copies. */
export interface PartRole extends Omit<DiskRole, "kind"> {
  readonly kind: "part";
}

/** A device that the kernel has. */
export interface MappedDevice {
  readonly role: MappedRole;
  /** Major and minor number, such as `254:3`. */
  readonly number: string;
  /** Processes, mounts and other devices that have it open. */
  readonly openCount: number;
  readonly isSuspended: boolean;
  /** True when a table was loaded and not put in place. */
  readonly hasInactiveTable: boolean;
  /** Lines of the table in place, as dmsetup prints them; empty without one. */
  readonly table: string;
}

/** A device as it should be. */
export interface WantedDevice {
  readonly role: MappedRole;
  readonly table: string;
  readonly isReadOnly?: boolean;
}

/** Columns of `dmsetup info` that `parseMapped` takes, separated by blanks. */
export const INFO_COLUMNS = "uuid,name,major,minor,open,suspended,tables_loaded";

function keyOf(role: MappedRole): string {
  if (role.kind === "guard")
    return `${role.isOnFile ? "file" : "guard"}-${role.drive.replace(":", "_")}-${role.sequence}`;
  if (role.kind === "leg") return `leg-${role.sessionNumber}-${role.offsetBytes}-${role.deviceId}`;
  return `${role.kind}-${role.sessionNumber}-${role.making}-${role.diskId}`;
}

/** Returns the name of an agent's device. `owner` tells apart the agents of a machine. At most 124 of 127 characters. */
export function nameOf(owner: string, role: MappedRole): string {
  return `diskmesh-${owner}-${keyOf(role)}`;
}

export function uuidOf(owner: string, role: MappedRole): string {
  return `${UUID_PREFIX}${owner}-${keyOf(role)}`;
}

const PATTERNS = {
  guard: /^(guard|file)-(\d+_\d+)-(\d{1,16})$/,
  leg: /^leg-(\d{1,16})-(\d{1,16})-(.+)$/,
  disk: /^(?:disk|part)-(\d{1,16})-(\d{1,16})-(.+)$/,
};

/** Returns what the UUID of an agent's device says; undefined for a UUID of another agent, or of another program. */
export function parseUuid(owner: string, uuid: string): MappedRole | undefined {
  const prefix = `${UUID_PREFIX}${owner}-`;
  if (!uuid.startsWith(prefix)) return undefined;
  const key = uuid.slice(prefix.length);
  const guard = PATTERNS.guard.exec(key);
  if (guard !== null) {
    const [, kind, drive = "", sequence] = guard;
    return { kind: "guard", drive: drive.replace("_", ":"), sequence: Number(sequence), isOnFile: kind === "file" };
  }
  const [, session, second, id = ""] = PATTERNS.leg.exec(key) ?? PATTERNS.disk.exec(key) ?? [];
  if (session === undefined) return undefined;
  const sessionNumber = Number(session);
  try {
    if (key.startsWith("leg-"))
      return { kind: "leg", sessionNumber, offsetBytes: Number(second), deviceId: parseDeviceId(id) };
    const kind = key.startsWith("part-") ? "part" : "disk";
    return { kind, sessionNumber, making: Number(second), diskId: parseDiskId(id) };
  } catch {
    return undefined;
  }
}

/** Returns the session of a disk's device, of whatever agent, by its UUID; undefined for a UUID of another kind. */
export function sessionOfUuid(uuid: string): number | undefined {
  const [, session] = /^DISKMESH-[0-9a-f]+-disk-(\d{1,16})-/.exec(uuid) ?? [];
  return session === undefined ? undefined : Number(session);
}

/** Reads the output of `dmsetup info` with INFO_COLUMNS and of `dmsetup table`. Leaves out what is not the agent's. */
export function parseMapped(owner: string, info: string, tables: string): readonly MappedDevice[] {
  const tableOf = new Map<string, string[]>();
  for (const line of tables.split("\n")) {
    const [, name, segment = ""] = /^(\S+): ?(.*)$/.exec(line) ?? [];
    if (name !== undefined) tableOf.set(name, [...(tableOf.get(name) ?? []), segment.trim()]);
  }
  return info.split("\n").flatMap((line): MappedDevice[] => {
    const [uuid = "", name = "", major, minor, open, suspended, loaded = ""] = line.trim().split(" ");
    const role = parseUuid(owner, uuid);
    if (role === undefined) return [];
    return [
      {
        role,
        number: `${major}:${minor}`,
        openCount: Number(open),
        isSuspended: suspended === "Suspended",
        hasInactiveTable: loaded === "Inactive" || loaded === "Both",
        table: (tableOf.get(name) ?? []).join("\n").trim(),
      },
    ];
  });
}

/** Path of a device of device-mapper that the kernel itself makes, with udev and without. */
export function pathOf(number: string): string {
  return `/dev/dm-${number.split(":")[1]}`;
}

/** A range of another device that is a part of a device. */
export interface Segment {
  /** Number of the other device, such as `254:3`. */
  readonly on: string;
  readonly offsetBytes: number;
  readonly sizeBytes: number;
}

/**
 * Returns the table of a device that consists of these parts, whose places are multiples of 512. Parts that follow each other
 * on the other device are one, because a part of a disk that was split has the same bytes.
 */
export function linearTable(segments: readonly Segment[]): string {
  let startBytes = 0;
  const joined: Segment[] = [];
  for (const segment of segments) {
    const last = joined.at(-1);
    if (last?.on === segment.on && last.offsetBytes + last.sizeBytes === segment.offsetBytes)
      joined[joined.length - 1] = { ...last, sizeBytes: last.sizeBytes + segment.sizeBytes };
    else joined.push(segment);
  }
  const lines = joined.map(({ on, offsetBytes, sizeBytes }) => {
    const line = `${sectors(startBytes)} ${sectors(sizeBytes)} linear ${on} ${sectors(offsetBytes)}`;
    startBytes += sizeBytes;
    return line;
  });
  return lines.join("\n");
}

/** Returns whether a table can name this number of bytes. */
export function isWholeSectors(sizeBytes: number): boolean {
  return sizeBytes % SECTOR_BYTES === 0;
}

function sectors(sizeBytes: number): number {
  return Math.floor(sizeBytes / SECTOR_BYTES);
}

/** Returns the size in bytes of a device with this table. */
export function sizeOfTable(table: string): number {
  const [start = 0, size = 0] = (table.split("\n").at(-1) ?? "").split(" ").map(Number);
  return (start + size) * SECTOR_BYTES;
}

/** A device of which a line of a table consists, or to which it writes. */
interface Below {
  readonly on: string;
  readonly startSectors: string;
}

/** Returns the devices of a line of a table: one, or both legs of a mirror. */
function belowOf(line: string): readonly Below[] {
  const [, one = "", start = ""] = /^\d+ \d+ linear (\d+:\d+) (\d+)$/.exec(line) ?? [];
  if (one !== "") return [{ on: one, startSectors: start }];
  const [, first = "", at = "", second = "", then = ""] =
    /^\d+ \d+ mirror .* 2 (\d+:\d+) (\d+) (\d+:\d+) (\d+)(?: \d+ \w+)*$/.exec(line) ?? [];
  if (first === "") return [];
  return [
    { on: first, startSectors: at },
    { on: second, startSectors: then },
  ];
}

type Stacked = Pick<MappedDevice, "number" | "table">;

function isOwn({ number }: Pick<Stacked, "number">, { on }: Below, kept: readonly string[]): boolean {
  return on.split(":")[0] === number.split(":")[0] && !kept.includes(on);
}

/**
 * Returns whether a part of the device lies on another driver's device than device-mapper's, such as a disk's part on another
 * host, or on one of the devices `kept`.
 */
export function isOnOthers(device: Stacked, kept: readonly string[] = []): boolean {
  return device.table.split("\n").some((line) => belowOf(line).some((below) => !isOwn(device, below, kept)));
}

/** Returns the table of the device with errors in place of what lies on devices of device-mapper that are not kept. */
export function withoutOwn(device: Stacked, kept: readonly string[] = []): string {
  const lines = device.table.split("\n").map((line) => {
    const below = belowOf(line);
    const other = below.find((each) => !isOwn(device, each, kept));
    if (below.length === 0 || (below.length === 1 && other !== undefined)) return line;
    const [start, size] = line.split(" ");
    return other === undefined ? `${start} ${size} error` : `${start} ${size} linear ${other.on} ${other.startSectors}`;
  });
  return lines.join("\n");
}

/** Returns whether the device was wiped: all of its I/O fails. */
export function isWiped({ table }: Pick<MappedDevice, "table">): boolean {
  return table.split("\n").every((line) => /^\d+ \d+ error$/.test(line));
}

/**
 * Returns what brings a device from what the kernel has to what should be: the arguments of the calls of dmsetup to make
 * before the next look. Empty when nothing is to be done. The table is exchanged by the resume alone, so that a call that is
 * missing after the load has changed nothing.
 */
export function stepsTo(
  owner: string,
  found: MappedDevice | undefined,
  { role, table, isReadOnly = false }: WantedDevice,
): readonly (readonly string[])[] {
  const name = nameOf(owner, role);
  const content = contentOf(table, isReadOnly);
  if (found === undefined) return [["create", "-v", name, "--uuid", uuidOf(owner, role), ...content]];
  if (found.hasInactiveTable || found.isSuspended) return settlingSteps(owner, found);
  if (found.table === table) return [];
  return [["load", name, ...content], resume(name)];
}

function contentOf(table: string, isReadOnly: boolean): readonly string[] {
  return [...(isReadOnly ? ["--readonly"] : []), "--table", table];
}

/** Returns what ends a change of a device's table that a former life of the agent has begun: its inactive table is dropped. */
export function settlingSteps(owner: string, found: MappedDevice): readonly (readonly string[])[] {
  const name = nameOf(owner, found.role);
  // A device without a table in place has never been used. It stays suspended until it gets one.
  if (found.table === "") return [["remove", name]];
  return [...(found.hasInactiveTable ? [["clear", name]] : []), ...(found.isSuspended ? [resume(name)] : [])];
}

/** A change of a table neither writes back nor freezes a file system, which may hang. */
function resume(name: string): readonly string[] {
  return ["resume", "--noflush", "--nolockfs", name];
}

/** Returns the number of a device from what its creation has printed. */
export function createdNumber(output: string): string | undefined {
  const [, major, minor] = /^Major, minor:\s+(\d+), (\d+)$/m.exec(output) ?? [];
  return minor === undefined ? undefined : `${major}:${minor}`;
}

/** Returns the number of events of a device from what `dmsetup status -v` has printed. */
export function eventsOf(output: string): number {
  return Number(/^Event number:\s+(\d+)$/m.exec(output)?.[1] ?? 0);
}

/** Returns the numbers of the devices of device-mapper on which the device lies, without those that are kept. */
export function numbersBelow(device: Stacked, kept: readonly string[] = []): readonly string[] {
  const below = device.table.split("\n").flatMap(belowOf);
  return [...new Set(below.filter((each) => isOwn(device, each, kept)).map(({ on }) => on))];
}

/** Returns the call of dmsetup after which no I/O of the device is in flight, and all later I/O waits for a resume. */
export function holdStep(owner: string, role: MappedRole): readonly string[] {
  return ["suspend", "--noflush", "--nolockfs", nameOf(owner, role)];
}

export interface CutOptions {
  readonly isReadOnly?: boolean;
  /** Numbers of devices below that were cut themselves, and on which the device stays. */
  readonly kept?: readonly string[];
}

/**
 * Returns the calls of dmsetup that take a held device off the agent's own devices. A disk with parts on other hosts keeps
 * those: nothing has flushed them, and a device without a table would acknowledge flushes.
 */
export function cutSteps(
  owner: string,
  found: MappedDevice,
  { isReadOnly = false, kept = [] }: CutOptions = {},
): readonly (readonly string[])[] {
  const name = nameOf(owner, found.role);
  if (!isOnOthers(found, kept)) return [["wipe_table", "--noflush", "--nolockfs", name]];
  const table = withoutOwn(found, kept);
  return table === found.table ? [] : [["load", name, ...contentOf(table, isReadOnly)], resume(name)];
}

/** Returns the call of dmsetup that removes a device; a deferred one is removed with its last user. */
export function removeStep(owner: string, role: MappedRole, { isDeferred = false } = {}): readonly string[] {
  return ["remove", ...(isDeferred ? ["--deferred"] : []), nameOf(owner, role)];
}

/** Returns the highest making of any disk's or part's device; 0 for none. */
export function lastMaking(found: readonly MappedDevice[]): number {
  return Math.max(0, ...found.map(({ role }) => ("making" in role ? role.making : 0)));
}

/** Returns the device that was made last of a disk in a session. */
export function lastDeviceOf(
  found: readonly MappedDevice[],
  diskId: DiskId,
  sessionNumber: number,
): (MappedDevice & { readonly role: DiskRole }) | undefined {
  const devices = found.flatMap((device) => {
    const { role } = device;
    return role.kind === "disk" && role.diskId === diskId && role.sessionNumber === sessionNumber
      ? [{ ...device, role }]
      : [];
  });
  return devices.sort((a, b) => b.role.making - a.role.making)[0];
}

/** Order in which an agent's devices end: the fence first, and each one before those on which it lies. */
export function inOrderOfEnd(found: readonly MappedDevice[]): {
  readonly wipe: readonly MappedRole[];
  readonly remove: readonly MappedRole[];
} {
  const of = (kind: MappedRole["kind"]) => found.map(({ role }) => role).filter((role) => role.kind === kind);
  const wipe = [...of("leg"), ...of("part"), ...of("disk")];
  return { wipe, remove: [...of("disk"), ...of("part"), ...of("leg"), ...of("guard")] };
}
