import type { Logger, Redactor } from "@diskmesh/domain";
import type { TlsFiles } from "@diskmesh/tls";
import type { HttpListen } from "../health/brief-http.js";

export type Environment = Readonly<Record<string, string | undefined>>;

/** The `telemetry` section of a config. */
export interface TelemetryConfig {
  readonly otlpEndpoint?: string | undefined;
}

/** The `metrics` section of a config: the address for Prometheus. */
export interface MetricsConfig {
  readonly listen: HttpListen;
  /** Restricts the metrics to clients with a certificate of that authority. */
  readonly tls?: TlsFiles | undefined;
}

export interface TelemetryOptions extends TelemetryConfig {
  readonly service: string;
  readonly metrics?: MetricsConfig | undefined;
  /** Redacts the secrets that the process was started with. */
  readonly redactor: Redactor;
  readonly log: Logger;
  /** Source of the OTEL_* variables. */
  readonly env: Environment;
}
