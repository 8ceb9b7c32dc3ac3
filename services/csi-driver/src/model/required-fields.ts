import { InvalidArgumentError } from "@diskmesh/domain";

/** Throws InvalidArgumentError for the first field that is empty. */
export function needFields(fields: Readonly<Record<string, unknown>>): void {
  for (const [field, value] of Object.entries(fields)) {
    const isMissing = value === undefined || value === "" || (Array.isArray(value) && value.length === 0);
    if (isMissing) throw new InvalidArgumentError(`${field} is missing`, { about: { field } });
  }
}

/**
 * Throws InvalidArgumentError for a path that does not lie below one of the folders in which the driver mounts and
 * unmounts.
 */
export function needPath(field: string, path: string, mountFolders: readonly string[]): void {
  needFields({ [field]: path });
  const refuse = (why: string) =>
    new InvalidArgumentError(`${field} ${JSON.stringify(path)} ${why}`, { about: { field } });
  if (!path.startsWith("/") || path.includes("\0")) throw refuse("is not an absolute path");
  if (path.split("/").includes("..")) throw refuse("has a part `..`");
  if (mountFolders.some((folder) => path.startsWith(`${folder.replace(/\/+$/, "")}/`))) return;
  throw refuse(
    `is not below ${mountFolders.join(" or ")}: \`node.mountFolders\` of the driver's config has the folders`,
  );
}
