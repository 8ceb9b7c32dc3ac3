import { type DomainError, InvalidArgumentError, type Role } from "@diskmesh/domain";
import { CurrentTls, readServerTlsFiles, type TlsFiles } from "@diskmesh/tls";
import "../call/quiet-grpc.js";
import { type ConnectionInjector, Server, ServerCredentials, type UntypedServiceImplementation } from "@grpc/grpc-js";
import { type Handlers, methodsOf, type ServiceDefinition } from "../call/definition.js";
import { guardStreams, streamOfCall } from "../call/grpc-js-internals.js";
import { KEEPALIVE_OPTIONS, type RpcServerLimits } from "../call/limits.js";
import { callerOfStream } from "../call/peer-identity.js";
import { CallGate, type RpcChange, type RpcFailure } from "./call-gate.js";
import type { Healthy } from "./health.js";
import { findProtoFolder, Infrastructure } from "./infrastructure.js";
import { type ListenAddress, type RefusedConnection, SecureListener } from "./secure-listener.js";
import { serveMethod, tolerantDecoder } from "./serve.js";
import { SilentStreams } from "./silent-streams.js";

export interface RpcServerOptions {
  readonly tls: TlsFiles;
  readonly limits: RpcServerLimits;
  /** Folder of the .proto files for reflection; defaults to the repository's own. */
  readonly protoFolder?: string;
  /** Called for every failed call, for the log. */
  readonly onError?: (failure: RpcFailure) => void;
  /** Called for every answered call of a method that may change something, for the log. */
  readonly onChange?: (change: RpcChange) => void;
  /** Called for every refused connection, for the log. */
  readonly onRefused?: (refused: RefusedConnection) => void;
  /** Returns the reason when no further connection may be accepted now, e.g. a shortage of descriptors. */
  readonly shortage?: () => string | undefined;
  /** Called when serving a stream threw an error, for the log; the process continues. */
  readonly onBrokenStream?: (error: unknown) => void;
}

/** Roles that may call a service: for all methods, or by method. */
export type AllowedRoles<Definition extends ServiceDefinition> =
  | readonly Role[]
  | { readonly [Name in keyof Definition["methods"]]: readonly Role[] };

// Delay before connections are closed, in which calls that outlasted the drain get their errors.
const LAST_ANSWERS_MS = 200;

/**
 * A gRPC server over mutual TLS. It identifies callers by their certificates, checks roles, deadlines and limits before
 * a handler runs, turns what handlers throw into statuses, and serves health and reflection.
 */
export class RpcServer {
  readonly #server: Server;
  readonly #gate: CallGate;
  readonly #silent: SilentStreams;
  readonly #infrastructure: Infrastructure;
  readonly #connections: ConnectionInjector;
  readonly #listeners: SecureListener[] = [];
  #tls: CurrentTls | undefined;
  #drained: Promise<void> | undefined;

  constructor(private readonly options: RpcServerOptions) {
    const { limits } = options;
    this.#server = new Server({
      "grpc.max_receive_message_length": limits.maxMessageBytes,
      "grpc.max_send_message_length": limits.maxMessageBytes,
      // HTTP/2 limit per connection, above the limit of calls, so that admission control refuses calls with a reason.
      // Not unlimited, because a stream uses memory before its request is complete.
      "grpc.max_concurrent_streams": limits.maxConcurrentCalls * 2 + 100,
      "grpc.enable_channelz": 0,
      ...KEEPALIVE_OPTIONS,
    });
    guardStreams(this.#server, {
      onOpened: (stream) => this.#silent.opened(stream, callerOfStream(stream).name),
      onBroken: options.onBrokenStream ?? (() => {}),
    });
    // The listener terminates TLS before grpc-js gets a connection.
    this.#connections = this.#server.createConnectionInjector(ServerCredentials.createInsecure());
    this.#silent = new SilentStreams(limits);
    this.#gate = new CallGate(limits, options.onError ?? (() => {}), options.onChange ?? (() => {}));
    this.#infrastructure = new Infrastructure(limits, (call) => this.#heard(call));
    this.#infrastructure.addHealth(this.#server);
  }

  /**
   * Adds a service before `listen`. A caller whose role is not allowed gets PERMISSION_DENIED. So does
   * a scoped caller of a method that is not in `scoped`.
   */
  addService<Definition extends ServiceDefinition>(
    definition: Definition,
    options: {
      readonly roles: AllowedRoles<Definition>;
      readonly handlers: Handlers<Definition>;
      /** Names of the methods that may change something. */
      readonly changing?: ReadonlySet<string>;
      /** Names of the methods that accept scoped callers. */
      readonly scoped?: ReadonlySet<string>;
    },
  ): void {
    const implementation: UntypedServiceImplementation = {};
    const tolerant: Record<string, unknown> = {};
    for (const [name, method] of methodsOf(definition)) {
      const handler = (options.handlers as Record<string, unknown>)[name];
      if (typeof handler !== "function") throw new InvalidArgumentError(`no handler for ${method.path}`);
      const gated = {
        path: method.path,
        roles: new Set(rolesOf(options.roles, name)),
        changes: options.changing?.has(name) ?? false,
        isScoped: options.scoped?.has(name) ?? false,
        streams: method.requestStream || method.responseStream,
        requestStream: method.requestStream,
        responseStream: method.responseStream,
        encode: method.responseSerialize,
      };
      const serve = handler.bind(options.handlers);
      implementation[name] = serveMethod(this.#gate, gated, (call) => this.#heard(call), serve);
      tolerant[name] = {
        ...method,
        requestDeserialize: tolerantDecoder(method.requestDeserialize),
        responseSerialize: (bytes: Buffer) => bytes,
      };
    }
    this.#server.addService(tolerant as never, implementation);
    this.#infrastructure.addService(definition.fullName);
  }

  /** Starts to accept calls and returns the port. Health reports NOT_SERVING until `setServing(true)`. */
  async listen(address: ListenAddress): Promise<number> {
    readServerTlsFiles(this.options.tls, Date.now());
    await this.#infrastructure.addReflection(this.#server, this.options.protoFolder ?? findProtoFolder());
    this.#tls ??= CurrentTls.open(this.options.tls);
    const listener = new SecureListener({
      tls: this.#tls,
      limits: this.options.limits,
      shortage: this.options.shortage ?? (() => undefined),
      onConnection: (socket) => this.#connections.injectConnection(socket),
      onRefused: this.options.onRefused ?? (() => {}),
    });
    const port = await listener.listen(address);
    this.#listeners.push(listener);
    return port;
  }

  /**
   * Sets the health: `serving` for each service, `ready` for the whole server (all its dependencies are met), and the
   * reason. Stays NOT_SERVING once the server stops.
   */
  setServing(serving: boolean, ready = serving, why?: string): void {
    if (this.#drained === undefined) this.#infrastructure.setServing(serving, ready, why);
  }

  /** Sets the health of a named part of the process besides its services; undefined means unknown. */
  setHealth(part: string, healthy: Healthy, why?: string): void {
    this.#infrastructure.setHealth(part, healthy, why);
  }

  /** Fails all calls under way with the reason; new calls are still served. */
  abortCalls(reason: DomainError): void {
    this.#gate.abortCalls(reason);
  }

  /**
   * Stops the server: refuses new connections and calls, ends streams, waits up to `limits.drainTimeoutMs` for other
   * calls, then fails the remaining ones and closes every connection.
   */
  drain(): Promise<void> {
    this.#drained ??= this.#drain();
    return this.#drained;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.drain();
  }

  #heard(call: object): void {
    const stream = streamOfCall(call);
    if (stream) this.#silent.heard(stream);
  }

  async #drain(): Promise<void> {
    this.#infrastructure.setServing(false, false, "the process stops");
    for (const listener of this.#listeners) listener.close();
    this.#infrastructure.endStreams();
    await this.#gate.drain();
    // Only now, because a connection that closes loses its calls at the next keepalive (see KEEPALIVE_OPTIONS).
    const closed = new Promise<void>((resolve) => this.#server.tryShutdown(() => resolve()));
    this.#connections.drain(LAST_ANSWERS_MS);
    await closed;
    this.#tls?.close();
  }
}

function rolesOf<Definition extends ServiceDefinition>(
  roles: AllowedRoles<Definition>,
  method: string,
): readonly Role[] {
  return Array.isArray(roles) ? roles : ((roles as Record<string, readonly Role[]>)[method] ?? []);
}
