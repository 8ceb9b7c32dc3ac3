import { type MethodDefinition, methodsOf, type RpcServer } from "@diskmesh/rpc";
import type { SimProcess } from "./timeline.js";

export interface ServedMethod {
  readonly method: MethodDefinition;
  readonly roles: readonly string[];
  readonly handler: unknown;
}

/** One process that serves at an address. Built by the services' own registration code. */
export class SimServer implements Pick<RpcServer, "addService"> {
  readonly methods = new Map<string, ServedMethod>();
  /** How calls under way learn that the process is gone. */
  readonly cut = new Set<() => void>();

  constructor(readonly process: SimProcess) {}

  addService: RpcServer["addService"] = (definition, options) => {
    for (const [name, method] of methodsOf(definition)) {
      const roles = Array.isArray(options.roles)
        ? options.roles
        : ((options.roles as unknown as Record<string, readonly string[]>)[name] ?? []);
      const handler = (options.handlers as Record<string, unknown>)[name];
      if (handler !== undefined) this.methods.set(method.path, { method, roles, handler });
    }
  };
}
