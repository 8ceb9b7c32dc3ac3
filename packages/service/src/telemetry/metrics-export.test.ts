import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { request } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Redactor } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { counterOf, histogramOf, metric, observe } from "@diskmesh/metrics";
import { certificateFiles, createDevelopmentCertificates } from "@diskmesh/pki";
import { freePort } from "@diskmesh/testkit";
import { context, metrics, propagation, trace } from "@opentelemetry/api";
import { expect } from "chai";
import type { TelemetryOptions } from "../config/telemetry-options.js";
import { createLogger } from "./log.js";
import { startTelemetry, type Telemetry } from "./telemetry.js";

const ended = metric({
  kind: "counter",
  name: "test.ended",
  unit: "{task}",
  description: "Ended.",
  labels: { how: ["well"] },
});
const took = metric({ kind: "histogram", name: "test.took", unit: "s", description: "Time.", buckets: [0.1, 1] });
const waited = metric({
  kind: "histogram",
  name: "test.waited",
  unit: "s",
  description: "Waiting.",
  labels: { who: "anybody", how: ["badly", "well"] },
  buckets: [0.1, 1, 10],
});
const crowd = metric({
  kind: "histogram",
  name: "test.crowd",
  unit: "s",
  description: "Many.",
  labels: { who: "all" },
});
const size = metric({ kind: "gauge", name: "test.size", unit: "By", description: "Size." });

async function eventually(check: () => boolean): Promise<void> {
  while (!check()) await delay(20);
}

describe("metrics of a process", () => {
  // The SDK is large, and a busy machine loads it slowly.
  const folder = mkdtempSync(join(tmpdir(), "dm-metrics-"));
  let telemetry: Telemetry | undefined;
  let lines: Record<string, unknown>[] = [];

  async function start(given: Partial<TelemetryOptions>): Promise<void> {
    lines = [];
    telemetry = await startTelemetry({
      service: "test",
      redactor: new Redactor([]),
      log: createLogger({
        service: "test",
        level: "info",
        destination: { write: (line) => lines.push(JSON.parse(line)) },
      }),
      env: {},
      ...given,
    });
  }

  afterEach(async () => {
    await telemetry?.stop();
    telemetry = undefined;
    for (const api of [trace, context, propagation, metrics]) api.disable();
  });

  after(() => rmSync(folder, { recursive: true }));

  const samplesOf = (text: string): string[] => text.split("\n").filter((line) => /^test_|^process_/.test(line));

  it("are served at /metrics only, with units in their names", async () => {
    const port = await freePort();
    await start({ metrics: { listen: { host: "127.0.0.1", port } } });
    counterOf(ended).add(2, { how: "well" });
    histogramOf(took).record(0.5);
    const end = observe(size, (say) => say(7));
    const url = `http://127.0.0.1:${port}`;
    const text = await (await fetch(`${url}/metrics`)).text();
    expect(samplesOf(text)).to.include.members([
      'test_ended_total{how="well"} 2',
      'test_took_seconds_bucket{le="0.1"} 0',
      'test_took_seconds_bucket{le="1"} 1',
      "test_took_seconds_sum 0.5",
      "test_size_bytes 7",
    ]);
    expect(text).to.include('service_name="test"').and.include("process_memory_usage_bytes");
    end();
    expect(await (await fetch(`${url}/metrics`)).text()).not.to.include("test_size_bytes 7");
    expect((await fetch(`${url}/other`)).status).to.equal(404);
    expect((await fetch(`${url}/metrics`, { method: "POST" })).status).to.equal(405);
  });

  it("contain histograms equal to OpenTelemetry's own, and start again with each start", async () => {
    const port = await freePort();
    const read = async (): Promise<string[]> => {
      const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
      return samplesOf(text);
    };
    for (const values of [
      [0, 0.1, 0.1000001, 1, 9.99, 10, 10.5, 1e9],
      [0.5, 0.5],
    ]) {
      await start({ metrics: { listen: { host: "127.0.0.1", port } } });
      const advice = { explicitBucketBoundaries: [0.1, 1, 10] };
      const oracle = metrics.getMeter("oracle").createHistogram("test.oracle", { unit: "s", advice });
      for (const value of values)
        for (const labels of [
          { who: 'a"b', how: "well" },
          { who: "c", how: "badly" },
        ] as const) {
          oracle.record(value, labels);
          histogramOf(waited).record(value, labels);
        }
      const samples = await read();
      const ours = samples.filter((sample) => sample.startsWith("test_waited"));
      expect(ours).to.have.length(12);
      const oracles = samples.filter((sample) => sample.startsWith("test_oracle"));
      expect(ours.sort()).to.deep.equal(oracles.map((sample) => sample.replace("oracle", "waited")).sort());
      await telemetry?.stop();
      // Recorded while metrics are stopped, so the next start must not export it.
      histogramOf(waited).record(1, { who: "c", how: "badly" });
      metrics.disable();
    }
  });

  it("count label sets above a histogram's maximum as one", async () => {
    const port = await freePort();
    await start({ metrics: { listen: { host: "127.0.0.1", port } } });
    for (let who = 0; who < 2_500; who++) histogramOf(crowd).record(1, { who: String(who) });
    const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
    const counts = samplesOf(text).filter((sample) => sample.startsWith("test_crowd_seconds_count"));
    expect(counts).to.have.length(2_001);
    expect(counts.filter((sample) => sample.includes("otel_metric_overflow"))).to.have.length(1);
    const total = counts.reduce((sum, sample) => sum + Number(sample.split(" ").at(-1)), 0);
    expect(total).to.equal(2_500);
  });

  it("require a certificate of the authority where one is configured", async () => {
    await createDevelopmentCertificates(folder, { hostIds: [] });
    const files = certificateFiles(folder, "operator");
    const port = await freePort();
    await start({ metrics: { listen: { host: "127.0.0.1", port }, tls: files } });
    const ask = async (own: object): Promise<number | undefined> => {
      const ca = readFileSync(files.caFile);
      const options = { host: "127.0.0.1", port, path: "/metrics", ca, checkServerIdentity: () => undefined, ...own };
      const asked = request(options);
      asked.end();
      const [response] = await once(asked, "response");
      response.resume();
      return response.statusCode;
    };
    expect(await ask({ cert: readFileSync(files.certFile), key: readFileSync(files.keyFile) })).to.equal(200);
    await rejection(ask({}));
  });

  it("log once that their receiver is unreachable, and once that it is back", async () => {
    const port = await freePort();
    await start({
      env: { OTEL_METRIC_EXPORT_INTERVAL: "100", OTEL_METRICS_EXPORTER: "otlp", OTEL_TRACES_EXPORTER: "none" },
      otlpEndpoint: `http://127.0.0.1:${port}`,
    });
    counterOf(ended).add(1, { how: "well" });
    const told = (): unknown[] => lines.map(({ message }) => String(message).split(":")[0]);
    await eventually(() => told().length === 1);
    const bodies: string[] = [];
    const server = createServer((incoming, response) => {
      incoming.setEncoding("utf8").on("data", (text: string) => bodies.push(text));
      incoming.on("end", () => response.end());
    }).listen(port, "127.0.0.1");
    await eventually(() => /service\.name.*test\.ended/s.test(bodies.join("")));
    // On a busy machine an export may be late; exports are repeated.
    await eventually(() => told().length > 1);
    expect(lines[0]?.message).to.match(/^OTLP export of metrics failed/);
    expect(lines[0]?.endpoint).to.match(/^http:\/\/127.0.0.1:\d+/);
    expect(lines[1]?.message).to.equal("OTLP export of metrics recovered");
    server.close();
    server.closeAllConnections();
  });
});
