import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gunzipSync } from "node:zlib";
import type { StoredDocument } from "../mongo/document-server.js";

// What the first release wrote, of a mesh that ran for some seconds, with a document of each table of the director.
const FIXTURES = fileURLToPath(new URL("../../fixtures/release-1/", import.meta.url));

/** The tablets that the first release left behind. */
export type FirstReleaseTablet = "registry" | "director";

interface FixtureDocument {
  readonly table: string;
  readonly key: string;
  readonly document: object;
}

/** What each of the stores below holds. */
export function firstReleaseDocuments(name: FirstReleaseTablet): FixtureDocument[] {
  return linesOf(`${name}.documents.jsonl`) as FixtureDocument[];
}

/** Makes its folder, as it was after the second claim. */
export function makeFirstReleaseFolder(name: FirstReleaseTablet, folder: string): void {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "data.mdb"), gunzipSync(readFileSync(join(FIXTURES, `${name}.mdb.gz`))));
}

/** All documents of its database, by collection, as they were after the second claim. */
export function firstReleaseDatabase(
  name: FirstReleaseTablet,
): { readonly collection: string; readonly document: StoredDocument }[] {
  return linesOf(`${name}.mongo.jsonl`) as ReturnType<typeof firstReleaseDatabase>;
}

function linesOf(file: string): unknown[] {
  const lines = readFileSync(join(FIXTURES, file), "utf8").trim().split("\n");
  return lines.map((line) => JSON.parse(line));
}
