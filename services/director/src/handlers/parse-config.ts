import { InvalidArgumentError, parseName, quoted } from "@diskmesh/domain";
import { CLOUD } from "../yaml/cloud-configs.js";

export function parseConfigType(value: string): string {
  if (value === CLOUD) return value;
  throw new InvalidArgumentError(`type ${quoted(value)} is not known: give "${CLOUD}"`, { about: { field: "type" } });
}

export function parseConfigName(value: string): string {
  return value === "" ? "default" : parseName("name", value);
}
