import { spawnSync } from "node:child_process";
import { closeSync, existsSync, openSync, readdirSync, readFileSync, realpathSync, writeSync } from "node:fs";
import { basename, delimiter, dirname, join, relative } from "node:path";
import { repositoryFolder } from "../repository-folder.js";

/** Programs of the virtual machine, copied from this machine with their shared libraries. */
export const PROGRAMS = [
  ...[
    "mount",
    "umount",
    "insmod",
    "losetup",
    "blockdev",
    "blkdiscard",
    "fsfreeze",
    "sync",
    "dmsetup",
    "dd",
    "seq",
    "sh",
    "chroot",
  ],
  ...["ip", "ln", "mkdir", "rm", "rmdir", "sleep", "wg", "nft", "nsenter", "unshare"],
  ...["mkfs.ext4", "resize2fs", "e2fsck", "mkfs.xfs", "xfs_growfs", "xfs_repair"],
];

/** Locks of files, with the packages that find its native code. Bundles do not have them. */
const NATIVE = [
  ...["fs-native-extensions", "which-runtime", "require-addon"],
  ...["bare-addon-resolve", "bare-module-resolve", "bare-semver"],
];

const DIRECTORY = 0o040755;
const PROGRAM = 0o100755;

/** Writes a cpio archive of the format newc, which the kernel unpacks as its first file system. */
class Archive {
  readonly #file: number;
  readonly #names = new Set<string>();

  constructor(path: string) {
    this.#file = openSync(path, "w");
  }

  /** Adds a file with its folders. A second file of the same name is left out. */
  add(name: string, content: Buffer): void {
    this.#addFolder(dirname(name));
    this.#entry(name, PROGRAM, content);
  }

  /** Adds the files of a package as they are loaded on this machine's kind. */
  addPackage(folder: string): void {
    for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
      const file = join(entry.parentPath, entry.name);
      if (!entry.isFile() || (file.includes("/prebuilds/") && !file.includes("/linux-x64/"))) continue;
      this.add(`/code/node_modules/${basename(folder)}/${relative(folder, file)}`, readFileSync(file));
    }
  }

  close(): void {
    this.#entry("TRAILER!!!", 0, Buffer.alloc(0));
    closeSync(this.#file);
  }

  #addFolder(name: string): void {
    if (name === "." || name === "/") return;
    this.#addFolder(dirname(name));
    this.#entry(name, DIRECTORY, Buffer.alloc(0));
  }

  #entry(path: string, mode: number, content: Buffer): void {
    const name = path.replace(/^\//, "");
    if (this.#names.has(name)) return;
    this.#names.add(name);
    const fields = [this.#names.size, mode, 0, 0, 1, 0, content.length, 0, 0, 0, 0, name.length + 1, 0];
    const header = `070701${fields.map((field) => field.toString(16).padStart(8, "0")).join("")}${name}\0`;
    for (const part of [Buffer.from(header), content]) {
      writeSync(this.#file, part);
      writeSync(this.#file, Buffer.alloc(-part.length & 3));
    }
  }
}

/**
 * Writes an initramfs to `path`: node, PROGRAMS with their shared libraries, the files of the folder `code` as /code,
 * and `modules`, paths of kernel modules in the order in which they are loaded, as /modules.
 */
export function writeInitramfs(path: string, { code, modules }: { code: string; modules: readonly string[] }): void {
  const archive = new Archive(path);
  for (const [name, file] of [
    ["node", process.execPath] as const,
    ...PROGRAMS.map((name) => [name, programPath(name)] as const),
  ]) {
    if (file === undefined) throw new Error(`${name} is not on PATH`);
    archive.add(`/bin/${name}`, readFileSync(file));
    for (const library of librariesOf(file)) archive.add(library, readFileSync(library));
  }
  if (existsSync("/etc/mke2fs.conf")) archive.add("/etc/mke2fs.conf", readFileSync("/etc/mke2fs.conf"));
  for (const name of readdirSync(code)) archive.add(`/code/${name}`, readFileSync(join(code, name)));
  for (const name of NATIVE) archive.addPackage(join(repositoryFolder, "node_modules", name));
  for (const [index, file] of modules.entries())
    archive.add(`/modules/${String(index).padStart(3, "0")}-${basename(file)}`, readFileSync(file));
  archive.close();
}

/** Returns the path of a program on PATH or in a folder of programs for root; undefined for none. */
export function programPath(name: string): string | undefined {
  const folders = [...(process.env.PATH ?? "").split(delimiter), "/usr/sbin", "/sbin"];
  const found = folders.map((folder) => join(folder, name)).find((file) => existsSync(file));
  return found === undefined ? undefined : realpathSync(found);
}

/** Returns the paths at which the dynamic linker finds a program's libraries, and the path of the linker. */
function librariesOf(file: string): string[] {
  const { stdout } = spawnSync("ldd", [file], { encoding: "utf8" });
  return [...stdout.matchAll(/(\/\S+) \(0x/g)].map(([, library = ""]) => library);
}
