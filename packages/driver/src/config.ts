import { MIB_BYTES } from "@diskmesh/domain";
import { durationMsConfig, pathConfig } from "@diskmesh/service";
import * as z from "zod";

const count = z.int().min(1).max(1_000_000);
// Not a path: what begins with a dot or a slash is taken from the config's folder.
const packageName = z.string().regex(/^(@[\w.-]+\/)?\w[\w.-]*(\/\w[\w.-]*)*$/, "give a package's name, or a path");
const folder = z
  .string()
  .regex(/^(\/|\.\.?\/)/)
  .pipe(pathConfig);

/** Vendors' drivers: which, and what each may take. */
export const driversConfig = z
  .strictObject({
    drivers: z
      .array(
        z.strictObject({
          /** As it is imported, e.g. "@diskmesh/drivers/disk-health", or the path of its folder or file. */
          package: z.union([folder, packageName]),
          /** What the driver's own schema says. They are handed to its process, and are no place for secrets of others. */
          settings: z.record(z.string(), z.json()).default({}),
        }),
      )
      .max(50)
      .default([]),
    /** Of each driver's process. Beyond them it is ended and told of, and started again. */
    limits: z
      .strictObject({
        maxMemoryMib: z.int().min(16).max(65_536).default(128),
        loadTimeoutMs: durationMsConfig.default(30_000),
        /** How long a method may take for which somebody waits, and one that is a task. */
        syncTimeoutMs: durationMsConfig.default(20_000),
        asyncTimeoutMs: durationMsConfig.default(3_600_000),
        /** How long a method may take to heed that it was cancelled. */
        cancelGraceMs: durationMsConfig.default(5_000),
        /** How much of a processor may go into one turn of its event loop. */
        maxTurnProcessorMs: durationMsConfig.default(5_000),
        maxConcurrentCalls: count.default(64),
        /** Of one answer. */
        maxAnswerBytes: z
          .int()
          .min(1_024)
          .max(64 * MIB_BYTES)
          .default(MIB_BYTES),
        /** What it writes to its standard output and error. */
        maxOutputBytesPerSecond: z
          .int()
          .min(1_024)
          .max(1024 * MIB_BYTES)
          .default(MIB_BYTES),
        /** Lines of that which go into the log; the others are counted. */
        maxLogLinesPerSecond: count.default(10),
      })
      .prefault({}),
    /** Between an end of a driver's process and its next start. */
    restart: z
      .strictObject({ minDelayMs: durationMsConfig.default(1_000), maxDelayMs: durationMsConfig.default(60_000) })
      .prefault({}),
  })
  .prefault({});

export type DriversConfig = z.output<typeof driversConfig>;
export type DriverLimits = DriversConfig["limits"];
