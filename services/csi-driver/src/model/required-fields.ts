import { InvalidArgumentError } from "@diskmesh/domain";

/** Throws InvalidArgumentError for the first field that is empty. */
export function needFields(fields: Readonly<Record<string, unknown>>): void {
  for (const [field, value] of Object.entries(fields)) {
    const isMissing = value === undefined || value === "" || (Array.isArray(value) && value.length === 0);
    if (isMissing) throw new InvalidArgumentError(`${field} is missing`, { about: { field } });
  }
}

/** Throws InvalidArgumentError for a path that is not absolute. */
export function needPath(field: string, path: string): void {
  needFields({ [field]: path });
  if (path.startsWith("/") && !path.includes("\0")) return;
  throw new InvalidArgumentError(`${field} is not an absolute path`, { about: { field } });
}
