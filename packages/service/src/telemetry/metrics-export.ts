import type { RequestListener } from "node:http";
import type { Logger } from "@diskmesh/domain";
import { nameWithUnit } from "@diskmesh/metrics";
import { CurrentTls } from "@diskmesh/tls";
import { metrics } from "@opentelemetry/api";
import type {
  AggregationTemporality,
  CollectionResult,
  IMetricReader,
  InstrumentType,
  MetricData,
  ResourceMetrics,
} from "@opentelemetry/sdk-metrics";
import type { MetricsConfig, TelemetryOptions } from "../config/telemetry-options.js";
import { BriefHttp } from "../health/brief-http.js";
import { observeProcess } from "../health/process-metrics.js";
import { endpointOf, exporterOf } from "./otlp.js";
import { resourceOf } from "./resource.js";

/** Default of OpenTelemetry's SDK. */
const EXPORT_INTERVAL_MS = 60_000;

/** Starts to measure if metrics are served or exported; returns a function that stops this. */
export async function startMetrics(options: TelemetryOptions): Promise<() => Promise<void>> {
  const { metrics: scraped, otlpEndpoint, env, log } = options;
  const isSent = endpointOf("metrics", otlpEndpoint, env) !== undefined;
  if (scraped === undefined && !isSent) return async () => {};
  const sdk = await import("@opentelemetry/sdk-metrics");
  const { MeterProvider, MetricReader, PeriodicExportingMetricReader } = sdk;
  const readers: IMetricReader[] = [];
  const { histogramProducer } = await import("./histogram-export.js");
  const histograms = histogramProducer(sdk);
  const metricProducers = [histograms];
  if (isSent) {
    const exporter = await exporterOf("metrics", otlpEndpoint, env, log);
    exporter.selectAggregationTemporality = temporalityIn(sdk);
    const exportIntervalMillis = intervalMs(options);
    const exportTimeoutMillis = Math.min(exportIntervalMillis, 10_000);
    const timing = { exportIntervalMillis, exportTimeoutMillis };
    readers.push(new PeriodicExportingMetricReader({ exporter, metricProducers, ...timing }));
  }
  let http: BriefHttp | undefined;
  if (scraped !== undefined) {
    class OnRequest extends MetricReader {
      protected override onForceFlush = async (): Promise<void> => {};
      protected override onShutdown = async (): Promise<void> => {};
    }
    const reader = new OnRequest({ aggregationTemporalitySelector: temporalityIn(sdk), metricProducers });
    readers.push(reader);
    http = await serveMetrics(scraped, log, () => reader.collect());
  }
  const provider = new MeterProvider({ resource: await resourceOf(options), readers });
  metrics.setGlobalMeterProvider(provider);
  const endObserving = observeProcess();
  return async () => {
    http?.close();
    await provider.shutdown().finally(() => {
      endObserving();
      histograms.stop();
    });
  };
}

/**
 * Returns delta temporality for gauges, so that a gauge that is no longer observed disappears. With cumulative
 * temporality, e.g. the gauges of a former leader would be exported forever.
 */
function temporalityIn({ AggregationTemporality, InstrumentType }: typeof import("@opentelemetry/sdk-metrics")) {
  return (type: InstrumentType): AggregationTemporality =>
    type === InstrumentType.OBSERVABLE_GAUGE ? AggregationTemporality.DELTA : AggregationTemporality.CUMULATIVE;
}

function intervalMs({ env }: TelemetryOptions): number {
  const given = Number(env.OTEL_METRIC_EXPORT_INTERVAL);
  return given >= 1 ? given : EXPORT_INTERVAL_MS;
}

/** Serves metrics to Prometheus at `/metrics`. */
async function serveMetrics(
  { listen, tls }: MetricsConfig,
  log: Logger,
  collect: () => Promise<CollectionResult>,
): Promise<BriefHttp> {
  const { PrometheusSerializer } = await import("@opentelemetry/exporter-prometheus");
  const serializer = new PrometheusSerializer(undefined, false, undefined, false, true);
  const answer: RequestListener = ({ method, url }, response) => {
    const say = (status: number, text: string): void => {
      response.writeHead(status, { "content-type": "text/plain; version=0.0.4; charset=utf-8" });
      response.end(method === "HEAD" ? undefined : text);
    };
    if (method !== "GET" && method !== "HEAD") say(405, "only GET and HEAD\n");
    else if (url?.split("?")[0] !== "/metrics") say(404, "ask for /metrics\n");
    else
      collect().then(
        ({ resourceMetrics }) => say(200, serializer.serialize(withUnitsInNames(resourceMetrics))),
        // The read fails only while the process is stopping.
        () => say(503, "the metrics cannot be read now\n"),
      );
  };
  const server = new BriefHttp("metrics.listen", answer, tls && CurrentTls.open(tls, log, "metrics.tls"));
  await server.listen(listen);
  return server;
}

/** Appends units to metric names, which Prometheus requires and OpenTelemetry does not. */
function withUnitsInNames(resourceMetrics: ResourceMetrics): ResourceMetrics {
  const renamed = (metric: MetricData): MetricData => ({
    ...metric,
    descriptor: { ...metric.descriptor, name: nameWithUnit(metric.descriptor), unit: "" },
  });
  const scopeMetrics = resourceMetrics.scopeMetrics.map((scope) => ({ ...scope, metrics: scope.metrics.map(renamed) }));
  return { ...resourceMetrics, scopeMetrics };
}
