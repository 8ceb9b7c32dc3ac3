type Version = readonly [major: number, minor: number, patch: number, isFinal: number];

/**
 * Oldest safe nats-server of each release line. 2.10.4 is the first whose auth callout is sound. In 2.11.0 to 2.11.14
 * and 2.12.0 to 2.12.5 a message header makes the server send a trace to any subject, so an agent could send a
 * heartbeat for another (CVE-2026-33249). Other advisories concern features that our configuration does not use.
 */
const OLDEST: readonly Version[] = [
  [2, 10, 4, 1],
  [2, 11, 15, 1],
  [2, 12, 6, 1],
];

/** Returns the reason why a nats-server of that version must not be used; undefined when it may. */
export function whyRefused(version: string): string | undefined {
  const parsed = parseVersion(version);
  if (parsed === undefined) return undefined;
  const [first] = OLDEST as [Version];
  const oldest = OLDEST.find(([major, minor]) => major === parsed[0] && minor === parsed[1]) ?? first;
  if (compare(parsed, oldest) >= 0) return undefined;
  const versions = OLDEST.map((each) => each.slice(0, 3).join(".")).join(", ");
  return `nats-server ${version} cannot restrict agents to their permissions: run ${versions} or a newer release of these lines, or a later line`;
}

/** Parses a version. A suffix such as in "2.12.0-RC.1" sorts before the same version without it. */
function parseVersion(text: string): Version | undefined {
  const [, major, minor, patch, suffix] = /^v?(\d{1,5})\.(\d{1,5})\.(\d{1,5})([-+].*)?$/.exec(text) ?? [];
  if (major === undefined) return undefined;
  return [Number(major), Number(minor), Number(patch), suffix?.startsWith("-") ? 0 : 1];
}

function compare(a: Version, b: Version): number {
  return a.map((part, index) => part - (b[index] as number)).find((difference) => difference !== 0) ?? 0;
}
