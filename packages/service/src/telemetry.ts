import type { Redactor } from "@diskmesh/domain";
import type { tracing } from "@opentelemetry/sdk-node";

export interface Telemetry {
  /** Sends what is left and stops. */
  stop(): Promise<void>;
}

const MAX_SPANS_PER_EXPORT = 512;

/** Starts to export traces, if there is somewhere to send them. The SDK is loaded only then: it is large. */
export async function startTelemetry(options: {
  readonly service: string;
  readonly otlpEndpoint?: string | undefined;
  /** More that wait to be sent are dropped. */
  readonly maxQueuedSpans: number;
  /** Hides the secrets that the process was started with. */
  readonly redactor: Redactor;
}): Promise<Telemetry> {
  if (options.otlpEndpoint === undefined) return { stop: async () => {} };
  const [{ NodeSDK, tracing }, { OTLPTraceExporter }] = await Promise.all([
    import("@opentelemetry/sdk-node"),
    import("@opentelemetry/exporter-trace-otlp-http"),
  ]);
  const exporter = new OTLPTraceExporter({ url: `${options.otlpEndpoint.replace(/\/$/, "")}/v1/traces` });
  const maxQueueSize = options.maxQueuedSpans;
  const maxExportBatchSize = Math.min(maxQueueSize, MAX_SPANS_PER_EXPORT);
  const sdk = new NodeSDK({
    serviceName: options.service,
    spanProcessors: [
      redacting(options.redactor),
      new tracing.BatchSpanProcessor(exporter, { maxQueueSize, maxExportBatchSize }),
    ],
    // A span is about 4 KiB at most.
    spanLimits: { attributeValueLengthLimit: 256, attributeCountLimit: 8, eventCountLimit: 0, linkCountLimit: 0 },
    instrumentations: [],
    metricReaders: [],
    logRecordProcessors: [],
  });
  sdk.start();
  return { stop: () => sdk.shutdown() };
}

/** What errors say is the only text from outside that spans have. It comes before the processor that sends them. */
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
