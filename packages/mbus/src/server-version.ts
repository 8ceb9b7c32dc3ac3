type Version = readonly [major: number, minor: number, patch: number, isFinal: number];

/**
 * The oldest nats-server of each line of releases. 2.10.4 is the first whose auth callout is sound; in 2.11.0 to 2.11.14
 * and 2.12.0 to 2.12.5 a message's header has the server send a trace to any subject, so that an agent beats for another
 * (CVE-2026-33249). Other advisories need what our configuration does not use.
 */
const OLDEST: readonly Version[] = [
  [2, 10, 4, 1],
  [2, 11, 15, 1],
  [2, 12, 6, 1],
];

/** Returns why a nats-server of that version, as servers tell it, must not be used; undefined when it may. */
export function whyRefused(version: string): string | undefined {
  const parsed = parseVersion(version);
  if (parsed === undefined) return undefined;
  const [first] = OLDEST as [Version];
  const oldest = OLDEST.find(([major, minor]) => major === parsed[0] && minor === parsed[1]) ?? first;
  if (compare(parsed, oldest) >= 0) return undefined;
  const versions = OLDEST.map((each) => each.slice(0, 3).join(".")).join(", ");
  return `nats-server ${version} cannot keep agents to what they may do: run ${versions} or a newer release of these lines, or a later line`;
}

/** A version with a suffix, such as "2.12.0-RC.1", comes before that without. */
function parseVersion(text: string): Version | undefined {
  const [, major, minor, patch, suffix] = /^v?(\d{1,5})\.(\d{1,5})\.(\d{1,5})([-+].*)?$/.exec(text) ?? [];
  if (major === undefined) return undefined;
  return [Number(major), Number(minor), Number(patch), suffix?.startsWith("-") ? 0 : 1];
}

function compare(a: Version, b: Version): number {
  return a.map((part, index) => part - (b[index] as number)).find((difference) => difference !== 0) ?? 0;
}
