import type { BinaryReader } from "@bufbuild/protobuf/wire";
import type { CallContext } from "./call-context.js";
import { decodeRequest } from "./integer-range.js";

/** Codec of one message type, in the shape that ts-proto generates. */
interface MessageType {
  // Methods rather than function properties: TypeScript compares method parameters bivariantly, so a type of concrete
  // messages is assignable to MessageType.
  encode(message: unknown): { finish(): Uint8Array };
  decode(bytes: Uint8Array | BinaryReader): unknown;
  /** Completes a message with the defaults of missing fields. */
  fromPartial(partial: unknown): unknown;
}

interface MethodType {
  readonly name: string;
  readonly requestType: MessageType;
  readonly requestStream: boolean;
  readonly responseType: MessageType;
  /** False where requests are streamed: no RPC streams both ways. */
  readonly responseStream: boolean;
}

/** Description of a service as ts-proto generates it: methods by the name that handlers and clients use. */
export interface ServiceDefinition {
  readonly fullName: string;
  readonly methods: Readonly<Record<string, MethodType>>;
}

/** One method in the shape of grpc-js. A request may lack fields; a response must be complete. */
export interface MethodDefinition {
  readonly path: string;
  readonly requestStream: boolean;
  readonly responseStream: boolean;
  readonly requestSerialize: (request: unknown) => Buffer;
  readonly requestDeserialize: (bytes: Buffer) => unknown;
  readonly responseSerialize: (response: unknown) => Buffer;
  readonly responseDeserialize: (bytes: Buffer) => unknown;
}

/** Returns the methods of a service with the names that handlers and clients use for them. */
export function methodsOf({ fullName, methods }: ServiceDefinition): [string, MethodDefinition][] {
  return Object.entries(methods).map(([key, { name, requestType, requestStream, responseType, responseStream }]) => [
    key,
    {
      path: `/${fullName}/${name}`,
      requestStream,
      responseStream,
      requestSerialize: (request) => encoded(requestType, requestType.fromPartial(request)),
      requestDeserialize: (bytes) => decodeRequest(requestType, bytes),
      responseSerialize: (response) => encoded(responseType, response),
      responseDeserialize: (bytes) => responseType.decode(bytes),
    },
  ]);
}

function encoded(type: MessageType, message: unknown): Buffer {
  const { buffer, byteOffset, byteLength } = type.encode(message).finish();
  return Buffer.from(buffer, byteOffset, byteLength);
}

type MessageOf<Type> = Type extends { decode(bytes: Uint8Array): infer Message } ? Message : never;
/** A message of a type, e.g. `PartialOf<typeof CreateDiskRequest>`, with all fields optional. */
export type PartialOf<Type> = Type extends { fromPartial(partial: infer Partial): unknown } ? Partial : never;

/** Signature of a method. Streams of messages are AsyncIterables. */
type Call<Method extends MethodType, Request, Response, More extends unknown[]> = (
  request: Method["requestStream"] extends true ? AsyncIterable<Request> : Request,
  ...more: More
) => Method["responseStream"] extends true ? AsyncIterable<Response> : Promise<Response>;

type Methods = Pick<ServiceDefinition, "methods">;

/** Handlers of all methods of a service, by method name. */
export type Handlers<Definition extends Methods> = {
  readonly [Name in keyof Definition["methods"]]: Call<
    Definition["methods"][Name],
    MessageOf<Definition["methods"][Name]["requestType"]>,
    MessageOf<Definition["methods"][Name]["responseType"]>,
    [call: CallContext]
  >;
};

/** Handlers of some methods of a service. Their answers may lack fields; used for fakes. */
export type PartialHandlers<Definition extends Methods> = {
  readonly [Name in keyof Definition["methods"]]?: Call<
    Definition["methods"][Name],
    MessageOf<Definition["methods"][Name]["requestType"]>,
    PartialOf<Definition["methods"][Name]["responseType"]>,
    [call: CallContext]
  >;
};

export interface CallOptions {
  /** Cancels the call. Its effect on the server is then unknown. */
  readonly signal?: AbortSignal;
  /** Time limit of the call, in milliseconds from now. Streams without one have no deadline. */
  readonly deadlineMs?: number;
  /** Id that correlates the server's log lines with this call. A malformed id is ignored. */
  readonly requestId?: string;
}

/** Client of one service; it completes requests that lack fields. Every failure is thrown as a DomainError. */
export type Client<Definition extends Methods> = {
  readonly [Name in keyof Definition["methods"]]: Call<
    Definition["methods"][Name],
    PartialOf<Definition["methods"][Name]["requestType"]>,
    MessageOf<Definition["methods"][Name]["responseType"]>,
    [options?: CallOptions]
  >;
} & {
  /** Closes the connection; calls under way fail. */
  close(): void;
};
