import type { BinaryReader } from "@bufbuild/protobuf/wire";
import type { CallContext } from "./call-context.js";
import { decodeRequest } from "./integer-range.js";

/** What makes, encodes and decodes the messages of one type, in the shape that ts-proto generates. */
interface MessageType {
  // Written as methods, whose parameters TypeScript compares both ways: a type of concrete messages is also one of unknown ones.
  encode(message: unknown): { finish(): Uint8Array };
  decode(bytes: Uint8Array | BinaryReader): unknown;
  /** Completes a message with the defaults of the fields that it leaves out. */
  fromPartial(partial: unknown): unknown;
}

interface MethodType {
  readonly name: string;
  readonly requestType: MessageType;
  readonly requestStream: boolean;
  readonly responseType: MessageType;
  readonly responseStream: boolean;
}

/** A service as ts-proto describes it: its methods by the name that handlers and clients have. */
export interface ServiceDefinition {
  readonly fullName: string;
  readonly methods: Readonly<Record<string, MethodType>>;
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
/** A message of a type, e.g. `PartialOf<typeof BlockIoRequest>`, without the fields that keep their defaults. */
export type PartialOf<Type> = Type extends { fromPartial(partial: infer Partial): unknown } ? Partial : never;

/** A function for a method. Messages that stream are given and returned as an AsyncIterable. */
type Call<Method extends MethodType, Request, Response, More extends unknown[]> = (
  request: Method["requestStream"] extends true ? AsyncIterable<Request> : Request,
  ...more: More
) => Method["responseStream"] extends true ? AsyncIterable<Response> : Promise<Response>;

type Methods = Pick<ServiceDefinition, "methods">;

/** One handler for every method of a service. */
export type Handlers<Definition extends Methods> = {
  readonly [Name in keyof Definition["methods"]]: Call<
    Definition["methods"][Name],
    MessageOf<Definition["methods"][Name]["requestType"]>,
    MessageOf<Definition["methods"][Name]["responseType"]>,
    [call: CallContext]
  >;
};

/** Handlers of some methods of a service, whose answers may leave fields out: what a fake is made of. */
export type PartialHandlers<Definition extends Methods> = {
  readonly [Name in keyof Definition["methods"]]?: Call<
    Definition["methods"][Name],
    MessageOf<Definition["methods"][Name]["requestType"]>,
    PartialOf<Definition["methods"][Name]["responseType"]>,
    [call: CallContext]
  >;
};

export interface CallOptions {
  /** Cancels the call. What the server did by then is not known. */
  readonly signal?: AbortSignal;
  /** Time the call may take, in milliseconds from now. Streams without it have no deadline. */
  readonly deadlineMs?: number;
  /** Carried to the server, so that its log lines can be found from here. A malformed one is left out. */
  readonly requestId?: string;
}

/** A client of one service, which completes requests that leave fields out. Every failure is thrown as a DomainError. */
export type Client<Definition extends Methods> = {
  readonly [Name in keyof Definition["methods"]]: Call<
    Definition["methods"][Name],
    PartialOf<Definition["methods"][Name]["requestType"]>,
    MessageOf<Definition["methods"][Name]["responseType"]>,
    [options?: CallOptions]
  >;
} & {
  /** Ends the connection; calls under way fail. */
  close(): void;
};
