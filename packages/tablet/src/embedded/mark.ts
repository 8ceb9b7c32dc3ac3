import type { LineFiles } from "./line-file.js";

/** Exists once a folder holds a store, so that a folder whose files are gone is not taken for a new one. */
export const MARK = "holds-data";
const MARK_TEXT = "The files beside this one hold data of a diskmesh service. If they are gone, restore a backup.\n";

/** Makes the mark, durably. */
export async function markFolder(lines: LineFiles, folder: string): Promise<void> {
  await lines.write(folder, MARK, Buffer.from(MARK_TEXT));
}
