import { once } from "node:events";
import { createWriteStream, renameSync, rmSync } from "node:fs";
import { resolve } from "node:path";
import { messageOf } from "@diskmesh/domain";
import { checkBackup } from "@diskmesh/tablet/backup-file";
import type { Action } from "../action.js";
import { UsageError } from "../exit-codes.js";
import { statefulService } from "../stateful-service.js";

export const backup: Action = {
  usage: "backup <service> <file>",
  summary: "the state of the registry or director as it is at one moment, into one file; it may hold secrets",
  example: "diskmesh backup registry registry.backup",
  run: async ({ mesh, output, args: [typed = "", name = ""], signal }) => {
    const service = statefulService(typed);
    const file = resolve(name);
    const draft = `${file}.part`;
    try {
      await write(draft, () => mesh.admin(service).createBackup({}, { signal }));
      const { header, documents } = await checkBackup(draft);
      renameSync(draft, file);
      const { tabletName, tabletId, generation } = header;
      output.answer(
        { file, documents, tabletName, tabletId, generation },
        `${file}: ${documents} documents of tablet ${tabletName}, ${tabletId}, generation ${generation}`,
      );
    } finally {
      rmSync(draft, { force: true });
    }
  },
};

/** Synced to disk when it resolves. For its owner only: a director's state holds credentials. */
async function write(path: string, pieces: () => AsyncIterable<{ readonly piece: Buffer }>): Promise<void> {
  const file = createWriteStream(path, { mode: 0o600, flush: true });
  const failed = (error: unknown): never => {
    throw new UsageError(`cannot write the backup: ${messageOf(error)}`);
  };
  const closed = once(file, "close").catch(failed);
  // It may fail before anybody waits for it.
  closed.catch(() => {});
  await once(file, "open").catch(failed);
  try {
    for await (const { piece } of pieces()) if (!file.write(piece)) await once(file, "drain");
  } finally {
    file.end();
    await closed;
  }
}
