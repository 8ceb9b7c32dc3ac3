import { DomainError, hostPortOf, LEADER_ADDRESS } from "@diskmesh/domain";
import { type Metadata, status } from "@grpc/grpc-js";
import {
  type Context,
  context,
  isSpanContextValid,
  propagation,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  trace,
} from "@opentelemetry/api";
import { outcomeAttributes, recordCall } from "./metrics.js";

// The tracer is looked up for each span, because a cached tracer keeps using the SDK under which it was first used.
const tracer = () => trace.getTracer("@diskmesh/rpc");

const GETTER = {
  keys: (metadata: Metadata): string[] => Object.keys(metadata.getMap()),
  get: (metadata: Metadata, key: string): string | undefined => metadata.get(key)[0]?.toString(),
};
const SETTER = {
  set: (metadata: Metadata, key: string, value: string): void => metadata.set(key, value),
};

/** Span and start time of a call, kept until it ends. */
export interface TracedCall {
  readonly span: Span;
  readonly context: Context;
  readonly side: "server" | "client";
  readonly path: string;
  readonly startedMs: number;
}

/** Starts the span of a served call, as a child of the client's span if the metadata has one. */
export function startServerSpan(path: string, metadata: Metadata): TracedCall {
  const parent = propagation.extract(ROOT_CONTEXT, metadata, GETTER);
  const { name, attributes } = methodSpanOf(path);
  const span = tracer().startSpan(name, { kind: SpanKind.SERVER, attributes }, parent);
  return { span, context: trace.setSpan(parent, span), side: "server", path, startedMs: performance.now() };
}

/** Attributes of the server that a client was made for. */
export type ServerAttributes = Readonly<Record<string, string | number>>;

/** Returns the attributes of a server's address. */
export function serverAttributesOf(address: string): ServerAttributes {
  const { host, port } = hostPortOf(address) ?? { host: address };
  return { "server.address": host, ...(port !== undefined && { "server.port": port }) };
}

/** Starts the span of an outgoing call, and writes its context into the metadata. */
export function startClientSpan(path: string, metadata: Metadata, server: ServerAttributes): TracedCall {
  const parent = context.active();
  const { name, attributes } = methodSpanOf(path);
  const span = tracer().startSpan(name, { kind: SpanKind.CLIENT, attributes: { ...attributes, ...server } }, parent);
  const traced = trace.setSpan(parent, span);
  propagation.inject(traced, metadata, SETTER);
  return { span, context: traced, side: "client", path, startedMs: performance.now() };
}

/** Returns the trace id; undefined without tracing. */
export function traceIdOf({ span }: TracedCall): string | undefined {
  const spanContext = span.spanContext();
  return isSpanContextValid(spanContext) ? spanContext.traceId : undefined;
}

/** Maximum length of an error's text in a span, because ended spans wait in memory for export. */
const MAX_STATUS_MESSAGE_LENGTH = 2_048;

/** Statuses that mean a failure of the server rather than a wrong request. */
const SERVER_FAILURES: ReadonlySet<status> = new Set([
  status.UNKNOWN,
  status.DEADLINE_EXCEEDED,
  status.UNIMPLEMENTED,
  status.INTERNAL,
  status.UNAVAILABLE,
  status.DATA_LOSS,
]);

/**
 * Returns true for a call that failed. A call cancelled by its caller, or redirected by a standby to the leader, did
 * not fail.
 */
function isFailure(side: TracedCall["side"], code: status, error: Error | undefined): boolean {
  if (code === status.OK || code === status.CANCELLED) return false;
  if (error instanceof DomainError && LEADER_ADDRESS in error.about) return false;
  return side === "client" || SERVER_FAILURES.has(code);
}

export function endCall({ span, side, path, startedMs }: TracedCall, code: status, error?: Error): void {
  const hasFailed = isFailure(side, code, error);
  recordCall(side, path, { code, hasFailed }, performance.now() - startedMs);
  if (span.isRecording()) {
    span.setAttributes(outcomeAttributes({ code, hasFailed }));
    if (error && hasFailed)
      span.setStatus({ code: SpanStatusCode.ERROR, message: error.message.slice(0, MAX_STATUS_MESSAGE_LENGTH) });
  }
  span.end();
}

/** Request fields that identify the object of a call, with their span attributes. */
const SUBJECTS = {
  taskId: "diskmesh.task_id",
  diskId: "diskmesh.disk_id",
  diskCid: "diskmesh.disk_id",
  diskName: "diskmesh.disk_name",
  instanceId: "diskmesh.instance_id",
  vmCid: "diskmesh.vm_cid",
  hostId: "diskmesh.host_id",
  deviceId: "diskmesh.device_id",
} as const;

/** Adds the object of the call, e.g. its disk id, to the span. */
export function describeCall({ span }: TracedCall, request: unknown, requestId?: string): void {
  if (!span.isRecording()) return;
  if (requestId !== undefined) span.setAttribute("diskmesh.request_id", requestId);
  if (typeof request !== "object" || request === null) return;
  for (const [field, attribute] of Object.entries(SUBJECTS)) {
    const value = (request as Record<string, unknown>)[field];
    if ((typeof value === "string" && value !== "") || typeof value === "number") span.setAttribute(attribute, value);
  }
}

interface MethodSpan {
  readonly name: string;
  readonly attributes: Readonly<Record<string, string>>;
}

// Parsed paths are cached: parsing takes 1 % of a small call, and the number of methods is bounded.
const methodSpans = new Map<string, MethodSpan>();

function methodSpanOf(path: string): MethodSpan {
  let known = methodSpans.get(path);
  if (known === undefined) {
    const name = path.slice(1);
    known = { name, attributes: { "rpc.system.name": "grpc", "rpc.method": name } };
    methodSpans.set(path, known);
  }
  return known;
}
