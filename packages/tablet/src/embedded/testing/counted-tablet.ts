import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { temporaryFolder } from "@diskmesh/testkit";
import { backupPieces } from "../../backup/backup-file.js";
import { table } from "../../documents/schema.js";
import type { TabletStorage } from "../../storage/storage.js";

interface Counted {
  readonly id: string;
  readonly text: string;
}

export const counted = { hosts: table<Counted>()({ key: ({ id }) => id }) };

/** Texts of the documents by key. */
export type Texts = Readonly<Record<string, string>>;

export function textsOf(text: string, documents: number): Texts {
  return Object.fromEntries(Array.from({ length: documents }, (_, n) => [`h${n}`, `${text} ${n}`]));
}

/** Makes a tablet with these documents, closed. */
export async function makeTablet(storage: TabletStorage, texts: Texts): Promise<void> {
  await storage.claim({ writer: "writer", address: "" });
  await storage.load(() => {});
  await storage.commit(changesOf(texts).map((change) => ({ ...change, previous: null })));
  await storage.close({ handOver: true });
}

/** Returns the documents of a tablet. */
export async function textsIn(storage: TabletStorage): Promise<Texts> {
  const texts: Record<string, string> = {};
  try {
    await storage.claim({ writer: "reader", address: "" });
    await storage.load((_, key, { document }) => {
      texts[key] = (document as Counted).text;
    });
    return texts;
  } finally {
    await storage.close({ handOver: true });
  }
}

/** Writes a backup of a tablet "registry" with these documents; returns its path. */
export function backupOf(texts: Texts): string {
  const header = { tabletName: "registry", tabletId: "t", incarnation: "i", parentIncarnations: [], generation: 1 };
  const file = join(temporaryFolder(), "backup");
  writeFileSync(file, [...backupPieces({ ...header, createdAtMs: 1 }, changesOf(texts))].join(""));
  return file;
}

function changesOf(texts: Texts) {
  return Object.entries(texts).map(([id, text]) => ({ table: "hosts", key: id, version: 1, document: { id, text } }));
}
