import { DEFAULT_RPC_SERVER_LIMITS } from "@diskmesh/rpc";
import * as z from "zod";
import { groupConfig, healthConfig, metricsConfig } from "./pieces.js";
import { partlySecretConfig, withFacts } from "./schema.js";
import type { MetricsConfig, TelemetryConfig } from "./telemetry-options.js";

const LOG_LEVELS = ["trace", "debug", "info", "warn", "error", "silent"] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** Keys of every service's config: `z.strictObject({ ...serviceConfig, listen: listenConfig, ... })`. */
export const serviceConfig = {
  log: groupConfig("The log, in JSON lines on standard error.", {
    level: withFacts(z.enum(LOG_LEVELS).default("info").describe("Minimum level of written lines."), { reloads: true }),
  }),
  telemetry: groupConfig("Traces and metrics. OTEL_* variables apply to all keys that are not set here.", {
    otlpEndpoint: partlySecretConfig(z.url({ protocol: /^https?$/ }))
      .optional()
      .describe(
        "Base URL of an OTLP receiver; `/v1/traces` and `/v1/metrics` are appended. If not set, nothing is sent.",
      ),
  }),
  metrics: metricsConfig,
  health: healthConfig,
  rpc: groupConfig("The gRPC server.", {
    maxConnectionsPerAddress: z
      .int()
      .min(1)
      .max(1_000_000)
      .default(DEFAULT_RPC_SERVER_LIMITS.maxConnectionsPerAddress)
      .describe("Maximum connections from one address; raise it where a whole network shares an address (NAT)."),
  }),
};

export interface ServiceConfig {
  readonly log: { readonly level: LogLevel };
  readonly telemetry: TelemetryConfig;
  readonly metrics?: MetricsConfig | undefined;
}
