import { once } from "node:events";
import { createServer } from "node:http";
import { context, propagation, trace } from "@opentelemetry/api";
import { expect } from "chai";
import { createLogger } from "./log.js";
import { startTelemetry } from "./telemetry.js";

describe("startTelemetry", () => {
  // Other tests of this process have their own.
  afterEach(() => {
    for (const api of [trace, context, propagation]) api.disable();
  });

  it("does nothing without an endpoint", async () => {
    const telemetry = await startTelemetry({ service: "test", maxQueuedSpans: 10 });
    trace.getTracer("test").startActiveSpan("span", (span) => {
      expect(span.isRecording()).to.equal(false);
      span.end();
    });
    await telemetry.stop();
  });

  it("sends spans to the endpoint before it stops, and log lines carry the trace id", async () => {
    const requests: string[] = [];
    const server = createServer((request, response) => {
      request.resume().on("end", () => response.end());
      requests.push(`${request.method} ${request.url}`);
    }).listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as { port: number };
    const telemetry = await startTelemetry({
      service: "test",
      otlpEndpoint: `http://127.0.0.1:${port}/`,
      maxQueuedSpans: 10,
    });
    const lines: Record<string, unknown>[] = [];
    const log = createLogger({
      service: "test",
      level: "info",
      destination: { write: (line) => lines.push(JSON.parse(line)) },
    });
    const traceId = trace.getTracer("test").startActiveSpan("span", (span) => {
      log.info({}, "inside");
      span.end();
      return span.spanContext().traceId;
    });
    await telemetry.stop();
    server.close();
    expect(requests).to.deep.equal(["POST /v1/traces"]);
    expect(lines[0]?.traceId).to.equal(traceId);
  });
});
