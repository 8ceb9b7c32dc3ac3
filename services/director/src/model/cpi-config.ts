import { InvalidArgumentError } from "@diskmesh/domain";
import type { JsonObject } from "./json.js";

/** One CPI as operators define it. */
export interface CpiDefinition {
  readonly name: string;
  readonly type: string;
  /** Empty for the usual place of CPIs of that type. */
  readonly execPath: string;
  /** Former names, whose things are this CPI's now. */
  readonly migratedFrom: readonly string[];
  /** Credentials among them: for the CPI alone. */
  readonly properties: JsonObject;
}

/** Refuses names that would leave open which CPI a thing belongs to. */
export function refuseDuplicateCpis(cpis: readonly CpiDefinition[]): void {
  const users = new Map<string, string>();
  for (const cpi of cpis) {
    // Its own present name among the former ones leaves nothing open.
    for (const name of new Set([cpi.name, ...cpi.migratedFrom])) {
      const other = users.get(name);
      if (other !== undefined) {
        const shown = name === "" ? "the default CPI (the empty name)" : `CPI \`${name}\``;
        throw new InvalidArgumentError(
          `duplicate cpi name: ${shown} comes twice in the cpi-config, with \`${other}\` and \`${cpi.name}\`; names and migrated_from must differ`,
          { about: { cpi: name } },
        );
      }
      users.set(name, cpi.name);
    }
  }
}
