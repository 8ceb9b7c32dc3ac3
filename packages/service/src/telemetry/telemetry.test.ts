import { once } from "node:events";
import { createServer } from "node:http";
import { Redactor, silentLogger } from "@diskmesh/domain";
import { context, metrics, propagation, SpanStatusCode, trace } from "@opentelemetry/api";
import { expect } from "chai";
import type { TelemetryOptions } from "../config/telemetry-options.js";
import { createLogger } from "./log.js";
import { startTelemetry } from "./telemetry.js";

const optionsOf = (given: Partial<TelemetryOptions>): TelemetryOptions => ({
  service: "test",
  redactor: new Redactor([]),
  log: silentLogger,
  env: {},
  ...given,
});

describe("startTelemetry", () => {
  // The OpenTelemetry API is global, and other tests of this process register their own providers.
  afterEach(() => {
    for (const api of [trace, context, propagation, metrics]) api.disable();
  });

  it("does nothing without an endpoint", async () => {
    const telemetry = await startTelemetry(optionsOf({}));
    trace.getTracer("test").startActiveSpan("span", (span) => {
      expect(span.isRecording()).to.equal(false);
      span.end();
    });
    await telemetry.stop();
  });

  it("sends spans without secrets to the endpoint before it stops, and log lines carry the trace id", async () => {
    const [requests, sent]: [string[], string[]] = [[], []];
    const server = createServer((request, response) => {
      request.setEncoding("utf8").on("data", (text: string) => sent.push(text));
      request.on("end", () => response.end());
      requests.push(`${request.method} ${request.url}`);
    }).listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as { port: number };
    const telemetry = await startTelemetry(
      optionsOf({ otlpEndpoint: `http://127.0.0.1:${port}/`, redactor: new Redactor(["hush-hush"]) }),
    );
    const lines: Record<string, unknown>[] = [];
    const log = createLogger({
      service: "test",
      level: "info",
      destination: { write: (line) => lines.push(JSON.parse(line)) },
    });
    const traceId = trace.getTracer("test").startActiveSpan("span", (span) => {
      log.info({}, "inside");
      span.setStatus({ code: SpanStatusCode.ERROR, message: "no hush-hush here" });
      span.end();
      return span.spanContext().traceId;
    });
    await telemetry.stop();
    server.close();
    expect(requests.sort()).to.deep.equal(["POST /v1/metrics", "POST /v1/traces"]);
    expect(sent.join("")).to.include("no <redacted> here").and.not.include("hush");
    expect(lines[0]?.traceId).to.equal(traceId);
  });
});
