import type { CallContext } from "./call-context.js";

/** What makes, encodes and decodes the messages of one type, in the shape that ts-proto generates. */
export interface MessageType {
  // Written as methods, whose parameters TypeScript compares both ways: a type of concrete messages is also one of unknown ones.
  encode(message: unknown): { finish(): Uint8Array };
  decode(bytes: Uint8Array): unknown;
  /** Completes a message with the defaults of the fields that it leaves out. */
  fromPartial(partial: unknown): unknown;
}

/** A service as ts-proto describes it: its methods by the name that handlers and clients have. */
export interface ServiceDefinition {
  readonly fullName: string;
  readonly methods: Readonly<
    Record<
      string,
      {
        readonly name: string;
        readonly requestType: MessageType;
        readonly requestStream: boolean;
        readonly responseType: MessageType;
        readonly responseStream: boolean;
      }
    >
  >;
}

/** One method as it is called and served: the shape of grpc-js. A request may leave fields out, a response none. */
export interface MethodDefinition {
  readonly path: string;
  readonly requestStream: boolean;
  readonly responseStream: boolean;
  readonly requestSerialize: (request: unknown) => Buffer;
  readonly requestDeserialize: (bytes: Buffer) => unknown;
  readonly responseSerialize: (response: unknown) => Buffer;
  readonly responseDeserialize: (bytes: Buffer) => unknown;
}

/** The methods of a service, with the names that its handlers and clients have. */
export function methodsOf({ fullName, methods }: ServiceDefinition): [string, MethodDefinition][] {
  return Object.entries(methods).map(([key, { name, requestType, requestStream, responseType, responseStream }]) => [
    key,
    {
      path: `/${fullName}/${name}`,
      requestStream,
      responseStream,
      requestSerialize: (request) => encoded(requestType, requestType.fromPartial(request)),
      requestDeserialize: (bytes) => requestType.decode(bytes),
      responseSerialize: (response) => encoded(responseType, response),
      responseDeserialize: (bytes) => responseType.decode(bytes),
    },
  ]);
}

function encoded(type: MessageType, message: unknown): Buffer {
  const { buffer, byteOffset, byteLength } = type.encode(message).finish();
  return Buffer.from(buffer, byteOffset, byteLength);
}

type RequestOf<Method> = Method extends { requestType: { decode(bytes: Uint8Array): infer Request } } ? Request : never;
type ResponseOf<Method> = Method extends { responseType: { decode(bytes: Uint8Array): infer Response } }
  ? Response
  : never;
/** A request without the fields that keep their defaults. */
type PartialRequestOf<Method> = Method extends { requestType: { fromPartial(partial: infer Partial): unknown } }
  ? Partial
  : never;

/** What serves one method. Requests that stream come as an AsyncIterable; responses that stream are returned as one. */
type Handler<Method> = Method extends { requestStream: true; responseStream: true }
  ? (requests: AsyncIterable<RequestOf<Method>>, call: CallContext) => AsyncIterable<ResponseOf<Method>>
  : Method extends { requestStream: true }
    ? (requests: AsyncIterable<RequestOf<Method>>, call: CallContext) => Promise<ResponseOf<Method>>
    : Method extends { responseStream: true }
      ? (request: RequestOf<Method>, call: CallContext) => AsyncIterable<ResponseOf<Method>>
      : (request: RequestOf<Method>, call: CallContext) => Promise<ResponseOf<Method>>;

/** One handler for every method of a service. */
export type Handlers<Definition extends Pick<ServiceDefinition, "methods">> = {
  readonly [Name in keyof Definition["methods"]]: Handler<Definition["methods"][Name]>;
};

export interface CallOptions {
  /** Cancels the call. What the server did by then is not known. */
  readonly signal?: AbortSignal;
  /** Time the call may take, in milliseconds from now. Streams without it have no deadline. */
  readonly deadlineMs?: number;
  /** Carried to the server, so that its log lines can be found from here. A malformed one is left out. */
  readonly requestId?: string;
}

type ClientMethod<Method> = Method extends { requestStream: true; responseStream: true }
  ? (requests: AsyncIterable<PartialRequestOf<Method>>, options?: CallOptions) => AsyncIterable<ResponseOf<Method>>
  : Method extends { requestStream: true }
    ? (requests: AsyncIterable<PartialRequestOf<Method>>, options?: CallOptions) => Promise<ResponseOf<Method>>
    : Method extends { responseStream: true }
      ? (request: PartialRequestOf<Method>, options?: CallOptions) => AsyncIterable<ResponseOf<Method>>
      : (request: PartialRequestOf<Method>, options?: CallOptions) => Promise<ResponseOf<Method>>;

/** A client of one service. Every failure is thrown as a DomainError. */
export type Client<Definition extends Pick<ServiceDefinition, "methods">> = {
  readonly [Name in keyof Definition["methods"]]: ClientMethod<Definition["methods"][Name]>;
} & {
  /** Ends the connection; calls under way fail. */
  close(): void;
};
