import { CancelledError } from "@diskmesh/domain";
import { context, propagation, SpanKind, SpanStatusCode, trace } from "@opentelemetry/api";
import { AGENT_SUBJECT_TEMPLATE, agentSubject } from "./subjects.js";

// The tracer is looked up for each span, because a cached tracer keeps using the SDK under which it was first used.
const tracer = () => trace.getTracer("@diskmesh/mbus");

/** Returns the active trace as extra keys of a request's envelope. */
export function currentTraceHeaders(): Record<string, string> {
  const headers: Record<string, string> = {};
  propagation.inject(context.active(), headers);
  return headers;
}

export interface MbusSpan {
  readonly side: "client" | "server";
  readonly method: string;
  readonly agentId: string;
  /** Trace of the caller, for a server. */
  readonly traceHeaders?: Readonly<Record<string, string>>;
}

/**
 * Runs a function in a new span: a child of the trace in the headers, or of the active trace. A call over the mbus is a
 * remote procedure call by messages, and has OpenTelemetry's attributes of both.
 */
export function inSpan<Result>(
  { side, method, agentId, traceHeaders }: MbusSpan,
  work: () => Promise<Result>,
): Promise<Result> {
  const active = context.active();
  const parent = traceHeaders ? propagation.extract(active, traceHeaders) : active;
  const name = `mbus/${method}`;
  const attributes = {
    ...{ "rpc.system.name": "mbus", "rpc.method": name, "diskmesh.agent_id": agentId },
    "messaging.system.name": "nats",
    "messaging.destination.name": agentSubject(agentId),
    "messaging.destination.template": AGENT_SUBJECT_TEMPLATE,
    ...(side === "client"
      ? { "messaging.operation.name": "request", "messaging.operation.type": "send" }
      : { "messaging.operation.name": "process", "messaging.operation.type": "process" }),
  };
  const kind = side === "client" ? SpanKind.CLIENT : SpanKind.SERVER;
  return tracer().startActiveSpan(name, { kind, attributes }, parent, async (span) => {
    try {
      return await work();
    } catch (error) {
      // A call that its caller cancelled did not fail.
      if (!(error instanceof CancelledError)) {
        span.setAttribute("error.type", error instanceof Error ? error.name : "_OTHER");
        span.setStatus({ code: SpanStatusCode.ERROR });
      }
      throw error;
    } finally {
      span.end();
    }
  });
}
