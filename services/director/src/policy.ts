import type { Role } from "@diskmesh/domain";

/** Scopes any one set of which suffices. */
type ScopeSets = readonly (readonly string[])[];

/** Who may do something: over gRPC by the role in the certificate, over HTTPS by the scopes of the login. */
export interface Rule {
  readonly roles: readonly Role[];
  /** Beside those of administrators, which suffice for everything. */
  readonly scopes: ScopeSets;
  /** Whoever started the task may, too. */
  readonly creator?: true;
}

export const ADMIN = "bosh.admin";
const READ = "bosh.read";
const OPERATORS: readonly Role[] = ["operator"];

const disks = (...rights: readonly string[]): ScopeSets => [rights.map((right) => `bosh.dynamic-disks.${right}`)];
const rule = (scopes: ScopeSets): Rule => ({ roles: OPERATORS, scopes });

const admins = rule([]);
const readers = rule([[READ]]);
const readersAndCreator: Rule = { ...readers, creator: true };
const vendorCallers = rule([["bosh.vendor-methods.call"]]);
const vendorReaders = rule([[READ], ...vendorCallers.scopes]);
const uploaders = rule([["bosh.stemcells.upload"]]);

/** What callers of either face may do, and who. */
export const POLICY = {
  updateConfig: admins,
  getConfig: readers,
  listConfigs: readers,
  readCpiConfigs: admins,
  deleteConfig: admins,
  diffConfig: admins,
  deploy: admins,
  diffDeployment: admins,
  deleteDeployment: admins,
  listDeployments: readers,
  listInstances: readers,
  listPersistentDisks: readers,
  attachOrphanedDisk: admins,
  deleteOrphanedDisk: admins,
  listPossibleOrphans: readers,
  forgetPossibleOrphan: admins,
  provideDisk: rule(disks("create", "attach")),
  createDisk: rule(disks("create")),
  attachDisk: rule(disks("attach")),
  detachDisk: rule(disks("detach")),
  deleteDisk: rule(disks("delete")),
  getDisk: rule(disks("list")),
  listDisks: rule(disks("list")),
  listOwedRemovals: readers,
  getTask: readersAndCreator,
  listTasks: readers,
  cancelTask: admins,
  resumeTask: admins,
  watchTask: readers,
  getTaskOutput: readersAndCreator,
  getTaskDebugOutput: admins,
  uploadStemcell: uploaders,
  listStemcells: readers,
  deleteStemcell: admins,
  startInstances: admins,
  stopInstances: admins,
  restartInstances: admins,
  recreateInstances: admins,
  ignoreInstances: admins,
  deleteVm: admins,
  cleanUp: admins,
  listAgentCertificates: readers,
  listAgentAuthorities: readers,
  forgetAgentAuthority: admins,
  takeSnapshots: admins,
  listSnapshots: readers,
  deleteSnapshots: admins,
  scanDeployment: admins,
  listProblems: readers,
  resolveProblems: admins,
  updateResurrection: admins,
  getResurrection: readers,
  listEvents: readers,
  listLocks: readers,
  readByVendorMethod: vendorReaders,
  callVendorMethod: vendorCallers,
  adminByVendorMethod: admins,
} as const satisfies Readonly<Record<string, Rule>>;

export type Operation = keyof typeof POLICY;

/** The sets of scopes with which a login may do that on the director of that id, in the order in which BOSH tells them. */
export function scopesFor(operation: Operation, directorId: string): ScopeSets {
  const { scopes }: Rule = POLICY[operation];
  const own = scopes.map((set) => set.map((scope) => (scope === READ ? `bosh.${directorId}.read` : scope)));
  const others = own.filter((set, index) => set.join() !== scopes[index]?.join());
  return [[ADMIN], [`bosh.${directorId}.admin`], ...scopes, ...others];
}

export function isAllowed(operation: Operation, scopes: readonly string[], directorId: string): boolean {
  return scopesFor(operation, directorId).some((set) => set.every((scope) => scopes.includes(scope)));
}

/** As BOSH tells whoever has none of them. */
export function formatScopes(sets: ScopeSets): string {
  return sets.map((set) => (set.length === 1 ? set[0] : `(${set.join(" AND ")})`)).join(", ");
}

/** The policy as a table of Markdown, for people. */
export function policyTable(): string {
  const rows = Object.entries(POLICY).map(([operation, each]: [string, Rule]) => {
    const scopes = each.scopes.map((set) => set.map((scope) => `\`${scope}\``).join(" and "));
    const creator = each.creator ? ["who started the task"] : [];
    return `| \`${operation}\` | ${each.roles.join(", ")} | ${[`\`${ADMIN}\``, ...scopes, ...creator].join(", or ")} |`;
  });
  return ["| to | gRPC: role | HTTPS: scopes |", "| --- | --- | --- |", ...rows].join("\n");
}
