import { persistentDiskOf } from "../instances/recorded-deployments.js";
import type { Disk } from "../store/disk.js";
import { formatInstance, type Instance } from "../store/instance.js";
import type { PersistentDisk } from "../store/persistent-disk.js";
import type { DiskKey, Finding } from "../store/problem.js";
import type { DirectorTables } from "../store/schema.js";

/** The inspection of an instance's VM. Undefined fields could not be determined. */
export interface VmSight {
  /** The CPI's answer to has_vm. */
  readonly exists: boolean | undefined;
  /** The CPI's list of attached disks. */
  readonly attachedCids: readonly string[] | undefined;
  readonly agentAnswers: boolean | undefined;
  /** The agent's list of persistent disks. */
  readonly mountedCids: readonly string[] | undefined;
  /** The agent's list of dynamic disks. */
  readonly linkedCids: readonly string[] | undefined;
}

/** The properties of a disk that a scan needs. */
export interface KnownDisk extends DiskKey {
  readonly shown: string;
  readonly deployment: string;
  readonly group: string;
  readonly diskCid: string;
  readonly cpi: string;
  readonly az: string;
  /** The instance to whose VM the disk is or may be attached; empty for none. */
  readonly instanceId: string;
  readonly vmCid: string;
  /** The certainty of the attachment: `perhaps` after a call with an unknown outcome. */
  readonly isAt: "surely" | "perhaps" | "nowhere";
  /** True when the agent has mounted the disk or should have a link for the disk. */
  readonly agentHas: boolean;
  /** True when the record shows that the disk may already be deleted. */
  readonly isLeaving: boolean;
}

/** The records of one instance's VM at one moment. */
export interface VmRecords {
  readonly instance: Instance;
  readonly disks: readonly KnownDisk[];
  /** CIDs of disks whose links the agent still has to remove. */
  readonly owedCids: ReadonlySet<string>;
}

/** The verdict on one VM: findings about the VM alone, and misplaced disks. */
export interface VmVerdict {
  readonly findings: readonly Finding[];
  readonly lacking: readonly KnownDisk[];
  readonly surplus: readonly { readonly disk: KnownDisk; readonly vmCid: string }[];
}

export function knownDynamic(disk: Disk, group: string): KnownDisk {
  const { name, deployment, diskCid, cpi, az, instanceId, vmCid, state } = disk;
  const isAt = state === "attached" ? "surely" : state === "attaching" || state === "detaching" ? "perhaps" : "nowhere";
  const place = { deployment, group, diskCid, cpi, az, instanceId, vmCid, isAt } as const;
  const agentHas = state === "attached" && disk.hint !== null;
  return {
    kind: "dynamic",
    key: name,
    shown: `disk \`${name}\``,
    ...place,
    agentHas,
    isLeaving: state === "deleting",
  };
}

export function knownPersistent(disk: PersistentDisk): KnownDisk {
  const { diskId, deployment, group, diskCid, cpi, az, vmCid, state } = disk;
  const isThere = state === "attached" || state === "mounted";
  const isAt = isThere ? "surely" : state === "detached" ? "nowhere" : "perhaps";
  const instanceId = disk.orphanedAtMs === null ? disk.instanceId : "";
  const place = { deployment, group, diskCid, cpi, az, instanceId, vmCid, isAt } as const;
  const shown = `persistent disk \`${diskCid}\``;
  return { kind: "persistent", key: diskId, shown, ...place, agentHas: state === "mounted", isLeaving: false };
}

/** Returns the recorded disk with the CID. */
export function diskByCid(tables: DirectorTables, diskCid: string): KnownDisk | undefined {
  const [dynamic] = tables.disks.by("byCid", diskCid);
  if (dynamic !== undefined) return knownDynamic(dynamic, tables.instances.get(dynamic.instanceId)?.group ?? "");
  const [persistent] = tables.persistentDisks.by("byCid", diskCid);
  return persistent && knownPersistent(persistent);
}

/** Returns undefined for an unknown, ignored or leaving instance. */
export function vmRecords(tables: DirectorTables, instanceId: string): VmRecords | undefined {
  const instance = tables.instances.get(instanceId);
  if (instance === undefined || instance.leaving || instance.ignore) return undefined;
  const dynamic = [...tables.disks.by("byInstance", instanceId)].map((disk) => knownDynamic(disk, instance.group));
  const persistent = persistentDiskOf(tables, instanceId);
  const disks = persistent === undefined ? dynamic : [...dynamic, knownPersistent(persistent)];
  const owed = instance.agentId === "" ? [] : [...tables.owedRemovals.by("byAgent", instance.agentId)];
  return { instance, disks, owedCids: new Set(owed.map(({ diskCid }) => diskCid)) };
}

/** Returns the disks of a deployment that should exist, except disks of ignored instances. */
export function disksToFind(tables: DirectorTables, deployment: string): KnownDisk[] {
  const dynamic = [...tables.disks.by("byDeployment", deployment)].map((disk) =>
    knownDynamic(disk, tables.instances.get(disk.instanceId)?.group ?? ""),
  );
  const persistent = [...tables.persistentDisks.by("byDeployment", deployment)]
    .filter((disk) => disk.orphanedAtMs === null)
    .map(knownPersistent);
  const isMeant = ({ diskCid, isLeaving, instanceId }: KnownDisk) =>
    diskCid !== "" && !isLeaving && !tables.instances.get(instanceId)?.ignore;
  return [...dynamic, ...persistent].filter(isMeant);
}

/** Returns true when CPI and agent can report on the VM: the VM is neither being created nor deleted. */
export function isInspectable({ vmState }: Instance): boolean {
  return vmState === "created" || vmState === "running" || vmState === "lost";
}

/** Returns the findings about a VM, from the records at the time of the inspection. */
export function judgeVm(
  { instance, disks, owedCids }: VmRecords,
  sight: VmSight,
  knownByCid: (diskCid: string) => KnownDisk | undefined,
): VmVerdict {
  const nothing = { lacking: [], surplus: [] };
  const vm = `vm \`${instance.vmCid}\` of ${formatInstance(instance)}`;
  if (instance.vmState === "none" && instance.state === "detached") return { findings: [], ...nothing };
  if (!isInspectable(instance))
    return { findings: [vmFinding("missing_vm", instance, UNMADE[instance.vmState] ?? "")], ...nothing };
  if (sight.exists === false)
    return { findings: [vmFinding("missing_vm", instance, `${vm} is gone: its CPI does not know it`)], ...nothing };
  const findings: Finding[] = [];
  if (sight.agentAnswers === false) {
    const unsure = sight.exists === undefined ? ", and its CPI cannot say whether it is there" : "";
    const said = `the agent \`${instance.agentId}\` of ${vm} does not answer${unsure}`;
    findings.push(vmFinding("unresponsive_agent", instance, said));
  }
  const lacking = disks.filter((disk) => isLacking(disk, sight));
  for (const disk of disks) if (lacksLink(disk, sight)) findings.push(linkFinding("missing_link", instance, disk));
  const here = new Set(disks.filter(({ isAt }) => isAt !== "nowhere").map(({ diskCid }) => diskCid));
  const foreign = [...new Set([...(sight.attachedCids ?? []), ...(sight.mountedCids ?? [])])].filter(
    (diskCid) => !here.has(diskCid),
  );
  // Disks without records are left out, because CPIs also list a VM's own disks.
  const surplus = foreign.flatMap((diskCid) => knownByCid(diskCid) ?? []);
  for (const diskCid of sight.linkedCids ?? []) {
    if (here.has(diskCid) || owedCids.has(diskCid)) continue;
    const disk = knownByCid(diskCid);
    findings.push(linkFinding("surplus_link", instance, disk ?? { diskCid, shown: `disk \`${diskCid}\`` }));
  }
  return { findings, lacking, surplus: surplus.map((disk) => ({ disk, vmCid: instance.vmCid })) };
}

const UNMADE: Partial<Record<Instance["vmState"], string>> = {
  none: "it has no vm",
  creating: "the creation of its vm was interrupted",
  deleting: "the deletion of its vm was interrupted",
};

function isLacking(disk: KnownDisk, { attachedCids, mountedCids }: VmSight): boolean {
  if (disk.isAt !== "surely") return false;
  if (attachedCids !== undefined && !attachedCids.includes(disk.diskCid)) return true;
  const isMounted = disk.kind === "persistent" && disk.agentHas;
  return isMounted && mountedCids !== undefined && !mountedCids.includes(disk.diskCid);
}

function lacksLink(disk: KnownDisk, { attachedCids, linkedCids }: VmSight): boolean {
  if (disk.kind !== "dynamic" || !disk.agentHas || linkedCids === undefined) return false;
  // A detached disk cannot have a link. The detachment is reported as its own finding.
  if (attachedCids !== undefined && !attachedCids.includes(disk.diskCid)) return false;
  return !linkedCids.includes(disk.diskCid);
}

/** Returns findings for disks that are missing from their VM and disks that are attached to a wrong VM. */
export function misplacedDisks(deployment: string, verdicts: readonly VmVerdict[]): Finding[] {
  const found = new Map<string, { readonly disk: KnownDisk; readonly elsewhere: string[] }>();
  for (const { lacking, surplus } of verdicts) {
    for (const disk of lacking) if (!found.has(disk.diskCid)) found.set(disk.diskCid, { disk, elsewhere: [] });
    for (const { disk, vmCid } of surplus) {
      const entry = found.get(disk.diskCid) ?? { disk, elsewhere: [] };
      entry.elsewhere.push(vmCid);
      found.set(disk.diskCid, entry);
    }
  }
  return [...found.values()].map(({ disk, elsewhere }) => {
    const { group, instanceId, vmCid, cpi, diskCid, shown, kind, key, isAt } = disk;
    const should = isAt === "nowhere" ? "should be attached to no vm" : `should be attached to vm \`${vmCid}\``;
    const is =
      elsewhere.length === 0 ? "it is not" : `it is attached to ${elsewhere.map((vm) => `\`${vm}\``).join(", ")}`;
    const description = `${shown} ${should}, and ${is}`;
    const place = { deployment, group, instanceId, vmCid: isAt === "nowhere" ? "" : vmCid, cpi, diskCid };
    return { type: "mount_info_mismatch", ...place, disk: { kind, key }, elsewhere, description };
  });
}

export function missingDisk(disk: KnownDisk): Finding {
  const { deployment, group, instanceId, vmCid, cpi, diskCid, shown, kind, key } = disk;
  const description = `${shown} is gone: its CPI does not know it`;
  const place = { deployment, group, instanceId, vmCid, cpi, diskCid };
  return { type: "missing_disk", ...place, disk: { kind, key }, elsewhere: [], description };
}

function vmFinding(type: "missing_vm" | "unresponsive_agent", instance: Instance, said: string): Finding {
  const { deployment, group, instanceId, vmCid, cpi, vmState } = instance;
  const description = UNMADE[vmState] === undefined ? said : `${formatInstance(instance)}: ${said}`;
  return { type, deployment, group, instanceId, vmCid, cpi, diskCid: "", disk: null, elsewhere: [], description };
}

function linkFinding(
  type: "missing_link" | "surplus_link",
  instance: Instance,
  disk: Pick<KnownDisk, "diskCid" | "shown"> & Partial<DiskKey>,
): Finding {
  const { deployment, group, instanceId, vmCid, cpi, agentId } = instance;
  const { diskCid, shown, kind, key } = disk;
  const known = kind === undefined || key === undefined ? null : { kind, key };
  const agent = `the agent \`${agentId}\` of ${formatInstance(instance)}`;
  const description =
    type === "missing_link"
      ? `${agent} has no link for ${shown}, which is attached to its vm`
      : `${agent} has a link for ${shown}, which ${known === null ? "this director does not know" : "is not attached to its vm"}`;
  return { type, deployment, group, instanceId, vmCid, cpi, diskCid, disk: known, elsewhere: [], description };
}

/** All recorded VMs, of any deployment. */
export interface KnownVms {
  readonly vmCids: ReadonlySet<string>;
  /** Tokens of create calls, including calls without an answer yet. */
  readonly tokens: ReadonlySet<string>;
}

export function knownVms(tables: DirectorTables): KnownVms {
  const [vmCids, tokens] = [new Set<string>(), new Set<string>()];
  for (const { vmCid, vmToken } of tables.instances.entries()) {
    if (vmCid !== "") vmCids.add(vmCid);
    if (vmToken !== "") tokens.add(vmToken);
  }
  return { vmCids, tokens };
}

/** Returns the VMs of a CPI that belonged to no instance, neither before nor after the listing. */
export function unknownVms(
  deployment: string,
  cpi: string,
  listed: readonly { readonly vmCid: string; readonly agentId: string }[],
  known: readonly KnownVms[],
): Finding[] {
  const isKnown = ({ vmCid, agentId }: (typeof listed)[number]) =>
    known.some(({ vmCids, tokens }) => vmCids.has(vmCid) || tokens.has(agentId));
  return listed
    .filter((vm) => !isKnown(vm))
    .map(({ vmCid }) => {
      const maker = cpi === "" ? "the default CPI" : `CPI \`${cpi}\``;
      const description = `${maker} has vm \`${vmCid}\`, which belongs to no instance: it may belong to another director, or be orphaned`;
      const none = { group: "", instanceId: "", diskCid: "", disk: null, elsewhere: [] };
      return { type: "unknown_vm", deployment, vmCid, cpi, ...none, description };
    });
}

/** The inspection of a finding's VM, disk and CPI. */
export interface Shown {
  readonly sight: VmSight | undefined;
  readonly diskExists: boolean | undefined;
  readonly isListed: boolean;
}

/** Returns true when the inspection covered the finding's subject. */
export function showed(type: Finding["type"], { sight, diskExists, isListed }: Shown): boolean {
  switch (type) {
    case "missing_disk":
      return diskExists !== undefined;
    case "missing_vm":
      return sight?.exists !== undefined;
    case "unresponsive_agent":
      return sight?.exists === false || sight?.agentAnswers !== undefined;
    case "mount_info_mismatch":
      return sight?.attachedCids !== undefined || sight?.mountedCids !== undefined;
    case "missing_link":
    case "surplus_link":
      return sight?.linkedCids !== undefined;
    case "unknown_vm":
      return isListed;
  }
}
