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

const tracer = trace.getTracer("@diskmesh/rpc");

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
  const span = tracer.startSpan(path.slice(1), { kind: SpanKind.SERVER, attributes: attributesOf(path) }, parent);
  return { span, context: trace.setSpan(parent, span) };
}

/** Starts the span of a call made from here, and writes it into the metadata for the server. */
export function startClientSpan(path: string, metadata: Metadata): TracedCall {
  const parent = context.active();
  const span = tracer.startSpan(path.slice(1), { kind: SpanKind.CLIENT, attributes: attributesOf(path) }, parent);
  const traced = trace.setSpan(parent, span);
  propagation.inject(traced, metadata, SETTER);
  return { span, context: traced };
}

export function endSpan(span: Span, code: status, error?: Error): void {
  if (span.isRecording()) {
    span.setAttribute("rpc.grpc.status_code", code);
    if (error) span.setStatus({ code: SpanStatusCode.ERROR, message: error.message });
  }
  span.end();
}

function attributesOf(path: string): Record<string, string> {
  const [, service = "", method = ""] = path.split("/");
  return { "rpc.system": "grpc", "rpc.service": service, "rpc.method": method };
}
