import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { fileURLToPath } from "node:url";
import type { StoredDocument } from "../mongo/document-server.js";

// Data written by the first release in a mesh that ran for some seconds, with a document of each of the director's
// tables.
const FIXTURES = fileURLToPath(new URL("../../fixtures/release-1/", import.meta.url));

/** Tablets written by the first release. */
export type FirstReleaseTablet = "registry" | "director";

interface FixtureDocument {
  readonly table: string;
  readonly key: string;
  readonly document: object;
}

interface BackedUpDocument extends FixtureDocument {
  readonly version: number;
}

/** Returns the documents that each store of the fixtures holds. */
export function firstReleaseDocuments(name: FirstReleaseTablet): FixtureDocument[] {
  return linesOf(`${name}.documents.jsonl`) as FixtureDocument[];
}

/** Returns all documents of the tablet's database by collection, as of the second claim. */
export function firstReleaseDatabase(
  name: FirstReleaseTablet,
): { readonly collection: string; readonly document: StoredDocument }[] {
  return linesOf(`${name}.mongo.jsonl`) as ReturnType<typeof firstReleaseDatabase>;
}

/** Returns a backup of an LMDB folder, made by the last version that supported LMDB, and the expected documents. */
export function lmdbBackup(name: FirstReleaseTablet): {
  readonly file: string;
  readonly documents: BackedUpDocument[];
} {
  const file = fileURLToPath(new URL(`../../fixtures/lmdb-backups/${name}.backup`, import.meta.url));
  return { file, documents: linesOf(file).slice(1, -1) as BackedUpDocument[] };
}

function linesOf(file: string): unknown[] {
  const lines = readFileSync(resolve(FIXTURES, file), "utf8").trim().split("\n");
  return lines.map((line) => JSON.parse(line));
}
