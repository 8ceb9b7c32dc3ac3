import { pathText } from "@diskmesh/service";
import { stringify } from "yaml";
import { configKeys } from "./services.js";

const tls = (name: string) => ({
  caFile: "certs/ca.pem",
  certFile: `certs/${name}.pem`,
  keyFile: `certs/${name}-key.pem`,
});
const METRICS = { listen: { host: "127.0.0.1", port: 9464 } };

/** Values that an operator must set, and values that most operators want to set. */
const VALUES: Readonly<Record<string, object>> = {
  director: {
    name: "diskmesh",
    listen: { host: "0.0.0.0", port: 7010 },
    advertisedAddress: "director-1.example.com:7010",
    tls: tls("director"),
    tablet: { storageFile: "secrets/director-database", name: "director" },
    dispatcher: { address: ["dispatcher-1.example.com:7020", "dispatcher-2.example.com:7020"] },
    nats: { servers: ["nats-1.example.com:4222", "nats-2.example.com:4222", "nats-3.example.com:4222"] },
    nodes: { registries: [{ address: ["registry-1.example.com:7030", "registry-2.example.com:7030"] }] },
    dynamicDisks: { enabled: true },
    http: {
      listen: { host: "0.0.0.0", port: 25555 },
      users: [{ name: "admin", passwordHashFile: "secrets/admin-password-hash", scopes: ["bosh.admin"] }],
    },
    stemcells: { folder: "/var/lib/diskmesh/stemcells" },
    log: { level: "info" },
    metrics: METRICS,
    health: { listen: { host: "127.0.0.1", port: 7011 } },
  },
  "cpi-dispatcher": {
    listen: { host: "0.0.0.0", port: 7020 },
    tls: tls("cpi-dispatcher"),
    registry: { address: ["registry-1.example.com:7030", "registry-2.example.com:7030"] },
    cpis: [
      { name: "fleet", type: "fleet" },
      { name: "cloud", type: "openstack", propertiesFile: "secrets/cloud-properties.yaml" },
    ],
    executables: { runFolder: "/var/lib/diskmesh/cpi-dispatcher", callTimeoutMs: 600_000 },
    log: { level: "info" },
    metrics: METRICS,
    health: { listen: { host: "127.0.0.1", port: 7021 } },
  },
  "disk-registry": {
    listen: { host: "0.0.0.0", port: 7030 },
    advertisedAddress: "registry-1.example.com:7030",
    tls: tls("disk-registry"),
    tablet: { storageFile: "secrets/registry-database", name: "registry" },
    heartbeat: { intervalMs: 2_000, timeoutMs: 10_000 },
    log: { level: "info" },
    metrics: METRICS,
    health: { listen: { host: "127.0.0.1", port: 7031 } },
  },
  "disk-agent": {
    hostId: "host-1",
    az: "z1",
    rack: "rack-a",
    listen: { host: "0.0.0.0", port: 7040 },
    blockListen: { host: "0.0.0.0", port: 7041 },
    advertisedAddress: "host-1.example.com:7040",
    tls: tls("disk-agent-host-1"),
    registry: { address: ["registry-1.example.com:7030", "registry-2.example.com:7030"] },
    baseFolder: "/var/lib/diskmesh/disk-agent",
    devices: [{ deviceId: "host-1-ssd-1", path: "/dev/disk/by-id/nvme-example-1", pool: "ssd" }],
    discovery: {
      rules: [{ glob: "/dev/disk/by-id/ata-*", pools: [{ pool: "hdd", minSizeBytes: 1_000_000_000_000 }] }],
    },
    nats: { servers: ["nats-1.example.com:4222", "nats-2.example.com:4222", "nats-3.example.com:4222"] },
    log: { level: "info" },
    metrics: METRICS,
    health: { listen: { host: "127.0.0.1", port: 7041 } },
  },
  "csi-driver": {
    maxVolumesPerNode: 64,
    controller: {
      director: { address: ["director-1.example.com:7010", "director-2.example.com:7010"] },
      tls: tls("csi"),
      cluster: "kubernetes",
      azs: ["z1", "z2"],
    },
    node: { hostId: "host-1", az: "z1" },
    log: { level: "info" },
    metrics: METRICS,
    health: { listen: { host: "127.0.0.1", port: 7051 } },
  },
};

const WIDTH = 118;

/** Returns deploy/examples/SERVICE.yaml: each key with its description from the code. */
export function exampleOf(service: string): string {
  const meanings = new Map(configKeys(service).map(({ path, facts }) => [pathText(path), facts.description ?? ""]));
  const head = [
    `# A config of the ${service}, to begin with. docs/reference/configuration.md has all other keys, with their defaults.`,
    `# Check what you made of it: diskmesh-${service} --check-config FILE`,
    "# Paths that do not begin with / are taken from this file's folder.",
    "",
  ];
  return [...head, ...linesOf(VALUES[service] ?? {}, [], meanings)].join("\n");
}

function linesOf(values: object, above: readonly string[], meanings: ReadonlyMap<string, string>): string[] {
  return Object.entries(values).flatMap(([name, value]: [string, unknown]) => {
    const path = [...above, name];
    const comment = meaningOf(path, meanings);
    const lines = [...wrapped(comment), ...valueLines(name, value, path, meanings)];
    return above.length === 0 ? [...lines, ""] : lines;
  });
}

function meaningOf(path: readonly string[], meanings: ReadonlyMap<string, string>): string {
  const meaning = meanings.get(pathText(path));
  if (meaning !== undefined) return meaning;
  // A key that names the file of a secret.
  return `In a file of its own: ${meanings.get(pathText(path).replace(/File$/, ""))}`;
}

function valueLines(
  name: string,
  value: unknown,
  path: readonly string[],
  meanings: ReadonlyMap<string, string>,
): string[] {
  const list = [...path.slice(0, -1), `${name}[]`];
  if (Array.isArray(value) && value.every((each) => typeof each === "object"))
    return [`${name}:`, ...value.flatMap((each: object) => entryLines(linesOf(each, list, meanings)))];
  if (typeof value === "object" && value !== null && !Array.isArray(value))
    return [`${name}:`, ...indented(linesOf(value, path, meanings))];
  return [
    `${name}: ${stringify(value, { collectionStyle: "flow", flowCollectionPadding: false, lineWidth: 0 }).trim()}`,
  ];
}

/** Formats an entry of a list, which begins at its first key. That key's description is above it. */
function entryLines(lines: readonly string[]): string[] {
  const first = lines.findIndex((line) => !line.startsWith("#"));
  return [
    ...lines.slice(0, first).map((line) => `  ${line}`),
    `  - ${lines[first]}`,
    ...lines.slice(first + 1).map((line) => `    ${line}`),
  ];
}

const indented = (lines: readonly string[]): string[] => lines.map((line) => `  ${line}`);

function wrapped(text: string): string[] {
  const lines: string[] = [];
  for (const word of text.split(" ")) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + word.length < WIDTH - 12) lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(`# ${word}`);
  }
  return lines;
}
