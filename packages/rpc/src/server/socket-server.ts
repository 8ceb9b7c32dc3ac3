import { chmod, rm } from "node:fs/promises";
import { DomainError } from "@diskmesh/domain";
import "../call/quiet-grpc.js";
import {
  type handleUnaryCall,
  Server,
  ServerCredentials,
  type ServerUnaryCall,
  status,
  type UntypedServiceImplementation,
} from "@grpc/grpc-js";
import { context } from "@opentelemetry/api";
import { type MethodDefinition, methodsOf, type PartialOf, type ServiceDefinition } from "../call/definition.js";
import { DEFAULT_RPC_SERVER_LIMITS } from "../call/limits.js";
import { REQUEST_ID_HEADER, RequestIds } from "../call/request-id.js";
import { endCall, startServerSpan } from "../call/tracing.js";
import { passingCause } from "../errors/passing-causes.js";
import { statusOfError } from "../errors/status-of-error.js";
import { decoded, tolerantDecoder } from "./serve.js";

/** A call of a SocketServer. */
export interface SocketCall {
  /** Time of the client's deadline by the wall clock; infinite without one. */
  readonly deadlineAtMs: number;
  readonly requestId: string;
}

/** A failed call, for the log. Requests are not part of it, because they may contain secrets. */
interface SocketFailure {
  readonly method: string;
  readonly status: string;
  readonly requestId: string;
  readonly durationMs: number;
  readonly error: unknown;
  /** True for a bug; false for an error that the client received. */
  readonly unexpected: boolean;
}

type Methods = Pick<ServiceDefinition, "methods">;
type Decoded<Type> = Type extends { decode(bytes: Uint8Array): infer Message } ? Message : never;

/** Handlers of the offered methods of a service. Their answers may lack fields, which then have their defaults. */
export type SocketHandlers<Definition extends Methods> = {
  readonly [Name in keyof Definition["methods"]]?: (
    request: Decoded<Definition["methods"][Name]["requestType"]>,
    call: SocketCall,
  ) => Promise<PartialOf<Definition["methods"][Name]["responseType"]>>;
};

export interface SocketServerOptions {
  /** Returns the code for errors whose code is none of those that REASONS has. */
  readonly codeOf: (error: unknown) => status | undefined;
  readonly onError: (failure: SocketFailure) => void;
}

/**
 * A gRPC server on a Unix socket, for protocols of others such as CSI. It has no TLS and no roles: whoever may open the
 * socket may call every method. Methods without a handler answer UNIMPLEMENTED. Statuses have no details.
 */
export class SocketServer {
  readonly #server = new Server({ "grpc.max_receive_message_length": DEFAULT_RPC_SERVER_LIMITS.maxMessageBytes });
  readonly #requestIds = new RequestIds();

  constructor(private readonly options: SocketServerOptions) {}

  addService<Definition extends ServiceDefinition>(definition: Definition, handlers: SocketHandlers<Definition>): void {
    const methods: Record<string, unknown> = {};
    const implementation: UntypedServiceImplementation = {};
    for (const [name, method] of methodsOf(definition)) {
      const complete = definition.methods[name]?.responseType.fromPartial ?? ((partial: unknown) => partial);
      methods[name] = {
        ...method,
        requestDeserialize: tolerantDecoder(method.requestDeserialize),
        responseSerialize: (answer: unknown) => method.responseSerialize(complete(answer)),
      };
      const handler = (handlers as Readonly<Record<string, SocketHandler | undefined>>)[name];
      if (handler !== undefined) implementation[name] = this.#serve(method, handler);
    }
    this.#server.addService(methods as never, implementation);
  }

  /** Serves on the socket, which this process's user and group may open. Replaces a socket that a former process left. */
  async listen(socketPath: string): Promise<void> {
    await rm(socketPath, { force: true });
    await new Promise<void>((resolve, reject) => {
      this.#server.bindAsync(`unix://${socketPath}`, ServerCredentials.createInsecure(), (error) =>
        error === null ? resolve() : reject(error),
      );
    });
    await chmod(socketPath, 0o660);
  }

  /** Refuses new calls, and waits for running ones up to the drain timeout. */
  async drain(): Promise<void> {
    const timer = setTimeout(() => this.#server.forceShutdown(), DEFAULT_RPC_SERVER_LIMITS.drainTimeoutMs);
    await new Promise<void>((resolve) => this.#server.tryShutdown(() => resolve()));
    clearTimeout(timer);
  }

  #serve(method: MethodDefinition, handler: SocketHandler): handleUnaryCall<unknown, unknown> {
    return (call, callback) => {
      const startedMs = performance.now();
      const requestId = this.#requestIds.of(call.metadata.get(REQUEST_ID_HEADER)[0]);
      const traced = startServerSpan(method.path, call.metadata);
      const fail = (error: unknown): void => {
        const { code: ownCode, details } = statusOfError(error, requestId);
        const code = this.options.codeOf(error) ?? ownCode;
        const unexpected = !(error instanceof DomainError) && passingCause(error, requestId) === undefined;
        const durationMs = performance.now() - startedMs;
        const { path } = method;
        context.with(traced.context, () =>
          this.options.onError({ method: path, status: status[code], requestId, durationMs, error, unexpected }),
        );
        endCall(traced, code, error instanceof Error ? error : undefined);
        callback({ code, details });
      };
      const answered = (answer: unknown): void => {
        endCall(traced, status.OK);
        callback(null, answer);
      };
      const asked = { deadlineAtMs: deadlineOf(call), requestId };
      context.with(traced.context, async () => handler(decoded(call.request, method.path), asked)).then(answered, fail);
    };
  }
}

type SocketHandler = (request: unknown, call: SocketCall) => Promise<unknown>;

function deadlineOf(call: ServerUnaryCall<unknown, unknown>): number {
  const deadline = call.getDeadline();
  return typeof deadline === "number" ? deadline : deadline.getTime();
}
