import { CancelledError } from "@diskmesh/domain";
import { context, propagation, type SpanKind, SpanStatusCode, trace } from "@opentelemetry/api";

// Asked for with each span: a tracer that is kept stays with the SDK that it was first used under.
const tracer = () => trace.getTracer("@diskmesh/mbus");

/** The active trace as extra keys of a request's envelope. */
export function currentTraceHeaders(): Record<string, string> {
  const headers: Record<string, string> = {};
  propagation.inject(context.active(), headers);
  return headers;
}

/** Runs some work in a span of its own: a child of the trace in the headers, or else of the active one. */
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
      // What its caller gave up did not fail.
      if (!(error instanceof CancelledError)) span.setStatus({ code: SpanStatusCode.ERROR });
      throw error;
    } finally {
      span.end();
    }
  });
}
