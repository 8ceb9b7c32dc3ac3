import { type MethodDefinition, methodsOf, type RpcServer } from "@diskmesh/rpc";
import type { SimProcess } from "./seed/timeline.js";

export interface ServedMethod {
  readonly method: MethodDefinition;
  readonly roles: readonly string[];
  readonly handler: unknown;
}

/** A process that serves at an address, built with the services' own registration code. */
export class SimServer implements Pick<RpcServer, "addService"> {
  readonly methods = new Map<string, ServedMethod>();
  /** Functions that tell calls in progress that the process has ended. */
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
