import type { Owner } from "./volume-id.js";

/** A parameter of a storage class that says of which kind disks are. */
interface KindParameter {
  readonly key: string;
  /** Empty: the parameter is needed. */
  readonly byDefault: string;
  readonly meaning: string;
}

const DISK_TYPE: KindParameter = { key: "diskType", byDefault: "", meaning: "a disk type of the cloud config" };
const POOL: KindParameter = { key: "pool", byDefault: "default", meaning: "a pool of the disk-registry" };

/** Returns the parameter for the disks of a deployment, which have disk types, or of hosts, which have pools. */
export function kindParameterOf(owner: Owner): KindParameter {
  return "deployment" in owner ? DISK_TYPE : POOL;
}
