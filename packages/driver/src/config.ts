import { durationMsConfig, partlySecretConfig, pathConfig } from "@diskmesh/service";
import * as z from "zod";

// Excludes paths: a value that begins with a dot or slash is the path of a folder or file.
const packageName = z.string().regex(/^(@[\w.-]+\/)?\w[\w.-]*(\/\w[\w.-]*)*$/, "give a package's name, or a path");
const folder = z
  .string()
  .regex(/^(\/|\.\.?\/)/)
  .pipe(pathConfig);

const HOUR_MS = 3_600_000;
/** Less than the time limit of the task that runs a method, 24 hours. */
export const MAX_METHOD_TIMEOUT_MS = 23 * HOUR_MS;

/** Config section that lists the drivers to load. */
export const driversConfig = z
  .array(
    z.strictObject({
      package: z
        .union([folder, packageName])
        .describe('Package as in an import, e.g. "@diskmesh/drivers/disk-health", or the path of a folder or file.'),
      user: z
        .string()
        .regex(/^[A-Za-z0-9_][A-Za-z0-9_.-]{0,31}$/, "give the name or number of a system user")
        .optional()
        .describe(
          "System user as which the driver runs, with the group of the same name and no other. Without: `diskmesh-driver` when the service is root, the service's own user otherwise.",
        ),
      maxTimeoutMs: durationMsConfig
        .max(MAX_METHOD_TIMEOUT_MS)
        .default(HOUR_MS)
        .describe("Longest time limit that a method of the driver may declare. The driver does not load beyond it."),
      settings: partlySecretConfig(z.record(z.string(), z.json()))
        .default({})
        .describe(
          "Settings of the driver, as its schema requires. The driver's process gets them, so they must not contain secrets of others.",
        ),
    }),
  )
  .max(50)
  .default([]);

export type DriversConfig = z.output<typeof driversConfig>;
