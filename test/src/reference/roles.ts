import { addServices as addDispatcherServices } from "@diskmesh/cpi-dispatcher/testing";
import { addServices as addDirectorServices } from "@diskmesh/director/testing";
import { addServices as addAgentServices } from "@diskmesh/disk-agent/simulation";
import { addServices as addRegistryServices } from "@diskmesh/disk-registry/simulation";
import { OPERATOR_ROLES, type Role } from "@diskmesh/domain";
import type { RpcServer } from "@diskmesh/rpc";

/** A gRPC service of a process. */
export interface OfferedService {
  readonly process: string;
  /** Roles that may call each method, by its name in the proto. */
  readonly roles: ReadonlyMap<string, readonly Role[]>;
  /** Names of the methods, in the proto, that accept callers with a scope. */
  readonly scoped: readonly string[];
}

type Server = Pick<RpcServer, "addService">;

const PROCESSES: Readonly<Record<string, (server: Server) => void>> = {
  director: (server) => addDirectorServices(server, unreached),
  "cpi-dispatcher": (server) => addDispatcherServices(server, unreached),
  "disk-registry": (server) => addRegistryServices(server, unreached),
  "disk-agent": (server) => addAgentServices(server, unreached),
};

/** Returns the services of all processes by full name. A service of several processes has an entry for each. */
export function offeredServices(): ReadonlyMap<string, readonly OfferedService[]> {
  const found = new Map<string, OfferedService[]>();
  for (const [process, addServices] of Object.entries(PROCESSES)) {
    const addService = (
      definition: { readonly fullName: string; readonly methods: Readonly<Record<string, { readonly name: string }>> },
      options: { readonly roles: Readonly<Record<string, readonly Role[]>>; readonly scoped?: ReadonlySet<string> },
    ) => {
      const { roles, scoped = new Set<string>() } = options;
      const byName = Object.entries(definition.methods).map(([key, { name }]) => [name, roles[key] ?? []] as const);
      const ofScoped = [...scoped].flatMap((key) => definition.methods[key]?.name ?? []);
      const offered = { process, roles: new Map(byName), scoped: ofScoped };
      found.set(definition.fullName, [...(found.get(definition.fullName) ?? []), offered]);
    };
    addServices({ addService } as unknown as Server);
  }
  return found;
}

/** Formats roles; the five roles of operators are shown as one. */
export function rolesShown(roles: readonly Role[]): string {
  const isAny = OPERATOR_ROLES.every((role) => roles.includes(role));
  const others = isAny ? roles.filter((role) => !OPERATOR_ROLES.includes(role)) : roles;
  return [...(isAny ? ["any operator's"] : []), ...others].join(", ");
}

function unreached(): never {
  throw new Error("nothing is called here");
}
