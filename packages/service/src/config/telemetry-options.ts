import type { Logger, Redactor } from "@diskmesh/domain";
import type { TlsFiles } from "@diskmesh/tls";
import type { HttpListen } from "../health/brief-http.js";

/** Variables of the process's environment. */
export type Environment = Readonly<Record<string, string | undefined>>;

export interface SamplingConfig {
  /** The part of traces that is made, from 0 to 1, where the caller has not decided already. */
  readonly sampleRatio?: number | undefined;
}

/** The `telemetry` section of a config. */
export interface TelemetryConfig extends SamplingConfig {
  readonly otlpEndpoint?: string | undefined;
}

/** The `metrics` section of a config: where Prometheus asks. */
export interface MetricsConfig {
  readonly listen: HttpListen;
  /** Whoever has a certificate of that authority may read the metrics, and nobody else. */
  readonly tls?: TlsFiles | undefined;
}

export interface TelemetryOptions extends TelemetryConfig {
  readonly service: string;
  readonly metrics?: MetricsConfig | undefined;
  /** Hides the secrets that the process was started with. */
  readonly redactor: Redactor;
  readonly log: Logger;
  /** Of OTEL_*. */
  readonly env: Environment;
}
