import * as z from "zod";
import type { JsonObject } from "../store/json.js";
import { parseYaml, type TextLimits } from "./document.js";
import { nameSchema, propertiesSchema } from "./schema.js";

/** "sha1" in a stemcell's manifest: a SHA-1 in hex, optionally after "sha1:", or "sha256:" and a SHA-256 in hex. */
export const DIGEST_PATTERN = /^(sha1:)?[0-9a-f]{40}$|^sha256:[0-9a-f]{64}$/i;

const stemcellSchema = z.looseObject({
  name: nameSchema,
  version: nameSchema,
  sha1: z.string().regex(DIGEST_PATTERN, "give a SHA-1 in hex, or sha256: and a SHA-256 in hex"),
  operating_system: nameSchema.nullish(),
  stemcell_formats: z.array(nameSchema).max(100).nullish(),
  cloud_properties: propertiesSchema.nullish(),
  api_version: z.int().min(0).max(1_000).nullish(),
});

export interface StemcellManifest {
  readonly name: string;
  readonly version: string;
  readonly digest: string;
  readonly operatingSystem: string;
  readonly formats: readonly string[];
  readonly cloudProperties: JsonObject;
  readonly apiVersion: number;
}

export const STEMCELL_MANIFEST_SIZE_BYTES = 256 * 1024;

/** Parses a stemcell's stemcell.MF in BOSH's format. */
export function parseStemcellManifest(text: string, limits: TextLimits): StemcellManifest {
  const parsed = parseYaml(text, stemcellSchema, limits);
  return {
    name: parsed.name,
    version: parsed.version,
    digest: parsed.sha1,
    operatingSystem: parsed.operating_system ?? parsed.name,
    formats: parsed.stemcell_formats ?? [],
    cloudProperties: parsed.cloud_properties ?? {},
    // Old stemcells have no API version.
    apiVersion: parsed.api_version || 1,
  };
}
