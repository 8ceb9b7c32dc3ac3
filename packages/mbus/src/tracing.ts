import { CancelledError } from "@diskmesh/domain";
import { context, propagation, type SpanKind, SpanStatusCode, trace } from "@opentelemetry/api";

// The tracer is looked up for each span, because a cached tracer keeps using the SDK under which it was first used.
const tracer = () => trace.getTracer("@diskmesh/mbus");

/** Returns the active trace as extra keys of a request's envelope. */
export function currentTraceHeaders(): Record<string, string> {
  const headers: Record<string, string> = {};
  propagation.inject(context.active(), headers);
  return headers;
}

/** Runs a function in a new span: a child of the trace in the headers, or of the active trace. */
export function inSpan<Result>(
  name: string,
  options: { kind: SpanKind; agentId: string; traceHeaders?: Readonly<Record<string, string>> },
  work: () => Promise<Result>,
): Promise<Result> {
  const active = context.active();
  const parent = options.traceHeaders ? propagation.extract(active, options.traceHeaders) : active;
  const attributes = { "diskmesh.agent_id": options.agentId };
  return tracer().startActiveSpan(name, { kind: options.kind, attributes }, parent, async (span) => {
    try {
      return await work();
    } catch (error) {
      // A call that its caller cancelled did not fail.
      if (!(error instanceof CancelledError)) span.setStatus({ code: SpanStatusCode.ERROR });
      throw error;
    } finally {
      span.end();
    }
  });
}
