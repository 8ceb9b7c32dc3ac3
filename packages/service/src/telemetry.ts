export interface Telemetry {
  /** Sends what is left and stops. */
  stop(): Promise<void>;
}

/** Starts to export traces, if there is somewhere to send them. The SDK is loaded only then: it is large. */
export async function startTelemetry(options: {
  readonly service: string;
  readonly otlpEndpoint?: string | undefined;
}): Promise<Telemetry> {
  if (options.otlpEndpoint === undefined) return { stop: async () => {} };
  const [{ NodeSDK }, { OTLPTraceExporter }] = await Promise.all([
    import("@opentelemetry/sdk-node"),
    import("@opentelemetry/exporter-trace-otlp-http"),
  ]);
  const sdk = new NodeSDK({
    serviceName: options.service,
    traceExporter: new OTLPTraceExporter({ url: `${options.otlpEndpoint.replace(/\/$/, "")}/v1/traces` }),
    instrumentations: [],
    metricReaders: [],
    logRecordProcessors: [],
  });
  sdk.start();
  return { stop: () => sdk.shutdown() };
}
