import type { CallContext } from "./call-context.js";

/** One method of a service, in the shape that ts-proto generates for grpc-js. */
export interface MethodDefinition<Request = unknown, Response = unknown> {
  readonly path: string;
  readonly requestStream: boolean;
  readonly responseStream: boolean;
  // Written as methods, whose parameters TypeScript compares both ways: a definition of concrete messages is also one of unknown ones.
  requestSerialize(message: Request): Buffer;
  requestDeserialize(bytes: Buffer): Request;
  responseSerialize(message: Response): Buffer;
  responseDeserialize(bytes: Buffer): Response;
}

/** A generated service definition: its methods by name. */
export type ServiceDefinition = Readonly<Record<string, MethodDefinition>>;

type RequestOf<Method> = Method extends { requestDeserialize: (bytes: Buffer) => infer Request } ? Request : never;
type ResponseOf<Method> = Method extends { responseDeserialize: (bytes: Buffer) => infer Response } ? Response : never;

/** What serves one method. Requests that stream come as an AsyncIterable; responses that stream are returned as one. */
export type Handler<Method> = Method extends { requestStream: true; responseStream: true }
  ? (requests: AsyncIterable<RequestOf<Method>>, call: CallContext) => AsyncIterable<ResponseOf<Method>>
  : Method extends { requestStream: true }
    ? (requests: AsyncIterable<RequestOf<Method>>, call: CallContext) => Promise<ResponseOf<Method>>
    : Method extends { responseStream: true }
      ? (request: RequestOf<Method>, call: CallContext) => AsyncIterable<ResponseOf<Method>>
      : (request: RequestOf<Method>, call: CallContext) => Promise<ResponseOf<Method>>;

/** One handler for every method of a service. */
export type Handlers<Definition> = { readonly [Method in keyof Definition]: Handler<Definition[Method]> };

export interface CallOptions {
  /** Cancels the call. What the server did by then is not known. */
  readonly signal?: AbortSignal;
  /** Time the call may take, in milliseconds from now. Streams without it have no deadline. */
  readonly deadlineMs?: number;
  /** Carried to the server, so that its log lines can be found from here. A malformed one is left out. */
  readonly requestId?: string;
}

type ClientMethod<Method> = Method extends { requestStream: true; responseStream: true }
  ? (requests: AsyncIterable<RequestOf<Method>>, options?: CallOptions) => AsyncIterable<ResponseOf<Method>>
  : Method extends { requestStream: true }
    ? (requests: AsyncIterable<RequestOf<Method>>, options?: CallOptions) => Promise<ResponseOf<Method>>
    : Method extends { responseStream: true }
      ? (request: RequestOf<Method>, options?: CallOptions) => AsyncIterable<ResponseOf<Method>>
      : (request: RequestOf<Method>, options?: CallOptions) => Promise<ResponseOf<Method>>;

/** A client of one service. Every failure is thrown as a DomainError. */
export type Client<Definition> = { readonly [Method in keyof Definition]: ClientMethod<Definition[Method]> } & {
  /** Ends the connection; calls under way fail. */
  close(): void;
};

/** The full name of the service that a definition describes, e.g. `diskmesh.registry.v1.DiskRegistryService`. */
export function serviceNameOf(definition: ServiceDefinition): string {
  const [method] = Object.values(definition);
  const name = method?.path.split("/")[1];
  if (!name) throw new Error("a service definition has no methods");
  return name;
}
