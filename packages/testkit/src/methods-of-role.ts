import type { Role } from "@diskmesh/domain";
import type { RpcServer } from "@diskmesh/rpc";

/** Which methods a service lets each role call, as it registers its handlers. */
export function methodsOfRole(addServices: (server: Pick<RpcServer, "addService">) => void): (role: Role) => string[] {
  const rolesOf = new Map<string, readonly Role[]>();
  const addService = (_definition: unknown, { roles }: { roles: Readonly<Record<string, readonly Role[]>> }) => {
    for (const [method, allowed] of Object.entries(roles)) rolesOf.set(method, allowed);
  };
  addServices({ addService } as Pick<RpcServer, "addService">);
  return (role) => [...rolesOf].filter(([, roles]) => roles.includes(role)).map(([method]) => method);
}

/** The methods that a service offers without saying that they may change something, in the order of their names. */
export function methodsThatLook(addServices: (server: Pick<RpcServer, "addService">) => void): string[] {
  const looking: string[] = [];
  const addService = (
    definition: { readonly methods: object },
    { changing }: { readonly changing?: ReadonlySet<string> },
  ) => {
    looking.push(...Object.keys(definition.methods).filter((method) => !changing?.has(method)));
  };
  addServices({ addService } as Pick<RpcServer, "addService">);
  return looking.sort();
}
