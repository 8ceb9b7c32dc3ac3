import { type NamedCpi, nameOfTwo } from "@diskmesh/cpi";
import { InvalidArgumentError } from "@diskmesh/domain";
import type { JsonObject } from "../store/json.js";

/** A CPI as defined by operators. */
export interface CpiDefinition extends NamedCpi {
  readonly type: string;
  /** Empty for the default path of CPIs of this type. */
  readonly execPath: string;
  /** Contains credentials, which only the CPI may see. */
  readonly properties: JsonObject;
}

/** Throws for duplicate names, because an object's recorded CPI would be ambiguous. */
export function refuseDuplicateCpis(cpis: readonly CpiDefinition[]): void {
  const { name, users } = nameOfTwo(cpis) ?? {};
  if (name === undefined || users === undefined) return;
  const shown = name === "" ? "the default CPI (the empty name)" : `CPI \`${name}\``;
  throw new InvalidArgumentError(
    `duplicate cpi name: ${shown} comes twice in the cpi-config, with \`${users[0]}\` and \`${users[1]}\`; each name may occur once in all names and migrated_from`,
    { about: { cpi: name } },
  );
}
