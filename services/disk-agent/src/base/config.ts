import { existsSync, readFileSync, statSync } from "node:fs";
import {
  hostPortOf,
  MIB_BYTES,
  messageOf,
  parseDeviceId,
  parseDevicePath,
  parseHostId,
  parseId,
  parseName,
  parseOptionalName,
} from "@diskmesh/domain";
import { driversConfig } from "@diskmesh/driver/host";
import {
  addressesConfig,
  durationMsConfig,
  groupConfig,
  hostPortConfig,
  listenConfig,
  natsConfig,
  pathConfig,
  privateFileConfig,
  serviceConfig,
  tlsConfig,
  withFacts,
} from "@diskmesh/service";
import { problemsOfTlsFiles, type TlsFiles } from "@diskmesh/tls";
import * as z from "zod";
import { parseGlob } from "./glob.js";
import { parseToken } from "./join-token.js";

/** Returns a schema that calls a parser of the domain; the error of the parser becomes the issue. */
function parsed<Narrow>(parse: (value: string) => Narrow, schema: z.ZodType<string> = z.string()) {
  return schema.transform((value, context) => {
    try {
      return parse(value);
    } catch (error) {
      context.addIssue({ code: "custom", message: messageOf(error) });
      return z.NEVER;
    }
  });
}

/** Returns the schema of a name that is empty by default. */
const optionalName = (field: string) => parsed((value) => parseOptionalName(field, value) ?? "").default("");

const sizeBytes = z.int().min(1).max(Number.MAX_SAFE_INTEGER);
const blockSizeBytes = z.int().min(512).max(MIB_BYTES).default(4096).describe("Smallest unit of reads and writes.");
const pool = optionalName("pool").describe("Pool of the device; disks request devices of a pool.");

const deviceKeys = z.strictObject({
  deviceId: parsed(parseDeviceId).describe("Id of the device in the registry."),
  path: parsed(parseDevicePath, pathConfig).describe("A regular file or a block device."),
  offsetBytes: z.int().min(0).max(Number.MAX_SAFE_INTEGER).default(0).describe("Start of the device in the file."),
  sizeBytes: sizeBytes.optional().describe("Size of the device; the rest of the file when absent."),
  blockSizeBytes,
  serialNumber: z
    .string()
    .max(255)
    .default("")
    .describe(
      "Expected serial number: a drive with another serial number is refused. No effect on drives without a serial number.",
    ),
  pool,
});

type DeviceEntry = z.output<typeof deviceKeys>;

const device = withFacts(deviceKeys, { checkFiles: problemsOfDeviceFile });

/**
 * Returns the problems of the device's file. Returns none for an unreadable file, because it may exist when the agent
 * runs.
 */
function problemsOfDeviceFile({ path, offsetBytes, sizeBytes }: DeviceEntry): string[] {
  const size = sizeBytes === undefined ? fileSize(path) : 0n;
  if (size - BigInt(offsetBytes) <= BigInt(Number.MAX_SAFE_INTEGER)) return [];
  return [`${JSON.stringify(path)} has ${size} bytes, but a device may have at most 2^53 - 1: give sizeBytes`];
}

function fileSize(path: string): bigint {
  try {
    return statSync(path, { bigint: true }).size;
  } catch {
    return 0n;
  }
}

const devices = z
  .array(device)
  .max(4_096)
  .superRefine((entries, context) => {
    const ids = new Set<string>();
    for (const [index, { deviceId }] of entries.entries()) {
      if (ids.has(deviceId))
        context.addIssue({ code: "custom", path: [index, "deviceId"], message: `${deviceId} is used twice` });
      ids.add(deviceId);
    }
    for (const { index, entry, other } of overlaps(entries))
      context.addIssue({ code: "custom", path: [index], message: `overlaps ${other.deviceId} on ${entry.path}` });
  });

interface Placed {
  readonly index: number;
  readonly entry: DeviceEntry;
}

/**
 * Yields each device that overlaps an earlier device on its path, once. Sorts the devices first, because comparing all
 * pairs of thousands of devices would take minutes.
 */
function* overlaps(entries: readonly DeviceEntry[]): Generator<Placed & { readonly other: DeviceEntry }> {
  const placed = entries.map((entry, index): Placed => ({ index, entry }));
  placed.sort((a, b) => compare(a.entry.path, b.entry.path) || a.entry.offsetBytes - b.entry.offsetBytes);
  let reaching: DeviceEntry | undefined;
  for (const { index, entry } of placed) {
    if (reaching?.path !== entry.path) reaching = undefined;
    const isShared = reaching !== undefined && entry.offsetBytes < endOf(reaching);
    if (reaching !== undefined && isShared && reaching.deviceId !== entry.deviceId)
      yield { index, entry, other: reaching };
    if (reaching === undefined || endOf(entry) > endOf(reaching)) reaching = entry;
  }
}

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

function endOf({ offsetBytes, sizeBytes = Number.POSITIVE_INFINITY }: DeviceEntry): number {
  return offsetBytes + sizeBytes;
}

const poolRule = z
  .strictObject({
    pool,
    minSizeBytes: sizeBytes.default(1).describe("Smallest file of this pool."),
    maxSizeBytes: sizeBytes.default(Number.MAX_SAFE_INTEGER).describe("Largest file of this pool."),
    blockSizeBytes,
    deviceSizeBytes: sizeBytes
      .optional()
      .describe("Cuts the file into as many devices of this size as it holds; one device when absent."),
  })
  .refine(
    ({ minSizeBytes, maxSizeBytes }) => minSizeBytes <= maxSizeBytes,
    "minSizeBytes must not be above maxSizeBytes",
  )
  .refine(
    ({ deviceSizeBytes = 0, blockSizeBytes }) => deviceSizeBytes % blockSizeBytes === 0,
    "deviceSizeBytes must be a multiple of blockSizeBytes",
  );

const discoveryRule = z.strictObject({
  glob: parsed(parseGlob).describe(
    'An absolute path, with `*`, `?`, `[...]` and `{...}` in any of its parts, e.g. "/dev/disk/by-id/{ata,nvme}-*".',
  ),
  idPrefix: parsed((value) => parseId("idPrefix", value))
    .optional()
    .describe("Prefix of the found devices' ids, which end with the file's name; the host id when absent."),
  pools: z
    .array(poolRule)
    .min(1)
    .max(100)
    .default([poolRule.parse({})])
    .describe("Pools by file size: the first match counts, and a file without a match is not used."),
});

const joinKeys = z.strictObject({
  address: addressesConfig.describe("Address at which hosts join (`join.listen` of the registry), or a list."),
  tokenFile: privateFileConfig.describe("File with a token of `diskmesh join-token create`."),
});

/** Returns the problems of the files of `tls`, or of the token that a start would get them by. */
function problemsOfIdentity(files: TlsFiles, config: unknown): readonly string[] {
  const join = joinKeys.safeParse((config as { join?: unknown }).join);
  if (!join.success || existsSync(files.certFile)) return problemsOfTlsFiles(files, Date.now());
  try {
    parseToken(readFileSync(join.data.tokenFile, "utf8"));
    return [];
  } catch (error) {
    return [`${files.certFile} does not exist, and join.tokenFile gets none: ${messageOf(error)}`];
  }
}

const anywhere = ["0.0.0.0", "::"];

const QEMU_IS_GONE =
  '"qemu" was an engine of 0.1.0: write "auto", which chooses "kernel" where the host can, else "node"';

export const configSchema = z
  .strictObject({
    ...serviceConfig,
    hostId: parsed(parseHostId).describe("Id of the host, as in the agent's certificate."),
    az: parsed((value) => parseName("az", value)).describe("Availability zone of the host."),
    rack: optionalName("rack").describe("Rack of the host: devices of several racks fail less often together."),
    listen: listenConfig,
    advertisedAddress: hostPortConfig
      .optional()
      .describe('Address at which other hosts reach this agent, as "address:port"; `listen` when absent.'),
    blockListen: listenConfig
      .optional()
      .describe(
        "Listen address for the hosts to which disks on this host's devices are published: NBD over TLS with a key per session. When absent, the host of `listen` with port 0. With port 0 the system chooses a port once, and the agent keeps it.",
      ),
    storageNetwork: z
      .enum(["wireguard", "trusted"])
      .optional()
      .describe(
        'With engine "kernel": disks of this engine reach parts on other hosts by NVMe/TCP where both hosts have the same word here. "wireguard": the agent sets up WireGuard between the hosts of present sessions, and lets only processes of root reach the port; it needs ip, wg and nft. "trusted": no encryption or authentication; every machine and process that reaches the port can read and write what is published. When absent, or where the hosts differ, `node` carries such disks, over TLS.',
      ),
    wireguardPort: z
      .int()
      .min(1)
      .max(65_535)
      .default(51_820)
      .describe(
        "UDP port of WireGuard, at all addresses of the host. Other hosts reach it at the host of `blockListen`, `advertisedAddress` or `listen`.",
      ),
    nvmeListen: listenConfig
      .optional()
      .describe(
        "Listen address of NVMe/TCP, whose host is an IP address. When absent, the host of `blockListen` or `listen`, with port 4420. With `wireguard` only its port counts: the address is inside WireGuard.",
      ),
    tls: withFacts(tlsConfig, { checkFiles: problemsOfIdentity }),
    join: joinKeys
      .optional()
      .describe(
        "Gets the files of `tls` by a token when the agent starts without `tls.certFile`. A certificate that came so renews itself.",
      ),
    registry: z
      .strictObject({
        address: addressesConfig.describe(
          "Address of the registry, or a list of the addresses of all registries, of which one leads.",
        ),
      })
      .describe("The registry that this agent obeys."),
    baseFolder: pathConfig.describe(
      "Folder of the cache, the exports' sockets and their links. One agent at a time uses it.",
    ),
    requireFileLocks: z
      .boolean()
      .default(true)
      .describe(
        "False allows device files and a base folder on a file system without locks. Then nothing prevents a second agent, or another program, from using the same bytes.",
      ),
    devices: withFacts(
      devices
        .default([])
        .describe("Device files listed one by one. A reload adds new ones; others change at the next start."),
      { reloads: true },
    ),
    discovery: groupConfig("Discovery of device files.", {
      rules: z.array(discoveryRule).max(100).default([]).describe("Rules that select the files that are devices."),
    }),
    nats: natsConfig
      .optional()
      .describe("NATS servers that director and agent communicate over; absent when the host is no VM of a director."),
    engine: z
      .enum(["auto", "node", "kernel"], { error: ({ input }) => (input === "qemu" ? QEMU_IS_GONE : undefined) })
      .default("auto")
      .describe(
        'Carrier of the disks\' bytes. "kernel": device-mapper, for disks on this host\'s own devices and, with `storageNetwork`, on those of others; `node` carries the rest. It is faster, outlives the agent, and needs root and dmsetup. "node": the agent itself, which needs no other program. "auto": "kernel" where the host can, else "node".',
      ),
    remoteIoTimeoutMs: durationMsConfig
      .default(30_000)
      .describe("Time that I/O waits for an unavailable device or its host before it fails with EIO."),
    maxEraseBytesPerSecond: withFacts(
      z
        .int()
        .min(MIB_BYTES)
        .max(Number.MAX_SAFE_INTEGER)
        .default(256 * MIB_BYTES)
        .describe(
          "Maximum rate of all erases of the host together. An erase keeps to a tenth of it while a disk on the same drive is in use. A reload changes it for running erases.",
        ),
      { reloads: true },
    ),
    drivers: driversConfig.describe("Vendors' drivers whose methods this host offers."),
  })
  .refine(({ listen, advertisedAddress }) => advertisedAddress !== undefined || !anywhere.includes(listen.host), {
    path: ["advertisedAddress"],
    message: "needed, because other hosts cannot reach the listen address",
  });

export type AgentConfig = z.output<typeof configSchema>;

/** Returns the host at which holders on other hosts reach this host's devices. */
export function blockHostOf({
  blockListen,
  listen,
  advertisedAddress,
}: Pick<AgentConfig, "blockListen" | "listen" | "advertisedAddress">): string {
  if (blockListen !== undefined && !anywhere.includes(blockListen.host)) return blockListen.host;
  return (advertisedAddress === undefined ? undefined : hostPortOf(advertisedAddress)?.host) ?? listen.host;
}
