import type { Role } from "@diskmesh/domain";
import type { Handlers, ServiceDefinition } from "../call/definition.js";
import type { RpcServer } from "./server.js";

/** A handler with the service's context as an additional first parameter. */
export type Serve<Context, Handler> = Handler extends (...args: infer Args) => infer Answer
  ? (context: Context, ...args: Args) => Answer
  : never;

/** A method of a service: the roles that may call it, and its handler. */
export interface OfferedMethod<Serving> {
  readonly roles: readonly Role[];
  /** True when the method may change something; each of its calls is then logged. */
  readonly changes: boolean;
  /** True when the handler keeps scoped callers within their scope. All other methods refuse scoped callers. */
  readonly isScoped?: true;
  readonly serve: Serving;
}

/** Offers a method that only reads. */
export function allow<Serving>(roles: readonly Role[], serve: Serving): OfferedMethod<Serving> {
  return { roles, changes: false, serve };
}

/** Offers a method that may change something. */
export function allowChange<Serving>(roles: readonly Role[], serve: Serving): OfferedMethod<Serving> {
  return { roles, changes: true, serve };
}

/** Also offers the method to callers whose identity has a scope. The handler must keep them within it. */
export function scoped<Serving>(method: OfferedMethod<Serving>): OfferedMethod<Serving> {
  return { ...method, isScoped: true };
}

/**
 * Registers a service from a table that has its methods. Each RPC gets its context from `current`, because each term of
 * leadership has its own context. `current` throws while this process does not serve.
 */
export function offer<Context, Definition extends ServiceDefinition>(
  server: Pick<RpcServer, "addService">,
  definition: Definition,
  current: () => Context,
  methods: {
    readonly [Name in keyof Definition["methods"]]: OfferedMethod<Serve<Context, Handlers<Definition>[Name]>>;
  },
): void {
  type Any = OfferedMethod<(context: Context, ...args: unknown[]) => unknown>;
  const all = methods as unknown as Readonly<Record<string, Any>>;
  const offered = Object.keys(definition.methods).map((name) => [name, all[name] as Any] as const);
  const roles = Object.fromEntries(offered.map(([name, method]) => [name, method.roles]));
  const handlers = Object.fromEntries(
    offered.map(([name, { serve }]) => [name, (...args: unknown[]) => serve(current(), ...args)]),
  );
  server.addService(definition, {
    changing: new Set(offered.flatMap(([name, { changes }]) => (changes ? [name] : []))),
    scoped: new Set(offered.flatMap(([name, { isScoped }]) => (isScoped ? [name] : []))),
    roles: roles as Readonly<Record<keyof Definition["methods"], readonly Role[]>>,
    handlers: handlers as Handlers<Definition>,
  });
}
