import { readlink } from "node:fs/promises";
import { basename } from "node:path";
import { runProgram } from "./loop.js";

const COLUMNS = "MAJ:MIN,BACK-MAJ:MIN,BACK-INO";

/** Returns the path of the loop device with this number. */
export async function loopAt(number: string): Promise<string> {
  return `/dev/${basename(await readlink(`/sys/dev/block/${number}`))}`;
}

/** Returns the loop devices, with the file system and inode of their files. */
export async function loops(): Promise<readonly { readonly number: string; readonly file: string }[]> {
  const lines = await runProgram("losetup", ["--list", "--raw", "--noheadings", "--output", COLUMNS]);
  return lines.split("\n").flatMap((line) => {
    // Some versions pad numbers with escaped blanks.
    const [number, fileSystem, inode] = line.replaceAll("\\x20", " ").trim().split(/\s+/);
    return number && inode ? [{ number, file: `${fileSystem} ${inode}` }] : [];
  });
}
