import type { Stemcell as WireStemcell } from "@diskmesh/api/director";
import type { Stemcell } from "../store/stemcell.js";

export function encodeStemcell(stemcell: Stemcell, deployments: readonly string[]): WireStemcell {
  const { name, version, operatingSystem, apiVersion, cpi, stemcellCid, createdAtMs } = stemcell;
  return {
    name,
    version,
    operatingSystem,
    apiVersion,
    cpi,
    stemcellCid,
    deployments: [...deployments],
    createTime: new Date(createdAtMs),
  };
}
