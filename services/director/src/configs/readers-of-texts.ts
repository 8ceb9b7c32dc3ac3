import { MIB_BYTES } from "@diskmesh/domain";
import type { Lifecycle } from "@diskmesh/service";
import type { DirectorConfig } from "../config/config.js";
import { YamlReader } from "../yaml/reader.js";
import { STEMCELL_MANIFEST_SIZE_BYTES, type StemcellManifest } from "../yaml/stemcell-manifest.js";
import { CloudConfigs } from "./cloud-configs.js";
import { CpiConfigs } from "./cpi-configs.js";
import { Manifests } from "./manifests.js";
import { ResurrectionConfigs } from "./resurrection-configs.js";

/** Maximum size of a config. The tablet keeps each version of each config in memory. */
export const MAX_CONFIG_BYTES = MIB_BYTES;
/** Maximum size of a manifest. Each queued deploy keeps its manifest in memory. */
const MAX_MANIFEST_BYTES = MIB_BYTES;
/** Maximum number of instances of a deployment. A deploy plans with all of its instances at once. */
const MAX_INSTANCES_PER_DEPLOYMENT = 1_000;

/** YAML readers, one for each kind of text. */
export interface ReadersOfTexts {
  readonly reader: YamlReader;
  readonly cloud: CloudConfigs;
  readonly cpi: CpiConfigs;
  readonly resurrection: ResurrectionConfigs;
  readonly manifests: Manifests;
  readonly readStemcellManifest: (text: string) => Promise<StemcellManifest>;
}

export function readersOfTexts({ deployments, resurrection }: DirectorConfig, lifecycle: Lifecycle): ReadersOfTexts {
  const reader = lifecycle.use("YAML reader", new YamlReader());
  const { ignoreJobs } = deployments;
  const ofManifests = {
    what: "manifest",
    sizeBytes: MAX_MANIFEST_BYTES,
    instances: MAX_INSTANCES_PER_DEPLOYMENT,
    ignoreJobs,
  };
  const ofStemcells = { what: "stemcell.MF", sizeBytes: STEMCELL_MANIFEST_SIZE_BYTES };
  return {
    reader,
    cloud: new CloudConfigs(reader, { sizeBytes: MAX_CONFIG_BYTES }),
    cpi: new CpiConfigs(reader, { sizeBytes: MAX_CONFIG_BYTES }),
    resurrection: new ResurrectionConfigs(reader, { sizeBytes: MAX_CONFIG_BYTES }, resurrection.enabled),
    manifests: new Manifests(reader, ofManifests),
    readStemcellManifest: (text) => reader.read({ format: "stemcell_manifest", text, limits: ofStemcells }),
  };
}
