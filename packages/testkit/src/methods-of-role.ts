import type { Role } from "@diskmesh/domain";
import type { RpcServer } from "@diskmesh/rpc";

/** Returns a function that lists the methods a role may call, as declared when the services are added. */
export function methodsOfRole(addServices: (server: Pick<RpcServer, "addService">) => void): (role: Role) => string[] {
  const rolesOf = new Map<string, readonly Role[]>();
  const addService = (_definition: unknown, { roles }: { roles: Readonly<Record<string, readonly Role[]>> }) => {
    for (const [method, allowed] of Object.entries(roles)) rolesOf.set(method, allowed);
  };
  addServices({ addService } as Pick<RpcServer, "addService">);
  return (role) => [...rolesOf].filter(([, roles]) => roles.includes(role)).map(([method]) => method);
}

/** Returns the names of the methods that accept callers with a scope, sorted. */
export function scopedMethods(addServices: (server: Pick<RpcServer, "addService">) => void): string[] {
  const methods: string[] = [];
  const addService = (_definition: unknown, { scoped = new Set() }: { readonly scoped?: ReadonlySet<string> }) => {
    methods.push(...scoped);
  };
  addServices({ addService } as Pick<RpcServer, "addService">);
  return methods.sort();
}

/** Returns the names of the methods that are not declared as changing, sorted. */
export function readingMethods(addServices: (server: Pick<RpcServer, "addService">) => void): string[] {
  const reading: string[] = [];
  const addService = (
    definition: { readonly methods: object },
    { changing }: { readonly changing?: ReadonlySet<string> },
  ) => {
    reading.push(...Object.keys(definition.methods).filter((method) => !changing?.has(method)));
  };
  addServices({ addService } as Pick<RpcServer, "addService">);
  return reading.sort();
}
