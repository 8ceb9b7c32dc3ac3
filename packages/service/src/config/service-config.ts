import { DEFAULT_RPC_SERVER_LIMITS } from "@diskmesh/rpc";
import * as z from "zod";
import { groupConfig, healthConfig, metricsConfig } from "./pieces.js";
import { partlySecretConfig, withFacts } from "./schema.js";
import type { MetricsConfig, TelemetryConfig } from "./telemetry-options.js";

const LOG_LEVELS = ["trace", "debug", "info", "warn", "error", "silent"] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** Keys of every service's config: `z.strictObject({ ...serviceConfig, listen: listenConfig, ... })`. */
export const serviceConfig = {
  log: groupConfig("The log: JSON, a line each, on standard error.", {
    level: withFacts(z.enum(LOG_LEVELS).default("info").describe("Lines below it are not written."), { reloads: true }),
  }),
  telemetry: groupConfig("Traces and metrics. OTEL_* variables apply to everything that is not set here.", {
    otlpEndpoint: partlySecretConfig(z.url({ protocol: /^https?$/ }))
      .optional()
      .describe(
        "Base URL of an OTLP receiver; `/v1/traces` and `/v1/metrics` are appended. Nothing is sent without it.",
      ),
    sampleRatio: z
      .number()
      .min(0)
      .max(1)
      .optional()
      .describe("Fraction of traces that is recorded, from 0 to 1, when the caller has not decided; all by default."),
  }),
  metrics: metricsConfig,
  health: healthConfig,
  rpc: groupConfig("The gRPC server.", {
    maxConnectionsPerAddress: z
      .int()
      .min(1)
      .max(1_000_000)
      .default(DEFAULT_RPC_SERVER_LIMITS.maxConnectionsPerAddress)
      .describe("Maximum connections from one address; raise it where one address is a whole network's."),
  }),
};

export interface ServiceConfig {
  readonly log: { readonly level: LogLevel };
  readonly telemetry: TelemetryConfig;
  readonly metrics?: MetricsConfig | undefined;
}
