import type { JsonObject } from "../store/json.js";
import type { UpdateBlock } from "./update-block.js";

/** A network as an instance group uses it. */
export interface GroupNetwork {
  readonly name: string;
  readonly staticIps: readonly string[];
  /** Which of "dns" and "gateway" this network gives. */
  readonly default: readonly string[];
  /** Networks of one number share a network interface, where the CPI can; empty for none. */
  readonly nicGroup: string;
}

/** An instance group as its manifest wants it. */
export interface InstanceGroup {
  readonly name: string;
  readonly instances: number;
  /** At least one, each once; the empty name alone for none. */
  readonly azs: readonly string[];
  /** Groups whose instances are this one's from now on. */
  readonly migratedFrom?: readonly FormerGroup[];
  /** The azs of each instance's static addresses, by index; undefined when the group has none. */
  readonly azsByIndex?: readonly (readonly string[])[];
}

/** A group of an earlier manifest. */
export interface FormerGroup {
  readonly name: string;
  /** Where its instances are; empty for not said. */
  readonly az: string;
}

/** With what its VMs and disks shall be. */
export interface GroupSpec extends InstanceGroup, VmNeeds {
  /** Alias of one of the manifest's stemcells; empty for none. */
  readonly stemcell: string;
  readonly networks: readonly GroupNetwork[];
  readonly env: JsonObject;
  readonly migratedFrom: readonly FormerGroup[];
  /** The disk, by size or by disk type. */
  readonly persistentDisk?: { readonly sizeMib: number; readonly type: string };
  readonly update: UpdateBlock;
}

/** The VM that an instance group wants. */
export interface VmNeeds {
  /** Empty for none. */
  readonly vmType: string;
  readonly vmExtensions: readonly string[];
}
