import { InvalidArgumentError } from "@diskmesh/domain";

/** Name of the driver in the orchestrator. */
export const DRIVER_NAME = "csi.diskmesh";
/** Key of the topology segment that holds the AZ. */
const AZ_KEY = `${DRIVER_NAME}/az`;

interface Topology {
  readonly segments: Readonly<Record<string, string>>;
}

export interface Requirement {
  readonly requisite: readonly Topology[];
  readonly preferred: readonly Topology[];
}

export const topologyOf = (az: string): Topology => ({ segments: { [AZ_KEY]: az } });

/** Returns the AZs in which a volume may be created, in order of preference. */
export function azsFor(requirement: Requirement | undefined, defaults: readonly string[]): readonly string[] {
  const required = requirement ? [...requirement.preferred, ...requirement.requisite] : [];
  return required.length === 0 ? defaults : [...new Set(required.map(azOf))];
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
