import * as z from "zod";
import type { MetricsConfig, TelemetryConfig } from "../telemetry-options.js";
import { durationMsConfig, groupConfig, healthConfig, metricsConfig } from "./pieces.js";
import { partlySecretConfig, withFacts } from "./schema.js";

const LOG_LEVELS = ["trace", "debug", "info", "warn", "error", "silent"] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** What every service's config holds: `z.strictObject({ ...serviceConfig, listen: listenConfig, ... })`. */
export const serviceConfig = {
  log: groupConfig("The log: JSON, a line each, on standard error.", {
    level: withFacts(z.enum(LOG_LEVELS).default("info").describe("Lines below it are not written."), { reloads: true }),
    maxBacklogBytes: z
      .int()
      .min(4_096)
      .max(1_073_741_824)
      .default(1024 * 1024)
      .describe(
        "Lines that wait in memory while the disk of standard error is full; beyond it they are lost, and counted.",
      ),
  }),
  telemetry: groupConfig(
    "Traces and metrics. What OTEL_* says holds as everywhere, where this does not say otherwise.",
    {
      otlpEndpoint: partlySecretConfig(z.url({ protocol: /^https?$/ }))
        .optional()
        .describe(
          "The base URL of an OTLP receiver of traces and metrics; `/v1/traces` and `/v1/metrics` are added. Nothing is sent without one.",
        ),
      maxWaitingSpans: z
        .int()
        .min(1)
        .max(1_000_000)
        .default(2_048)
        .describe("Ended spans that wait to be sent, of about 4 KiB at most each; more are dropped."),
      sampleRatio: z
        .number()
        .min(0)
        .max(1)
        .optional()
        .describe("The part of traces that is made, from 0 to 1, where the caller has not decided; all by default."),
      traceHeartbeats: z
        .boolean()
        .default(false)
        .describe("Whether heartbeats and health checks that are part of no other trace are traced, too."),
      metricsIntervalMs: durationMsConfig.default(60_000).describe("How often metrics are sent to the receiver."),
    },
  ),
  metrics: metricsConfig,
  health: healthConfig,
  stopTimeoutMs: durationMsConfig
    .default(4_500)
    .describe("How long a stop may take in all before the process exits anyway."),
};

export interface ServiceConfig {
  readonly log: { readonly level: LogLevel; readonly maxBacklogBytes: number };
  readonly telemetry: TelemetryConfig;
  readonly metrics?: MetricsConfig | undefined;
  readonly stopTimeoutMs: number;
}
