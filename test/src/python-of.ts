import { existsSync, realpathSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";

/** Returns the Python interpreter with which pip installed the program. */
export function pythonOf(program: string): string {
  const folders = (process.env.PATH ?? "").split(delimiter);
  const found = folders.map((folder) => join(folder, program)).find((file) => existsSync(file));
  const beside = join(dirname(found === undefined ? program : realpathSync(found)), "python3");
  return existsSync(beside) ? beside : "python3";
}
