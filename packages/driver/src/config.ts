import { MIB_BYTES } from "@diskmesh/domain";
import { durationMsConfig, groupConfig, partlySecretConfig, pathConfig } from "@diskmesh/service";
import * as z from "zod";

const count = z.int().min(1).max(1_000_000);
// Not a path: what begins with a dot or a slash is taken from the config's folder.
const packageName = z.string().regex(/^(@[\w.-]+\/)?\w[\w.-]*(\/\w[\w.-]*)*$/, "give a package's name, or a path");
const folder = z
  .string()
  .regex(/^(\/|\.\.?\/)/)
  .pipe(pathConfig);

/** Vendors' drivers: which.describe("The drivers that are loaded."), and what each may take. */
export const driversConfig = z
  .strictObject({
    drivers: z
      .array(
        z.strictObject({
          package: z
            .union([folder, packageName])
            .describe('As it is imported, e.g. "@diskmesh/drivers/disk-health", or the path of its folder or file.'),
          settings: partlySecretConfig(z.record(z.string(), z.json()))
            .default({})
            .describe(
              "What the driver's own schema asks for. They are handed to its process, and are no place for secrets of others.",
            ),
        }),
      )
      .max(50)
      .default([])
      .describe("The drivers that are loaded."),
    limits: groupConfig("Of each driver's process. Beyond them it is ended and told of, and started again.", {
      maxMemoryMib: z
        .int()
        .min(16)
        .max(65_536)
        .default(128)
        .describe("Memory of its JavaScript; its process may take twice as much and 128 MiB."),
      loadTimeoutMs: durationMsConfig.default(30_000).describe("How long loading it may take."),
      syncTimeoutMs: durationMsConfig
        .default(20_000)
        .describe("How long a method may take for which somebody waits, and one that is a task."),
      asyncTimeoutMs: durationMsConfig.default(3_600_000).describe("How long a method may take that is a task."),
      cancelGraceMs: durationMsConfig
        .default(5_000)
        .describe("How long a method may take to heed that it was cancelled."),
      maxTurnProcessorMs: durationMsConfig
        .default(5_000)
        .describe("How much of a processor may go into one turn of its event loop."),
      maxConcurrentCalls: count.default(64).describe("Calls of its methods at once; more are refused."),
      maxAnswerBytes: z
        .int()
        .min(1_024)
        .max(64 * MIB_BYTES)
        .default(MIB_BYTES)
        .describe("Of one answer."),
      maxOutputBytesPerSecond: z
        .int()
        .min(1_024)
        .max(1024 * MIB_BYTES)
        .default(MIB_BYTES)
        .describe("What it writes to its standard output and error."),
      maxLogLinesPerSecond: count.default(10).describe("Lines of that which go into the log; the others are counted."),
    }),
    restart: groupConfig("Between an end of a driver's process and its next start.", {
      minDelayMs: durationMsConfig.default(1_000).describe("The first wait."),
      maxDelayMs: durationMsConfig.default(60_000).describe("The longest wait: each is about twice the one before."),
    }),
  })
  .prefault({});

export type DriversConfig = z.output<typeof driversConfig>;
export type DriverLimits = DriversConfig["limits"];
