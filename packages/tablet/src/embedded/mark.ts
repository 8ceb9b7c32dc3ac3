import type { LineFiles } from "./line-file.js";

/** Name of a file that marks a folder as used, so that a folder that lost its files is not taken for a new one. */
export const MARK = "holds-data";
const MARK_TEXT = "The files beside this one hold data of a diskmesh service. If they are gone, restore a backup.\n";

export async function markFolder(lines: LineFiles, folder: string): Promise<void> {
  await lines.write(folder, MARK, Buffer.from(MARK_TEXT));
}
