import { resolve } from "node:path";
import * as z from "zod";
import { withFacts } from "./schema.js";

// Folder of the config file that is being parsed. A module variable, because zod has no parse context; parsing is
// synchronous.
let configFolder: string | undefined;

/**
 * A path in a config file, resolved against the file's folder. A default must be `.prefault("data")`, because
 * `.default` values are not resolved.
 */
export const pathConfig = withFacts(
  z
    .string()
    .min(1)
    .transform((path) => fromConfigFolder(path)),
  { kind: "path" },
);

export const fromConfigFolder = (path: string): string => resolve(configFolder ?? process.cwd(), path);

/** Runs a synchronous parser that resolves paths against the given folder. */
export function withConfigFolder<T>(folder: string, parse: () => T): T {
  const previous = configFolder;
  configFolder = folder;
  try {
    return parse();
  } finally {
    configFolder = previous;
  }
}
