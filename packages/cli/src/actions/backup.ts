import { renameSync, rmSync, statSync } from "node:fs";
import { resolve } from "node:path";
import { quoted } from "@diskmesh/domain";
import { statefulService } from "../mesh/stateful-service.js";
import { UsageError } from "../output/exit-codes.js";
import { writePieces } from "../output/pieces.js";
import type { Action } from "./action.js";

export const backup: Action = {
  usage: "backup <service> <file>",
  summary: "write a consistent backup of the registry or director to a file, which may contain secrets",
  example: "diskmesh backup registry registry.backup",
  isOpenEnded: true,
  run: async ({ mesh, output, args: [typed = "", name = ""], signal }) => {
    const service = statefulService(typed);
    const file = resolve(name);
    const draft = `${file}.part`;
    // Refuses other kinds of files: the final rename would replace a device and fail on a folder.
    if (statSync(file, { throwIfNoEntry: false })?.isFile() === false)
      throw new UsageError(`cannot write the backup: ${quoted(file)} is not a file`);
    try {
      await writePieces("the backup", draft, () => mesh.admin(service).createBackup({}, { signal }));
      // Loaded on use, because the help of all actions needs no storage.
      const { checkBackup } = await import("@diskmesh/tablet/backup-file");
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
