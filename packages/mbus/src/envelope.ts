import { InvalidArgumentError, isJsonObject, type JsonObject, parseJson, quoted } from "@diskmesh/domain";

/**
 * Version of the agent protocol that requests announce. In version 3, list_disk is asynchronous, and stop waits until
 * the jobs have stopped.
 */
const PROTOCOL = 3;

/** Maximum size of a request or reply. NATS and stock agents refuse larger ones. */
export const MAX_PAYLOAD_BYTES = 1024 * 1024;

const TRUNCATION_MARK = "...[truncated]...";
const TOO_LONG = "Response exceeded maximum allowed length";
const METHOD_PATTERN = /^[A-Za-z0-9_]{1,64}$/;

/** A decoded request. Trace headers and `answerWithinMs` are extra keys of the envelope, which stock agents ignore. */
export interface AgentRequest {
  readonly method: string;
  readonly args: readonly unknown[];
  readonly replyTo: string;
  readonly traceHeaders: Readonly<Record<string, string>>;
  /**
   * Time for which an async request may wait for its task to end. A task that ends within this time is answered with
   * its result and need not be polled. With 0, the answer is always the task.
   */
  readonly answerWithinMs: number;
}

export type AgentReply = { readonly value: unknown } | { readonly exception: string };

const TRACE_HEADERS = ["traceparent", "tracestate"] as const;

export function encodeRequest(request: AgentRequest): Uint8Array {
  const { method, args, replyTo, traceHeaders, answerWithinMs } = request;
  const data = encodeJson({
    ...traceHeaders,
    ...(answerWithinMs > 0 && { answer_within_ms: answerWithinMs }),
    protocol: PROTOCOL,
    method,
    arguments: args,
    reply_to: replyTo,
  });
  if (data.length > MAX_PAYLOAD_BYTES)
    throw new InvalidArgumentError(
      `the request ${method} to an agent is ${data.length} bytes long: mbus takes at most ${MAX_PAYLOAD_BYTES}`,
    );
  return data;
}

/** Throws InvalidArgumentError for anything but a request. */
export function decodeRequest(data: Uint8Array): AgentRequest {
  const envelope = decodeObject("request", data);
  const { method, arguments: args = [], reply_to: replyTo, answer_within_ms: withinMs } = envelope;
  if (typeof replyTo !== "string") throw new InvalidArgumentError("the request has no reply_to");
  if (typeof method !== "string") throw new InvalidArgumentError("the request's method is not a string");
  if (!METHOD_PATTERN.test(method))
    throw new InvalidArgumentError(`the request's method ${quoted(method)} is not a name`);
  if (!Array.isArray(args)) throw new InvalidArgumentError(`the arguments of ${method} are not a list`);
  const traceHeaders: Record<string, string> = {};
  for (const name of TRACE_HEADERS) {
    const value = envelope[name];
    if (typeof value === "string") traceHeaders[name] = value;
  }
  const answerWithinMs = typeof withinMs === "number" ? Math.max(withinMs, 0) : 0;
  return { method, args, replyTo, traceHeaders, answerWithinMs };
}

/** Encodes a reply within the limit: a long exception loses its middle, a long value becomes an exception. */
export function encodeReply(reply: AgentReply): Uint8Array {
  if ("value" in reply) {
    const data = encodeJson({ value: reply.value ?? null });
    return data.length <= MAX_PAYLOAD_BYTES ? data : encodeException(TOO_LONG);
  }
  // Escapes make the encoded length unpredictable, so the text shrinks until it fits.
  for (let keptLength = MAX_PAYLOAD_BYTES; ; keptLength = Math.floor(keptLength * 0.75)) {
    const data = encodeException(truncateMiddle(reply.exception, keptLength));
    if (data.length <= MAX_PAYLOAD_BYTES) return data;
  }
}

/** Throws InvalidArgumentError for anything but a reply. */
export function decodeReply(data: Uint8Array): AgentReply {
  const envelope = decodeObject("reply", data);
  const { exception } = envelope;
  if (isJsonObject(exception) && "message" in exception) {
    const { message } = exception;
    return { exception: typeof message === "string" ? message : JSON.stringify(message) };
  }
  if (Object.hasOwn(envelope, "value")) return { value: envelope.value };
  throw new InvalidArgumentError("the reply holds neither a value nor an exception");
}

/** Shortens a text to `maxLength` characters by removing its middle. */
export function truncateMiddle(text: string, maxLength: number): string {
  if (text.length <= maxLength) return text;
  const keptLength = Math.max(0, maxLength - TRUNCATION_MARK.length);
  const headLength = Math.ceil(keptLength / 2);
  return text.slice(0, headLength) + TRUNCATION_MARK + text.slice(text.length - (keptLength - headLength));
}

function encodeException(message: string): Uint8Array {
  return encodeJson({ exception: { message } });
}

function encodeJson(value: unknown): Uint8Array {
  return Buffer.from(JSON.stringify(value), "utf8");
}

function decodeObject(what: string, data: Uint8Array): JsonObject {
  if (data.length > MAX_PAYLOAD_BYTES)
    throw new InvalidArgumentError(`the ${what} is ${data.length} bytes long: mbus takes at most ${MAX_PAYLOAD_BYTES}`);
  const decoded = parseJson(`the ${what}`, Buffer.from(data).toString("utf8"));
  if (!isJsonObject(decoded)) throw new InvalidArgumentError(`the ${what} is not a JSON object`);
  return decoded;
}
