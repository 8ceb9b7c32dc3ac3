/** A drive as udev rules match it. */
export interface NamedDrive {
  /** Path in the config, for people. */
  readonly path: string;
  /** Name below /dev. */
  readonly name: string;
  /** The name is a link that udev makes; false for the kernel's own name. */
  readonly isLink: boolean;
}

/** Names that a udev rule matches literally. */
const PLAIN_NAME = /^[\w.:+@#=,/-]{1,255}$/;

/** Keeps the host's programs off a device. The rules of disks, `deploy/host/59-diskmesh-disks.rules`, have the same. */
export const KEEP_OFF = [
  'ENV{ID_FS_TYPE}="diskmesh_member", ENV{ID_FS_USAGE}="", ENV{ID_FS_UUID}="", ENV{ID_FS_UUID_ENC}="", ENV{ID_FS_LABEL}="", ENV{ID_FS_LABEL_ENC}=""',
  'ENV{SYSTEMD_READY}="0", ENV{UDISKS_IGNORE}="1", ENV{DM_UDEV_DISABLE_OTHER_RULES_FLAG}="1"',
  'SYMLINK+="diskmesh/$kernel", OPTIONS+="link_priority=-1000", OPTIONS:="nowatch"',
];

/**
 * Returns udev rules that keep the host's programs off these drives and their partitions. They come after the rules
 * that name drives, 60-persistent-storage.rules, and before those that assemble and activate. Each drive is named,
 * because a pattern could match a drive of the host itself, which would not boot then.
 */
export function driveRules(drives: readonly NamedDrive[], leftOut: readonly string[]): string {
  const matches = drives.map(({ path, name, isLink }) =>
    PLAIN_NAME.test(name)
      ? `${isLink ? "SYMLINK" : "KERNEL"}=="${name}", ENV{DISKMESH}="1"`
      : `# left out: ${JSON.stringify(path)} has a name that rules cannot match`,
  );
  return [
    "# udev rules for drives of diskmesh, made by `diskmesh-disk-agent --config FILE --drive-rules`.",
    ...leftOut.map((reason) => `# left out: ${reason}`),
    'ACTION=="remove", GOTO="diskmesh_drives_end"',
    'SUBSYSTEM!="block", GOTO="diskmesh_drives_end"',
    'ENV{DEVTYPE}=="partition", IMPORT{parent}="DISKMESH"',
    ...matches,
    'ENV{DISKMESH}!="1", GOTO="diskmesh_drives_end"',
    ...KEEP_OFF,
    'LABEL="diskmesh_drives_end"',
    "",
  ].join("\n");
}

/** Returns what udev's database has of a device: its links below /dev, and whether rules of diskmesh apply to it. */
export function parseUdevData(text: string): { readonly links: readonly string[]; readonly isMarked: boolean } {
  const lines = text.split("\n");
  return {
    links: lines.filter((line) => line.startsWith("S:")).map((line) => line.slice(2)),
    isMarked: lines.includes("E:DISKMESH=1"),
  };
}

/** Returns the link by which a drive is found again after a restart of the host; undefined when udev has made none. */
export function lastingLink(links: readonly string[]): string | undefined {
  const sorted = [...links].sort();
  return ["disk/by-id/", "disk/by-path/"]
    .map((folder) => sorted.find((link) => link.startsWith(folder)))
    .find((link) => link !== undefined);
}

/**
 * Returns whether LVM's filter rejects a device with these paths. `setting` is a line of `lvmconfig`, for example
 * `global_filter=["r|^/dev/diskmesh/|"]`. As in LVM, the first pattern that matches a path decides for the path, and a
 * device is rejected when a path of it is rejected and none accepted.
 */
export function rejectsInLvm(setting: string, paths: readonly string[]): boolean {
  const patterns = [...setting.matchAll(/"([ar])(.)((?:\\.|(?!\2)[^"\\])*)\2"/g)].map(([, verb, , regex = ""]) => ({
    isReject: verb === "r",
    regex: regexOf(regex),
  }));
  const verdicts = paths.flatMap((path) => patterns.find(({ regex }) => regex?.test(path)) ?? []);
  return verdicts.length > 0 && verdicts.every(({ isReject }) => isReject);
}

/** Returns undefined for a pattern that is none, with which LVM would not run either. */
function regexOf(text: string): RegExp | undefined {
  try {
    return new RegExp(text);
  } catch {
    return undefined;
  }
}
