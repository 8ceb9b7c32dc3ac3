import { dirname, resolve } from "node:path";
import { fileURLToPath } from "node:url";

/** Where the built services are found. */
export const repositoryFolder = resolve(dirname(fileURLToPath(import.meta.url)), "../..");
