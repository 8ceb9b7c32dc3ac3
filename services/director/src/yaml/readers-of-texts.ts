import type { Lifecycle } from "@diskmesh/service";
import type { DirectorConfig } from "../config.js";
import { CloudConfigs } from "./cloud-configs.js";
import { CpiConfigs } from "./cpi-configs.js";
import { Manifests } from "./manifests.js";
import { YamlReader } from "./reader.js";
import { ResurrectionConfigs } from "./resurrection-configs.js";
import { STEMCELL_MANIFEST_SIZE_BYTES, type StemcellManifest } from "./stemcell-manifest.js";

/** What reads YAML from outside, a reader for each kind of text. */
export interface ReadersOfTexts {
  readonly reader: YamlReader;
  readonly cloud: CloudConfigs;
  readonly cpi: CpiConfigs;
  readonly resurrection: ResurrectionConfigs;
  readonly manifests: Manifests;
  readonly readStemcellManifest: (text: string) => Promise<StemcellManifest>;
}

export function readersOfTexts(
  { limits, deployments, resurrection }: DirectorConfig,
  lifecycle: Lifecycle,
): ReadersOfTexts {
  const { maxConfigBytes, maxManifestBytes, maxInstancesPerDeployment: instances } = limits;
  const reader = lifecycle.use("YAML reader", new YamlReader());
  const { ignoreJobs } = deployments;
  const ofManifests = { what: "manifest", sizeBytes: maxManifestBytes, instances, ignoreJobs };
  const ofStemcells = { what: "stemcell.MF", sizeBytes: STEMCELL_MANIFEST_SIZE_BYTES };
  return {
    reader,
    cloud: new CloudConfigs(reader, { sizeBytes: maxConfigBytes }),
    cpi: new CpiConfigs(reader, { sizeBytes: maxConfigBytes }),
    resurrection: new ResurrectionConfigs(reader, { sizeBytes: maxConfigBytes }, resurrection.enabled),
    manifests: new Manifests(reader, ofManifests),
    readStemcellManifest: (text) => reader.read({ format: "stemcell_manifest", text, limits: ofStemcells }),
  };
}
