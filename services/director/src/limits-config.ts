import { MAX_JSON_DEPTH } from "@diskmesh/domain";
import { durationMsConfig, groupConfig } from "@diskmesh/service";
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
  yaml: groupConfig(
    "Of YAML from outside: configs, manifests, stemcell.MF. What was accepted once is read again whatever they say.",
    {
      maxTokens: count
        .default(500_000)
        .describe("Pieces that YAML tells apart: texts, indicators, spaces, line breaks, comments."),
      maxDepth: z
        .int()
        .min(8)
        .max(MAX_JSON_DEPTH - 1)
        .default(MAX_JSON_DEPTH - 1)
        .describe(
          "Lists and mappings inside each other, aliases expanded. Tags are put two levels deeper into the env of a VM.",
        ),
      maxKeys: count.default(30_000).describe("Different keys."),
      maxAliases: count.default(10_000).describe("Uses of aliases."),
      maxMergeKeys: count.default(1_000).describe("Uses of merge keys."),
      maxExpandedBytes: sizeBytes
        .default(3 * 1024 * 1024)
        .describe("About what it takes in memory, as JSON, once aliases and merge keys are expanded."),
      maxEventLoopBytes: z
        .int()
        .min(0)
        .max(65_536)
        .default(4_096)
        .describe("Texts up to this size are read at once; longer ones in threads, so that nothing else waits."),
      threads: z.int().min(1).max(64).default(2).describe("Threads at once, each for one text."),
      maxWaiting: count.default(100).describe("Texts that wait for a thread."),
      timeoutMs: durationMsConfig
        .default(5_000)
        .describe("How long a thread may have a processor, and how long with what was accepted once."),
      storedTimeoutMs: durationMsConfig.default(60_000).describe("The same for what was accepted once."),
      maxThreadMemoryMib: z.int().min(64).max(65_536).default(512).describe("Memory of a thread."),
    },
  ),
});
