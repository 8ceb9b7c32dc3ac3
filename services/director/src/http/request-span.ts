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
  const { method, url } = request;
  const route = request.routeOptions.url;
  // The query is left out, because that of a signed link is a secret.
  const [path = ""] = url.split("?", 1);
  const attributes = {
    ...{ "http.request.method": method, "url.scheme": "https", "url.path": path },
    ...(route !== undefined && { "http.route": route }),
  };
  const name = route === undefined ? method : `${method} ${route}`;
  const tracer = trace.getTracer("@diskmesh/director");
  const span = tracer.startSpan(name, { kind: SpanKind.SERVER, attributes }, parent);
  const traced = trace.setSpan(parent, span);
  const spanContext = span.spanContext();
  return {
    traceId: isSpanContextValid(spanContext) ? spanContext.traceId : undefined,
    within: (work) => context.with(traced, work),
    end: (status) => {
      span.setAttribute("http.response.status_code", status);
      if (status >= 500) {
        span.setAttribute("error.type", String(status));
        span.setStatus({ code: SpanStatusCode.ERROR });
      }
      span.end();
    },
  };
}
