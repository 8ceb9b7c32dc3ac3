import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { temporaryFolder } from "@diskmesh/testkit";
import { restoreBackup, restoredDocument } from "../backup/restore.js";
import { loadedDocument } from "../documents/memory-tables.js";
import type { StoredDocument as Backed, Schema } from "../documents/schema.js";
import type { StoredDocument } from "../mongo/document-server.js";
import { openStorage } from "../open-storage.js";
import { Tablet } from "../tablet.js";

// Backups that 0.1.0 made of a mesh with a silent host, a frozen CPI, a moving disk and a suspended task; and the same
// tablets in MongoDB, to which 0.1.0 restored them, with commits that are not applied yet. Paths were shortened.
const FIXTURES = new URL("../../fixtures/first-release/", import.meta.url);

/** Tablets written by 0.1.0. */
export type FirstReleaseTablet = "registry" | "director";

interface TableDocument {
  readonly table: string;
  readonly document: object;
}

/** Returns the documents that the tablet in MongoDB holds. */
export function firstReleaseDocuments(name: FirstReleaseTablet): (TableDocument & { readonly key: string })[] {
  return linesOf(`${name}.documents.jsonl`) as ReturnType<typeof firstReleaseDocuments>;
}

/** Returns all documents of the tablet's database in MongoDB, with their collections. */
export function firstReleaseDatabase(
  name: FirstReleaseTablet,
): { readonly collection: string; readonly document: StoredDocument }[] {
  return linesOf(`${name}.mongo.jsonl`) as ReturnType<typeof firstReleaseDatabase>;
}

/** Restores the backup of a tablet of 0.1.0; resolves with the restored and the expected documents. */
export async function restoredBackup(
  name: FirstReleaseTablet,
  schema: Schema,
): Promise<{ readonly found: TableDocument[]; readonly expected: TableDocument[] }> {
  const folder = temporaryFolder();
  const file = fileURLToPath(new URL(`${name}.backup`, FIXTURES));
  const options = { file, schema, tabletName: name, replace: false };
  await restoreBackup({ ...options, storage: openStorage(folder, name) });
  await using tablet = await Tablet.open({ name, schema, storage: openStorage(folder, name), address: "" });
  const found = await tablet.read((tables) =>
    Object.entries(tables).flatMap(([table, rows]) =>
      Array.from(rows.entries() as Iterable<object>, (document) => ({ table, document })),
    ),
  );
  const documents = linesOf(`${name}.backup`).slice(1, -1) as Backed[];
  const expected = documents.map(({ table, key, ...stored }) => ({
    table,
    document: restoredDocument(schema[table], loadedDocument(table, key, schema[table], stored)),
  }));
  return { found, expected };
}

function linesOf(file: string): unknown[] {
  const lines = readFileSync(new URL(file, FIXTURES), "utf8").trim().split("\n");
  return lines.map((line) => JSON.parse(line));
}
