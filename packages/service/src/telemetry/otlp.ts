import { type Logger, messageOf } from "@diskmesh/domain";
import type { PushMetricExporter } from "@opentelemetry/sdk-metrics";
import type { tracing } from "@opentelemetry/sdk-node";
import { ConfigError } from "../config/config-error.js";
import type { Environment } from "../config/telemetry-options.js";

type Signal = "traces" | "metrics";

type SpanExporter = tracing.SpanExporter;
type Options = { readonly url?: string };

/** Exporters by OTEL_EXPORTER_OTLP_PROTOCOL; each is loaded on demand. */
const PROTOCOLS: Readonly<
  Record<
    string,
    {
      readonly traces: (options: Options) => Promise<SpanExporter>;
      readonly metrics: (options: Options) => Promise<PushMetricExporter>;
    }
  >
> = {
  "http/json": {
    traces: async (options) => new (await import("@opentelemetry/exporter-trace-otlp-http")).OTLPTraceExporter(options),
    metrics: async (options) =>
      new (await import("@opentelemetry/exporter-metrics-otlp-http")).OTLPMetricExporter(options),
  },
  "http/protobuf": {
    traces: async (options) =>
      new (await import("@opentelemetry/exporter-trace-otlp-proto")).OTLPTraceExporter(options),
    metrics: async (options) =>
      new (await import("@opentelemetry/exporter-metrics-otlp-proto")).OTLPMetricExporter(options),
  },
  grpc: {
    traces: async (options) => new (await import("@opentelemetry/exporter-trace-otlp-grpc")).OTLPTraceExporter(options),
    metrics: async (options) =>
      new (await import("@opentelemetry/exporter-metrics-otlp-grpc")).OTLPMetricExporter(options),
  },
};

/** Returns the endpoint of a signal: the config's, or that of OTEL_EXPORTER_OTLP_*; undefined when there is none. */
export function endpointOf(signal: Signal, configured: string | undefined, env: Environment): string | undefined {
  if (env.OTEL_SDK_DISABLED?.toLowerCase() === "true") return undefined;
  if (env[`OTEL_${signal.toUpperCase()}_EXPORTER`] === "none") return undefined;
  const own = env[`OTEL_EXPORTER_OTLP_${signal.toUpperCase()}_ENDPOINT`];
  return configured ?? (own || env.OTEL_EXPORTER_OTLP_ENDPOINT || undefined);
}

/** Returns the exporter of a signal. Logs once when its receiver is unreachable, and once when it is back. */
export async function exporterOf<S extends Signal>(
  signal: S,
  configured: string | undefined,
  env: Environment,
  log: Logger,
): Promise<S extends "traces" ? SpanExporter : PushMetricExporter>;
export async function exporterOf(
  signal: Signal,
  configured: string | undefined,
  env: Environment,
  log: Logger,
): Promise<SpanExporter | PushMetricExporter> {
  const upper = signal.toUpperCase();
  const protocol = env[`OTEL_EXPORTER_OTLP_${upper}_PROTOCOL`] || env.OTEL_EXPORTER_OTLP_PROTOCOL || "http/json";
  const made = PROTOCOLS[protocol];
  if (made === undefined)
    throw new ConfigError(
      `OTEL_EXPORTER_OTLP_PROTOCOL is ${JSON.stringify(protocol)}: give one of ${Object.keys(PROTOCOLS).join(", ")}`,
    );
  // Without a url an exporter reads OTEL_EXPORTER_OTLP_* itself; it always reads headers, timeouts and certificates
  // from there.
  const base = configured?.replace(/\/$/, "");
  const url = base === undefined || protocol === "grpc" ? base : `${base}/v1/${signal}`;
  const exporter = await made[signal](url === undefined ? {} : { url });
  return telling(exporter, signal, endpointOf(signal, configured, env) ?? "", log);
}

interface ExportResult {
  readonly code: number;
  readonly error?: Error;
}

const SUCCESS = 0;

function telling<Exporter extends SpanExporter | PushMetricExporter>(
  exporter: Exporter,
  signal: Signal,
  endpoint: string,
  log: Logger,
): Exporter {
  let isAway = false;
  const tell = ({ code, error }: ExportResult): void => {
    const failed = code !== SUCCESS;
    if (failed === isAway) return;
    isAway = failed;
    if (!failed) log.info({ endpoint }, `OTLP export of ${signal} recovered`);
    else {
      const why = error === undefined ? "the receiver did not accept them" : messageOf(error);
      const text = `OTLP export of ${signal} failed, ${signal} are lost until it recovers`;
      log.warn({ endpoint, error: why }, `${text}; check telemetry.otlpEndpoint and the receiver`);
    }
  };
  type Export = (items: unknown, done: (result: ExportResult) => void) => void;
  const target = exporter as { export: Export };
  const send = target.export.bind(exporter);
  target.export = (items, done) =>
    send(items, (result) => {
      tell(result);
      done(result);
    });
  return exporter;
}
