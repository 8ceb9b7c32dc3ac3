import { InvalidArgumentError } from "@diskmesh/domain";
import * as z from "zod";
import type { CloudConfig } from "../specs/cloud-config.js";
import type { CpiDefinition } from "../specs/cpi-config.js";
import type { ResurrectionRule } from "../specs/resurrection-rule.js";
import { parseCloudConfig } from "./cloud-config.js";
import { comparableLines, withoutMarks } from "./comparable.js";
import { parseCpiConfig } from "./cpi-config.js";
import { parseYaml, type TextLimits } from "./document.js";
import { type ChangedLine, diffLines } from "./line-diff.js";
import { type Manifest, type ManifestLimits, parseManifest } from "./manifest.js";
import { parseResurrectionConfig } from "./resurrection-config.js";
import { parseStemcellManifest, type StemcellManifest } from "./stemcell-manifest.js";

/** A request to read a text or to diff two texts; sent to worker threads. */
export type Reading =
  | { readonly format: "cloud_config"; readonly text: string; readonly limits: TextLimits }
  | { readonly format: "cpi_config"; readonly text: string; readonly limits: TextLimits }
  | { readonly format: "resurrection_config"; readonly text: string; readonly limits: TextLimits }
  | {
      /** A mapping whose content is not interpreted. */
      readonly format: "plain_config";
      readonly text: string;
      readonly limits: TextLimits;
    }
  | { readonly format: "manifest"; readonly text: string; readonly limits: ManifestLimits }
  | { readonly format: "stemcell_manifest"; readonly text: string; readonly limits: TextLimits }
  | {
      /** Two accepted configs. An older version may have accepted `from`. */
      readonly format: "config_diff";
      readonly from: string | undefined;
      readonly text: string;
      readonly redact: boolean;
    };

export type Format = Reading["format"];
export type ReadingOf<F extends Format> = Extract<Reading, { readonly format: F }>;

/** The result of each request, as JSON values. */
export interface Results {
  readonly cloud_config: CloudConfig;
  readonly cpi_config: readonly CpiDefinition[];
  readonly resurrection_config: readonly ResurrectionRule[];
  readonly plain_config: null;
  readonly manifest: Manifest;
  readonly stemcell_manifest: StemcellManifest;
  readonly config_diff: readonly ChangedLine[];
}

/** Maximum lines of a diff, because the transfer of more lines would block the director's event loop. */
const MAX_DIFF_LINES = 50_000;

type Read = { readonly [F in Format]: (reading: ReadingOf<F>) => Results[F] };

const READ: Read = {
  cloud_config: ({ text, limits }) => parseCloudConfig(text, limits),
  cpi_config: ({ text, limits }) => parseCpiConfig(text, limits),
  resurrection_config: ({ text, limits }) => parseResurrectionConfig(text, limits),
  plain_config: ({ text, limits }) => {
    parseYaml(text, z.looseObject({}), limits);
    return null;
  },
  manifest: ({ text, limits }) => parseManifest(text, limits),
  stemcell_manifest: ({ text, limits }) => parseStemcellManifest(text, limits),
  config_diff: ({ from, text, redact }) => {
    const linesOf = (content: string): string[] => comparableLines(content, { redact });
    const lines = diffLines(from === undefined ? [] : linesOf(from), linesOf(text));
    if (lines.length > MAX_DIFF_LINES) {
      throw new InvalidArgumentError(
        `the diff has ${lines.length} lines: the limit is ${MAX_DIFF_LINES}; compare the configs themselves`,
      );
    }
    return lines.map(({ text, change }) => ({ text: withoutMarks(text), change }));
  },
};

/** Reads synchronously on the calling thread. */
export function readNow<F extends Format>(reading: ReadingOf<F>): Results[F] {
  const read = READ[reading.format] as (reading: ReadingOf<F>) => Results[F];
  return read(reading);
}
