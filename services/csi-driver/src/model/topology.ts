import { InvalidArgumentError } from "@diskmesh/domain";
import { NO_NODE, type Node } from "./node-id.js";

/** Name of the driver in the orchestrator. */
export const DRIVER_NAME = "csi.diskmesh";
/** Key of the topology segment that holds the AZ. */
const AZ_KEY = `${DRIVER_NAME}/az`;
/** Keys of the segment that holds the node: a host, or an instance. No volume has it: its pods may run on any node of its AZ. */
const HOST_KEY = `${DRIVER_NAME}/host`;
const INSTANCE_KEY = `${DRIVER_NAME}/instance`;

interface Topology {
  readonly segments: Readonly<Record<string, string>>;
}

export interface Requirement {
  readonly requisite: readonly Topology[];
  readonly preferred: readonly Topology[];
}

/** A place for the bytes of a volume: an AZ, and the node of it that is preferred; both IDs are empty for none. */
export interface Place extends Node {
  readonly az: string;
}

/** Returns the AZ as a place without a preferred node. */
export const anywhereIn = (az: string): Place => ({ az, ...NO_NODE });

export const topologyOf = ({ az, instanceId, hostId }: Place): Topology => ({
  segments: {
    [AZ_KEY]: az,
    ...(instanceId !== "" && { [INSTANCE_KEY]: instanceId }),
    ...(hostId !== "" && { [HOST_KEY]: hostId }),
  },
});

/** Returns the places in which a volume may be created, in order of preference: each AZ once, with its first node. */
export function placesFor(requirement: Requirement | undefined, defaults: readonly Place[]): readonly Place[] {
  const required = requirement ? [...requirement.preferred, ...requirement.requisite] : [];
  if (required.length === 0) return defaults;
  const places = new Map<string, Place>();
  for (const topology of required) {
    const az = azOf(topology);
    const { [INSTANCE_KEY]: instanceId = "", [HOST_KEY]: hostId = "" } = topology.segments;
    if (!places.has(az)) places.set(az, { az, instanceId, hostId });
  }
  return [...places.values()];
}

/** Returns true when the requirement allows the AZ of an existing volume. */
export function isAccessible(az: string, requirement: Requirement | undefined): boolean {
  const allowed = requirement?.requisite.length ? requirement.requisite : requirement?.preferred;
  return !allowed?.length || allowed.some((topology) => azOf(topology) === az);
}

export function azOf({ segments }: Topology): string {
  const az = segments[AZ_KEY];
  if (az !== undefined) return az;
  const keys = Object.keys(segments).join(", ") || "none";
  throw new InvalidArgumentError(`a topology has the segments ${keys}: volumes need ${AZ_KEY}`);
}
