/**
 * What is known of holes in releases of nats-server, and what it means for a server that is configured as ours are: TLS
 * with `verify_and_map`, users named by the URIs of certificates, lists of subjects that are allowed and none that are
 * denied; no accounts but the two of an auth callout, for which 2.10.4 is the oldest; no JetStream, WebSocket, MQTT, leaf
 * node, route or monitoring port, no `no_auth_user`.
 *
 * The list is that of https://advisories.nats.io, as of 2026-06-29, without advisories for clients and for Go itself.
 */
interface Advisory {
  readonly id: string;
  /** Affected are versions from the first up to, not including, the second; of each line of releases. */
  readonly affected: readonly (readonly [from: string, fixedIn: string])[];
  /** What it takes besides a connection. Undefined when our configuration has all of it. */
  readonly needs: string | undefined;
}

/** Before that, releases are affected whatever their line. */
const ALWAYS = "0.0.0";

/** Fixed in 2.11.x and 2.12.x at the same time, as most of 2026 were. */
const before = (of211: string, of212: string, from = ALWAYS) =>
  [
    [from, of211],
    ["2.12.0-", of212],
  ] as const;

/** Fixed in 2.12.x and 2.14.x, and in no release before those. */
const beforeLate = (of212: string, of214: string) =>
  [
    [ALWAYS, of212],
    ["2.14.0-", of214],
  ] as const;

const ADVISORIES: readonly Advisory[] = [
  // Any client chooses its account by a field of its first message, the server's own among them.
  { id: "CVE-2022-24450", affected: [["2.0.0", "2.7.2"]], needs: undefined },
  // A header has the server send a trace to any subject, past the sender's permissions: an agent beats for another.
  // Traces came with 2.11.
  { id: "CVE-2026-33249", affected: before("2.11.15", "2.12.6", "2.11.0-"), needs: undefined },

  { id: "CVE-2020-26521", affected: [["2.0.0", "2.1.9"]], needs: "operator mode (JWT)" },
  { id: "CVE-2020-26892", affected: [["2.0.0", "2.1.9"]], needs: "operator mode (JWT)" },
  { id: "CVE-2020-28466", affected: [["2.0.0", "2.2.0"]], needs: "accounts" },
  { id: "CVE-2021-3127", affected: [["2.0.0", "2.2.0"]], needs: "accounts" },
  { id: "CVE-2021-32026", affected: [[ALWAYS, "2.2.3"]], needs: "TLS set on the command line" },
  { id: "CVE-2022-26652", affected: [["2.2.0", "2.7.4"]], needs: "JetStream" },
  { id: "CVE-2022-28357", affected: [["2.2.0", "2.8.0"]], needs: "users of the system account" },
  { id: "CVE-2022-29946", affected: [["2.0.0", "2.8.2"]], needs: "denied subjects" },
  { id: "CVE-2022-42708", affected: [["2.2.0", "2.9.3"]], needs: "JetStream" },
  { id: "CVE-2022-42709", affected: [["2.0.0", "2.9.3"]], needs: "accounts" },
  {
    id: "CVE-2023-47090",
    affected: [
      ["2.2.0", "2.9.23"],
      ["2.10.0-", "2.10.2"],
    ],
    needs: "accounts",
  },
  { id: "CVE-2023-46129", affected: [["2.10.0", "2.10.4"]], needs: "encrypted auth callouts" },
  {
    id: "CVE-2025-30215",
    affected: [
      ["2.2.0", "2.10.27"],
      ["2.11.0-", "2.11.1"],
    ],
    needs: "JetStream",
  },
  { id: "CVE-2026-27571", affected: before("2.11.12", "2.12.3", "2.2.0"), needs: "WebSocket" },
  { id: "CVE-2026-27889", affected: before("2.11.14", "2.12.5", "2.2.0"), needs: "WebSocket" },
  { id: "CVE-2026-29785", affected: before("2.11.14", "2.12.5"), needs: "leaf nodes" },
  { id: "CVE-2026-33216", affected: before("2.11.15", "2.12.6"), needs: "MQTT" },
  { id: "CVE-2026-33215", affected: before("2.11.15", "2.12.6"), needs: "MQTT" },
  { id: "CVE-2026-33217", affected: before("2.11.15", "2.12.6"), needs: "MQTT" },
  { id: "CVE-2026-33246", affected: before("2.11.15", "2.12.6"), needs: "leaf nodes" },
  { id: "CVE-2026-33223", affected: before("2.11.15", "2.12.6"), needs: "trust in the header Nats-Request-Info" },
  { id: "CVE-2026-33218", affected: before("2.11.15", "2.12.6"), needs: "leaf nodes" },
  { id: "CVE-2026-33219", affected: before("2.11.15", "2.12.6"), needs: "WebSocket" },
  { id: "CVE-2026-33222", affected: before("2.11.15", "2.12.6"), needs: "JetStream" },
  { id: "CVE-2026-33248", affected: before("2.11.15", "2.12.6"), needs: "users named by a certificate's subject" },
  { id: "CVE-2026-33247", affected: before("2.11.15", "2.12.6"), needs: "secrets on the command line" },
  { id: "GHSA-38x3-76xf-cq45", affected: before("2.11.16", "2.12.7"), needs: "no_auth_user" },
  { id: "GHSA-wh7g-5m82-pmhr", affected: before("2.11.16", "2.12.7"), needs: "denied subjects" },
  { id: "GHSA-jx8g-9g95-6322", affected: before("2.11.16", "2.12.7"), needs: "denied subjects" },
  { id: "GHSA-3g5q-cfh2-cq67", affected: before("2.11.17", "2.12.8"), needs: "leaf nodes" },
  { id: "GHSA-p3j5-5hrq-p75h", affected: beforeLate("2.12.12", "2.14.3"), needs: "leaf nodes" },
  { id: "GHSA-4g68-3pwx-5vfj", affected: beforeLate("2.12.12", "2.14.3"), needs: "MQTT" },
  { id: "GHSA-qrcv-3558-gj4f", affected: beforeLate("2.12.9", "2.14.1"), needs: "MQTT" },
  { id: "GHSA-g33f-6538-grxh", affected: beforeLate("2.12.10", "2.14.2"), needs: "operator mode (JWT)" },
  { id: "GHSA-hmmp-q8cx-v964", affected: beforeLate("2.12.12", "2.14.3"), needs: "no_auth_user" },
  { id: "GHSA-r72h-j7qq-v6qg", affected: beforeLate("2.12.12", "2.14.3"), needs: "MQTT" },
  { id: "GHSA-7qmq-8cc4-hxwg", affected: beforeLate("2.12.12", "2.14.3"), needs: "MQTT" },
  { id: "GHSA-p957-7v2w-g93g", affected: beforeLate("2.12.12", "2.14.3"), needs: "WebSocket" },
  { id: "GHSA-q59r-vq66-pxc2", affected: beforeLate("2.12.12", "2.14.3"), needs: "requests to the system account" },
];

/** A release of which no hole is known. */
const SAFE_VERSION = "2.12.15";

/** What is known of a server: `open` are the holes that our configuration leaves open, `closed` those that it does not. */
export interface ServerHoles {
  readonly open: readonly string[];
  readonly closed: readonly string[];
}

/** The holes of a version as servers tell it, e.g. "2.9.10"; undefined when it is no version. */
export function holesOf(version: string): ServerHoles | undefined {
  const parsed = parseVersion(version);
  if (parsed === undefined) return undefined;
  const found = ADVISORIES.filter(({ affected }) =>
    affected.some(([from, fixedIn]) => isWithin(parsed, from, fixedIn)),
  );
  return {
    open: found.filter(({ needs }) => needs === undefined).map(({ id }) => id),
    closed: found.filter(({ needs }) => needs !== undefined).map(({ id }) => id),
  };
}

/**
 * What is wrong with a server of that version, for people; undefined when it may be used. `accepted` are advisories that
 * its packager has dealt with under the same version.
 */
export function whyRefused(version: string, accepted: readonly string[] = []): string | undefined {
  const open = holesOf(version)?.open.filter((id) => !accepted.includes(id)) ?? [];
  if (open.length === 0) return undefined;
  return `nats-server ${version} lets agents do more than they may (${open.join(", ")}): run ${SAFE_VERSION} or a newer release; 2.9.10, as Debian 12 has it, will do`;
}

/** Why a server that may be used should be replaced; undefined when nothing is known against it. */
export function whyOutdated(version: string): string | undefined {
  const holes = holesOf(version);
  if (holes === undefined)
    return `nats-server does not say which version it is; whether it has known holes cannot be told`;
  if (holes.closed.length === 0) return undefined;
  return `nats-server ${version} has ${holes.closed.length} known holes that this configuration does not open (the latest is ${holes.closed.at(-1)}): ${SAFE_VERSION} has none`;
}

type Version = readonly [major: number, minor: number, patch: number, isFinal: number];

/** A version with a suffix, such as "2.12.0-RC.1", comes before that without. */
function parseVersion(text: string): Version | undefined {
  const [, major, minor, patch, suffix] = /^v?(\d{1,5})\.(\d{1,5})\.(\d{1,5})([-+].*)?$/.exec(text) ?? [];
  if (major === undefined) return undefined;
  return [Number(major), Number(minor), Number(patch), suffix?.startsWith("-") ? 0 : 1];
}

function isWithin(version: Version, from: string, fixedIn: string): boolean {
  return compare(version, parseVersion(from) as Version) >= 0 && compare(version, parseVersion(fixedIn) as Version) < 0;
}

function compare(a: Version, b: Version): number {
  return a.map((part, index) => part - (b[index] as number)).find((difference) => difference !== 0) ?? 0;
}
