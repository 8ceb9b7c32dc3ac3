import { checkBackup, documentsOf } from "../backup/backup-file.js";
import { checksumInAnyOrder } from "../documents/checksums.js";
import type { Schema } from "../documents/schema.js";
import { Examination, type Examined } from "./examination.js";

/**
 * Reads a backup and checks each document against the schema. Throws InvalidArgumentError unless the backup is complete
 * and unchanged.
 */
export async function examineBackup(file: string, schema: Schema): Promise<Examined & { readonly tabletName: string }> {
  const { header } = await checkBackup(file);
  const found = new Examination(schema);
  for await (const { table, key, ...stored } of documentsOf(file))
    found.add(table, key, { ...stored, checksum: checksumInAnyOrder(table, key, stored) });
  const { tabletName, tabletId, incarnation, parentIncarnations, generation } = header;
  return { tabletName, claim: { tabletId, incarnation, parentIncarnations, generation }, ...found.result(true) };
}
