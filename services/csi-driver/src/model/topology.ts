import { InvalidArgumentError } from "@diskmesh/domain";

/** Name of the driver in the orchestrator. */
export const DRIVER_NAME = "csi.diskmesh";
/** Key of the topology segment that holds the AZ. */
const AZ_KEY = `${DRIVER_NAME}/az`;
/** Key of the segment that holds the host, where nodes are hosts. No volume has it: its pods may run on any host of its AZ. */
const HOST_KEY = `${DRIVER_NAME}/host`;

interface Topology {
  readonly segments: Readonly<Record<string, string>>;
}

export interface Requirement {
  readonly requisite: readonly Topology[];
  readonly preferred: readonly Topology[];
}

/** A place for the bytes of a volume. */
export interface Place {
  readonly az: string;
  /** Host of the AZ that is preferred; empty for none. */
  readonly hostId: string;
}

export const topologyOf = (az: string, hostId = ""): Topology => ({
  segments: { [AZ_KEY]: az, ...(hostId !== "" && { [HOST_KEY]: hostId }) },
});

/** Returns the places in which a volume may be created, in order of preference: each AZ once, with its first host. */
export function placesFor(requirement: Requirement | undefined, defaults: readonly Place[]): readonly Place[] {
  const required = requirement ? [...requirement.preferred, ...requirement.requisite] : [];
  if (required.length === 0) return defaults;
  const places = new Map<string, Place>();
  for (const topology of required) {
    const az = azOf(topology);
    if (!places.has(az)) places.set(az, { az, hostId: topology.segments[HOST_KEY] ?? "" });
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
