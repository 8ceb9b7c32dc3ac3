import type { Redactor } from "@diskmesh/domain";
import type { tracing } from "@opentelemetry/sdk-node";
import type { TelemetryOptions } from "../config/telemetry-options.js";
import { withinMs } from "../time/within-ms.js";
import { startMetrics } from "./metrics-export.js";
import { endpointOf, exporterOf } from "./otlp.js";
import { resourceOf } from "./resource.js";
import { samplerOf } from "./sampling.js";

export interface Telemetry {
  /** Sends the remaining data and stops. */
  stop(): Promise<void>;
}

/** Maximum number of ended spans that wait for export: 8 MiB at 4 KiB each. Further spans are dropped. */
const MAX_WAITING_SPANS = 2_048;
const MAX_SPANS_PER_EXPORT = 512;
/** Timeout of the last export, because an unreachable receiver must not delay the stop. */
const LAST_EXPORT_MS = 1_000;

/**
 * Starts to export traces and metrics if configured. Loads the SDK only then, because it is large. Must run before any
 * code creates instruments.
 */
export async function startTelemetry(options: TelemetryOptions): Promise<Telemetry> {
  const parts = [await startMetrics(options), await startTraces(options)];
  return {
    stop: async () => {
      await withinMs(LAST_EXPORT_MS, Promise.allSettled(parts.map((stop) => stop())));
    },
  };
}

async function startTraces(options: TelemetryOptions): Promise<() => Promise<void>> {
  const { otlpEndpoint, env, log } = options;
  if (endpointOf("traces", otlpEndpoint, env) === undefined) return async () => {};
  const { NodeSDK, tracing } = await import("@opentelemetry/sdk-node");
  const exporter = await exporterOf("traces", otlpEndpoint, env, log);
  const sdk = new NodeSDK({
    resource: await resourceOf(options),
    autoDetectResources: false,
    sampler: samplerOf(tracing, env),
    spanProcessors: [
      redacting(options.redactor),
      new tracing.BatchSpanProcessor(exporter, {
        maxQueueSize: MAX_WAITING_SPANS,
        maxExportBatchSize: MAX_SPANS_PER_EXPORT,
      }),
    ],
    // These limits bound a span to about 4 KiB.
    spanLimits: { attributeValueLengthLimit: 256, attributeCountLimit: 16, eventCountLimit: 0, linkCountLimit: 0 },
    instrumentations: [],
    metricReaders: [],
    logRecordProcessors: [],
  });
  sdk.start();
  return () => sdk.shutdown();
}

/** Redacts error texts, the only external text in spans. Must be registered before the exporting processor. */
function redacting(redactor: Redactor): tracing.SpanProcessor {
  return {
    onStart: () => {},
    onEnd: ({ status }) => {
      if (status.message !== undefined) status.message = redactor.text(status.message);
    },
    forceFlush: async () => {},
    shutdown: async () => {},
  };
}
