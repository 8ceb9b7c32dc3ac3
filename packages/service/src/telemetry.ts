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
    spanProcessors: [new tracing.BatchSpanProcessor(exporter, { maxQueueSize, maxExportBatchSize })],
    // A span is about 4 KiB at most.
    spanLimits: { attributeValueLengthLimit: 256, attributeCountLimit: 8, eventCountLimit: 0, linkCountLimit: 0 },
    instrumentations: [],
    metricReaders: [],
    logRecordProcessors: [],
  });
  sdk.start();
  return { stop: () => sdk.shutdown() };
}
