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
  telemetry: groupConfig(
    "Traces and metrics. What OTEL_* says holds as everywhere, where this does not say otherwise.",
    {
      otlpEndpoint: partlySecretConfig(z.url({ protocol: /^https?$/ }))
        .optional()
        .describe(
          "The base URL of an OTLP receiver of traces and metrics; `/v1/traces` and `/v1/metrics` are added. Nothing is sent without one.",
        ),
      sampleRatio: z
        .number()
        .min(0)
        .max(1)
        .optional()
        .describe("The part of traces that is made, from 0 to 1, where the caller has not decided; all by default."),
    },
  ),
  metrics: metricsConfig,
  health: healthConfig,
  rpc: groupConfig("The gRPC server.", {
    maxConnectionsPerAddress: z
      .int()
      .min(1)
      .max(1_000_000)
      .default(DEFAULT_RPC_SERVER_LIMITS.maxConnectionsPerAddress)
      .describe("Connections from one address at once; raise it where one address stands for a whole network."),
  }),
};

export interface ServiceConfig {
  readonly log: { readonly level: LogLevel };
  readonly telemetry: TelemetryConfig;
  readonly metrics?: MetricsConfig | undefined;
}
