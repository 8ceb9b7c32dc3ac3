import { groupConfig } from "@diskmesh/service";
import * as z from "zod";

const count = z.int().min(1).max(1_000_000);
const sizeBytes = z
  .int()
  .min(1)
  .max(64 * 1024 * 1024);

/** What callers may give, and how much of it is kept. */
export const limitsConfig = groupConfig("What callers may give, and how much of it is kept.", {
  maxConfigBytes: sizeBytes.default(1024 * 1024).describe("The longest config: cloud, cpi and others."),
  maxManifestBytes: sizeBytes.default(1024 * 1024).describe("The longest manifest."),
  maxMetadataBytes: sizeBytes.default(16 * 1024).describe("The most metadata of a disk or VM."),
  maxConfigNames: count.default(20).describe("Configs that differ in type or name."),
  maxConfigVersions: count.default(10).describe("Versions kept of each."),
  maxInstancesPerDeployment: count.default(1_000).describe("Instances of one deployment."),
  maxPossibleOrphans: count
    .default(10_000)
    .describe("VMs and disks that CPIs may have made unknown to anybody; beyond that the oldest are forgotten."),
  maxProblemsPerDeployment: count
    .default(10_000)
    .describe("What a scan records of one deployment; beyond that it says how much more there was."),
});
