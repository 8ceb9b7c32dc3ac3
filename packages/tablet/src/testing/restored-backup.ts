import { temporaryFolder } from "@diskmesh/testkit";
import { restoreBackup, restoredDocument } from "../backup/restore.js";
import { openStorage } from "../open-storage.js";
import type { Schema, Table } from "../schema.js";
import { Tablet } from "../tablet.js";
import { type FirstReleaseTablet, lmdbBackup } from "./first-release.js";

interface TableDocument {
  readonly table: string;
  readonly document: object;
}

/** Restores the backup of an LMDB tablet; resolves with the restored and the expected documents. */
export async function restoredLmdbBackup(
  name: FirstReleaseTablet,
  schema: Schema,
): Promise<{ readonly found: TableDocument[]; readonly expected: TableDocument[] }> {
  const folder = temporaryFolder();
  const { file, documents } = lmdbBackup(name);
  const options = { file, schema, tabletName: name, replace: false };
  await restoreBackup({ ...options, storage: openStorage(folder, name) });
  await using tablet = await Tablet.open({ name, schema, storage: openStorage(folder, name), address: "" });
  const found = await tablet.read((tables) =>
    Object.entries(tables).flatMap(([table, rows]) =>
      Array.from(rows.entries() as Iterable<object>, (document) => ({ table, document })),
    ),
  );
  const expected = documents.map(({ table, version, document }) => {
    const { upgrade, ...definition } = schema[table] as Table<object>;
    const isOld = upgrade !== undefined && version < (definition.version ?? 1);
    const restored = restoredDocument(definition, document);
    return { table, document: isOld ? upgrade(restored, version) : restored };
  });
  return { found, expected };
}
