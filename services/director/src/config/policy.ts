import {
  formatIdentity,
  type Identity,
  isScoped,
  OPERATOR_ROLES,
  PermissionDeniedError,
  type Role,
} from "@diskmesh/domain";

/** Alternative sets of scopes; any complete set suffices. */
type ScopeSets = readonly (readonly string[])[];

/**
 * The allowed callers of an operation. gRPC checks the role in the certificate; HTTPS checks the scopes of the login.
 */
export interface Rule {
  readonly roles: readonly Role[];
  /** Scopes in addition to the administrator scopes, which allow every operation. */
  readonly scopes: ScopeSets;
  /** Also allows the user who started the task. */
  readonly creator?: true;
  /**
   * Also allows members of the team that owns the deployment, or that owns the task's deployment. "admin" allows the
   * team's admins, "read" its admins and readers.
   */
  readonly team?: "admin" | "read";
  /**
   * Set when the operation keeps to the caller's scope. Also allows certificates with a scope, and logins with the
   * rights of `scopes` in one team, as in `bosh.teams.TEAM.dynamic-disks.create`.
   */
  readonly isScoped?: boolean;
}

export const ADMIN = "bosh.admin";
const READ = "bosh.read";

const rule = (scopes: ScopeSets, roles: readonly Role[] = []): Rule => ({ roles: ["operator", ...roles], scopes });
const reading = (scopes: ScopeSets): Rule => ({ roles: OPERATOR_ROLES, scopes });
const ofDisks = (...rights: readonly string[]): ScopeSets => [rights.map((right) => `bosh.dynamic-disks.${right}`)];
const disks = (...rights: readonly string[]): Rule => ({
  ...rule(ofDisks(...rights), ["operator-disks", "csi"]),
  team: "admin",
  isScoped: true,
});

const admins = rule([]);
const deployers = rule([], ["operator-deployments"]);
const teamAdmins: Rule = { ...admins, team: "admin" };
const teamDeployers: Rule = { ...deployers, team: "admin" };
const readers = reading([[READ]]);
const diskReaders: Rule = { roles: [...OPERATOR_ROLES, "csi"], scopes: ofDisks("list"), team: "read", isScoped: true };
const teamReaders: Rule = { ...readers, team: "read" };
const scopedReaders: Rule = { ...teamReaders, isScoped: true };
const scopedReadersAndCreator: Rule = { ...scopedReaders, creator: true };
const vendorCallers = rule([["bosh.vendor-methods.call"]]);
const vendorReaders = reading([[READ], ...vendorCallers.scopes]);
const uploaders = rule([["bosh.stemcells.upload"]], ["operator-deployments"]);

/** The operations of both APIs, with their allowed callers. */
export const POLICY = {
  updateConfig: admins,
  getConfig: readers,
  listConfigs: teamReaders,
  readCpiConfigs: admins,
  deleteConfig: admins,
  diffConfig: admins,
  deploy: teamDeployers,
  diffDeployment: teamDeployers,
  deleteDeployment: teamDeployers,
  listDeployments: scopedReaders,
  listInstances: scopedReaders,
  listPersistentDisks: readers,
  attachOrphanedDisk: deployers,
  orphanPersistentDisk: deployers,
  deleteOrphanedDisk: admins,
  listPossibleOrphans: readers,
  forgetPossibleOrphan: admins,
  provideDynamicDisk: disks("create", "attach"),
  createDynamicDisk: disks("create"),
  attachDynamicDisk: disks("attach"),
  resizeDynamicDisk: disks("create"),
  setDynamicDiskLimits: disks("create"),
  getDynamicDiskCapacity: diskReaders,
  detachDynamicDisk: disks("detach"),
  deleteDynamicDisk: disks("delete"),
  undeleteDynamicDisk: disks("delete"),
  getDynamicDisk: diskReaders,
  listDynamicDisks: diskReaders,
  listOwedRemovals: readers,
  reportCsiDriver: { ...rule([], ["csi"]), isScoped: true },
  getTask: scopedReadersAndCreator,
  listTasks: scopedReaders,
  cancelTask: teamDeployers,
  resumeTask: deployers,
  watchTask: { ...readers, isScoped: true },
  getTaskOutput: scopedReadersAndCreator,
  getTaskDebugOutput: teamDeployers,
  uploadStemcell: uploaders,
  listStemcells: teamReaders,
  deleteStemcell: deployers,
  startInstances: teamDeployers,
  stopInstances: teamDeployers,
  restartInstances: teamDeployers,
  recreateInstances: teamDeployers,
  ignoreInstances: teamDeployers,
  deleteVm: deployers,
  cleanUp: admins,
  fetchLogs: teamDeployers,
  listAgentCertificates: readers,
  listAgentAuthorities: readers,
  forgetAgentAuthority: admins,
  takeSnapshots: teamDeployers,
  listSnapshots: teamReaders,
  deleteSnapshots: teamAdmins,
  scanDeployment: teamDeployers,
  listProblems: teamReaders,
  resolveProblems: teamDeployers,
  updateResurrection: deployers,
  getResurrection: readers,
  listEvents: teamReaders,
  listLocks: readers,
  seePage: readers,
  setHostState: admins,
  fenceHost: admins,
  removeHost: admins,
  addHost: admins,
  cancelMove: admins,
  migrateDisk: admins,
  readByVendorMethod: vendorReaders,
  callVendorMethod: vendorCallers,
  adminByVendorMethod: admins,
} as const satisfies Readonly<Record<string, Rule>>;

export type Operation = keyof typeof POLICY;

/**
 * Returns the scope sets that allow the operation on the director with this id, in the order in which BOSH lists them.
 * `teams` own the object of the operation.
 */
export function scopesFor(operation: Operation, directorId: string, teams: readonly string[] = []): ScopeSets {
  const { scopes, team, isScoped = false }: Rule = POLICY[operation];
  const rights = team === undefined ? [] : team === "read" ? ["admin", "read"] : ["admin"];
  const ofTeams = rights.flatMap((right) => teams.map((name) => [`bosh.teams.${name}.${right}`]));
  const ofDisks = scopes.filter((set) => isScoped && !set.includes(READ));
  const inTeams = teams.flatMap((name) => ofDisks.map((set) => set.map((each) => inTeam(each, name))));
  const own = scopes.map((set) => set.map((scope) => (scope === READ ? `bosh.${directorId}.read` : scope)));
  const others = own.filter((set, index) => set.join() !== scopes[index]?.join());
  return [[ADMIN], [`bosh.${directorId}.admin`], ...ofTeams, ...inTeams, ...scopes, ...others];
}

/** Returns the scope that grants the right in one team alone. */
function inTeam(scope: string, team: string): string {
  return scope.replace(/^bosh/, `bosh.teams.${team}`);
}

/** Throws PermissionDeniedError when the gRPC caller may not perform the operation. */
export function checkRole(operation: Operation, identity: Identity): void {
  const { roles, isScoped: keepsToScope = false }: Rule = POLICY[operation];
  if (roles.includes(identity.role) && (keepsToScope || !isScoped(identity))) return;
  const text = `${formatIdentity(identity)} may not ${operation}: allowed are ${roles.join(", ")}`;
  throw new PermissionDeniedError(text);
}

export function isAllowed(
  operation: Operation,
  scopes: readonly string[],
  directorId: string,
  teams: readonly string[] = [],
): boolean {
  return scopesFor(operation, directorId, teams).some((set) => set.every((scope) => scopes.includes(scope)));
}

const TEAM_SCOPE = /^bosh\.teams\.([^.]+)\.(admin|read|dynamic-disks\.[a-z]+)$/;

/** Returns the teams that a login with these scopes administers; with "any" all teams in which it has a right. */
export function teamsOfLogin(scopes: readonly string[], right: "admin" | "any"): string[] {
  const found = scopes.map((scope) => TEAM_SCOPE.exec(scope));
  const names = found.flatMap((match) => (match !== null && (right === "any" || match[2] === right) ? match[1] : []));
  return [...new Set(names.filter((name) => name !== undefined))];
}

/** Returns the teams at which the login's right to the operation ends; undefined when it ends at none. */
export function teamsOfRight(
  operation: Operation,
  scopes: readonly string[],
  directorId: string,
): string[] | undefined {
  if (isAllowed(operation, scopes, directorId)) return undefined;
  return teamsOfLogin(scopes, "any").filter((team) => isAllowed(operation, scopes, directorId, [team]));
}

/** Returns the required scopes in the format of a BOSH director. */
export function formatScopes(sets: ScopeSets): string {
  return sets.map((set) => (set.length === 1 ? set[0] : `(${set.join(" AND ")})`)).join(", ");
}
