import { formatIdentity, type Identity, OPERATOR_ROLES, PermissionDeniedError, type Role } from "@diskmesh/domain";

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

const rule = (scopes: ScopeSets, roles: readonly Role[] = []): Rule => ({ roles: ["operator", ...roles], scopes });
const reading = (scopes: ScopeSets): Rule => ({ roles: OPERATOR_ROLES, scopes });
const ofDisks = (...rights: readonly string[]): ScopeSets => [rights.map((right) => `bosh.dynamic-disks.${right}`)];
const disks = (...rights: readonly string[]): Rule => rule(ofDisks(...rights), ["operator-disks"]);

const admins = rule([]);
const deployers = rule([], ["operator-deployments"]);
const readers = reading([[READ]]);
const diskReaders = reading(ofDisks("list"));
const readersAndCreator: Rule = { ...readers, creator: true };
const vendorCallers = rule([["bosh.vendor-methods.call"]]);
const vendorReaders = reading([[READ], ...vendorCallers.scopes]);
const uploaders = rule([["bosh.stemcells.upload"]], ["operator-deployments"]);

/** What callers of either face may do, and who. */
export const POLICY = {
  updateConfig: admins,
  getConfig: readers,
  listConfigs: readers,
  readCpiConfigs: admins,
  deleteConfig: admins,
  diffConfig: admins,
  deploy: deployers,
  diffDeployment: deployers,
  deleteDeployment: deployers,
  listDeployments: readers,
  listInstances: readers,
  listPersistentDisks: readers,
  attachOrphanedDisk: deployers,
  deleteOrphanedDisk: admins,
  listPossibleOrphans: readers,
  forgetPossibleOrphan: admins,
  provideDisk: disks("create", "attach"),
  createDisk: disks("create"),
  attachDisk: disks("attach"),
  detachDisk: disks("detach"),
  deleteDisk: disks("delete"),
  getDisk: diskReaders,
  listDisks: diskReaders,
  listOwedRemovals: readers,
  getTask: readersAndCreator,
  listTasks: readers,
  cancelTask: deployers,
  resumeTask: deployers,
  watchTask: readers,
  getTaskOutput: readersAndCreator,
  getTaskDebugOutput: deployers,
  uploadStemcell: uploaders,
  listStemcells: readers,
  deleteStemcell: deployers,
  startInstances: deployers,
  stopInstances: deployers,
  restartInstances: deployers,
  recreateInstances: deployers,
  ignoreInstances: deployers,
  deleteVm: deployers,
  cleanUp: admins,
  listAgentCertificates: readers,
  listAgentAuthorities: readers,
  forgetAgentAuthority: admins,
  takeSnapshots: deployers,
  listSnapshots: readers,
  deleteSnapshots: admins,
  scanDeployment: deployers,
  listProblems: readers,
  resolveProblems: deployers,
  updateResurrection: deployers,
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

/** Throws PermissionDeniedError for a caller by gRPC whose role is not one that may do that. */
export function checkRole(operation: Operation, identity: Identity): void {
  const { roles }: Rule = POLICY[operation];
  if (roles.includes(identity.role)) return;
  const text = `${formatIdentity(identity)} may not ${operation}: allowed are ${roles.join(", ")}`;
  throw new PermissionDeniedError(text);
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
    const roles = each.roles.length === OPERATOR_ROLES.length ? "any operator's" : each.roles.join(", ");
    return `| \`${operation}\` | ${roles} | ${[`\`${ADMIN}\``, ...scopes, ...creator].join(", or ")} |`;
  });
  return ["| to | gRPC: role | HTTPS: scopes |", "| --- | --- | --- |", ...rows].join("\n");
}
