import { fileURLToPath } from "node:url";

const at = (name: string): string => fileURLToPath(new URL(`./${name}.js`, import.meta.url));

/**
 * Config of a driver that runs as the user of its service, also when that is root: the user of drivers may not exist
 * here, and may not read the repository.
 */
export const OWN_USER = process.geteuid?.() === 0 ? { user: "root" } : {};

/** Paths of test drivers, in the form of the config. */
export const SAMPLE_DRIVER = at("sample-driver");
export const LEGACY_DRIVER = at("legacy-driver");
export const MISBEHAVING_DRIVER = at("misbehaving-driver");
export const HOSTILE_DRIVER = at("hostile-driver");
