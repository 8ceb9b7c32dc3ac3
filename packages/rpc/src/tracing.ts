import type { Metadata, status } from "@grpc/grpc-js";
import {
  type Context,
  context,
  propagation,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  trace,
} from "@opentelemetry/api";

// Asked for with each span: a tracer that is kept stays with the SDK that it was first used under.
const tracer = () => trace.getTracer("@diskmesh/rpc");

const GETTER = {
  keys: (metadata: Metadata): string[] => Object.keys(metadata.getMap()),
  get: (metadata: Metadata, key: string): string | undefined => metadata.get(key)[0]?.toString(),
};
const SETTER = {
  set: (metadata: Metadata, key: string, value: string): void => metadata.set(key, value),
};

export interface TracedCall {
  readonly span: Span;
  readonly context: Context;
}

/** Starts the span of a call that is served here, below the caller's span when it sent one. */
export function startServerSpan(path: string, metadata: Metadata): TracedCall {
  const parent = propagation.extract(ROOT_CONTEXT, metadata, GETTER);
  const { name, attributes } = methodSpanOf(path);
  const span = tracer().startSpan(name, { kind: SpanKind.SERVER, attributes }, parent);
  return { span, context: trace.setSpan(parent, span) };
}

/** Starts the span of a call made from here, and writes it into the metadata for the server. */
export function startClientSpan(path: string, metadata: Metadata): TracedCall {
  const parent = context.active();
  const { name, attributes } = methodSpanOf(path);
  const span = tracer().startSpan(name, { kind: SpanKind.CLIENT, attributes }, parent);
  const traced = trace.setSpan(parent, span);
  propagation.inject(traced, metadata, SETTER);
  return { span, context: traced };
}

/** Ended spans wait in memory to be sent, and what an error says may be long. */
const MAX_STATUS_MESSAGE_LENGTH = 2_048;

export function endSpan(span: Span, code: status, error?: Error): void {
  if (span.isRecording()) {
    span.setAttribute("rpc.grpc.status_code", code);
    if (error)
      span.setStatus({ code: SpanStatusCode.ERROR, message: error.message.slice(0, MAX_STATUS_MESSAGE_LENGTH) });
  }
  span.end();
}

interface MethodSpan {
  readonly name: string;
  readonly attributes: Readonly<Record<string, string>>;
}

// Taking a path apart costs a hundredth of a small call, and there are only as many as methods.
const methodSpans = new Map<string, MethodSpan>();

function methodSpanOf(path: string): MethodSpan {
  let known = methodSpans.get(path);
  if (known === undefined) {
    const [, service = "", method = ""] = path.split("/");
    const attributes = { "rpc.system": "grpc", "rpc.service": service, "rpc.method": method };
    known = { name: path.slice(1), attributes };
    methodSpans.set(path, known);
  }
  return known;
}
