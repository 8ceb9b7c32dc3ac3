import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";

/** Returns the path of a program as a shell finds it; undefined when there is none. */
export function programOnPath(name: string, path = process.env.PATH ?? ""): string | undefined {
  return path
    .split(delimiter)
    .filter((folder) => folder.startsWith("/"))
    .map((folder) => join(folder, name))
    .find((file) => {
      try {
        accessSync(file, constants.X_OK);
        return true;
      } catch {
        return false;
      }
    });
}
