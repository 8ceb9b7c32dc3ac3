import { fileURLToPath } from "node:url";

const at = (name: string): string => fileURLToPath(new URL(`./${name}.js`, import.meta.url));

/** Paths of test drivers, in the form of the config. */
export const SAMPLE_DRIVER = at("sample-driver");
export const LEGACY_DRIVER = at("legacy-driver");
export const MISBEHAVING_DRIVER = at("misbehaving-driver");
