import { readdirSync, readFileSync } from "node:fs";

/** Returns the names in a folder of /proc; none when its process has ended or belongs to another user. */
export function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

/** Returns the text of a file of /proc; empty when its process has ended or belongs to another user. */
export function textOf(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
