import { dirname, resolve } from "node:path";
import { fileURLToPath } from "node:url";

/** Root folder of the repository, which contains the built services. */
export const repositoryFolder = resolve(dirname(fileURLToPath(import.meta.url)), "../..");
