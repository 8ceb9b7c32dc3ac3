import { type NamedCpi, nameOfTwo } from "@diskmesh/cpi";
import { InvalidArgumentError } from "@diskmesh/domain";
import type { JsonObject } from "../store/json.js";

/** One CPI as operators define it. */
export interface CpiDefinition extends NamedCpi {
  readonly type: string;
  /** Empty for the usual place of CPIs of that type. */
  readonly execPath: string;
  /** Credentials among them: for the CPI alone. */
  readonly properties: JsonObject;
}

/** Refuses names that would leave open which CPI a thing belongs to. */
export function refuseDuplicateCpis(cpis: readonly CpiDefinition[]): void {
  const { name, users } = nameOfTwo(cpis) ?? {};
  if (name === undefined || users === undefined) return;
  const shown = name === "" ? "the default CPI (the empty name)" : `CPI \`${name}\``;
  throw new InvalidArgumentError(
    `duplicate cpi name: ${shown} comes twice in the cpi-config, with \`${users[0]}\` and \`${users[1]}\`; names and migrated_from must differ`,
    { about: { cpi: name } },
  );
}
