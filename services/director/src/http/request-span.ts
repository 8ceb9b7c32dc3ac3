import {
  context,
  isSpanContextValid,
  propagation,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
} from "@opentelemetry/api";
import type { FastifyRequest } from "fastify";

export interface RequestSpan {
  within<T>(work: () => T): T;
  /** Undefined when tracing is off. */
  readonly traceId: string | undefined;
  end(status: number): void;
}

/**
 * Starts the request's span. The span is named by the route, because a path contains object names and has any length.
 */
export function startRequestSpan(request: FastifyRequest): RequestSpan {
  const parent = propagation.extract(ROOT_CONTEXT, request.headers);
  const route = request.routeOptions.url ?? "unknown";
  const attributes = { "http.request.method": request.method, "http.route": route };
  const tracer = trace.getTracer("@diskmesh/director");
  const span = tracer.startSpan(`${request.method} ${route}`, { kind: SpanKind.SERVER, attributes }, parent);
  const traced = trace.setSpan(parent, span);
  const spanContext = span.spanContext();
  return {
    traceId: isSpanContextValid(spanContext) ? spanContext.traceId : undefined,
    within: (work) => context.with(traced, work),
    end: (status) => {
      span.setAttribute("http.response.status_code", status);
      if (status >= 500) span.setStatus({ code: SpanStatusCode.ERROR });
      span.end();
    },
  };
}
