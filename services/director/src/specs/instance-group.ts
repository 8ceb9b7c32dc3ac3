import type { JsonObject } from "../store/json.js";
import type { UpdateBlock } from "./update-block.js";

export interface GroupNetwork {
  readonly name: string;
  readonly staticIps: readonly string[];
  /** The defaults that this network provides: "dns", "gateway" or both. */
  readonly default: readonly string[];
  /** Networks with the same number share a network interface if the CPI supports that; empty for none. */
  readonly nicGroup: string;
}

/** An instance group as specified by its manifest. */
export interface InstanceGroup {
  readonly name: string;
  readonly instances: number;
  /** Unique names, at least one; the empty name alone means no AZ. */
  readonly azs: readonly string[];
  /** Former groups whose instances move to this group. */
  readonly migratedFrom?: readonly FormerGroup[];
  /** The AZs of each instance's static addresses, by index; undefined without static addresses. */
  readonly azsByIndex?: readonly (readonly string[])[];
}

/** A group of an earlier manifest. */
export interface FormerGroup {
  readonly name: string;
  /** The AZ of the group's instances; empty when not specified. */
  readonly az: string;
}

/** An instance group with the specification of its VMs and disks. */
export interface GroupSpec extends InstanceGroup, VmNeeds {
  /** Alias of a stemcell in the manifest; empty for none. */
  readonly stemcell: string;
  readonly networks: readonly GroupNetwork[];
  readonly env: JsonObject;
  readonly migratedFrom: readonly FormerGroup[];
  readonly persistentDisk?: { readonly sizeMib: number; readonly type: string };
  readonly update: UpdateBlock;
}

/** The VM specification of an instance group. */
export interface VmNeeds {
  /** Empty for none. */
  readonly vmType: string;
  readonly vmExtensions: readonly string[];
}
