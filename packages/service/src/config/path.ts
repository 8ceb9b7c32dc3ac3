import { resolve } from "node:path";
import * as z from "zod";
import { withFacts } from "./schema.js";

// zod has no parse context, and parsing is synchronous: while it runs, this is the folder of the file being read.
let configFolder: string | undefined;

/**
 * A path in a config file, made absolute against the file's folder. For a default write `.prefault("data")`: what
 * `.default` gives is not resolved.
 */
export const pathConfig = withFacts(
  z
    .string()
    .min(1)
    .transform((path) => fromConfigFolder(path)),
  { kind: "path" },
);

export const fromConfigFolder = (path: string): string => resolve(configFolder ?? process.cwd(), path);

/** Runs what parses a config whose file lies in a folder. */
export function withConfigFolder<T>(folder: string, parse: () => T): T {
  const previous = configFolder;
  configFolder = folder;
  try {
    return parse();
  } finally {
    configFolder = previous;
  }
}
