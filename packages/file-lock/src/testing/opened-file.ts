import { closeSync, openSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { temporaryFolder } from "@diskmesh/testkit";

/** A new file of zeros for each test, whose descriptors are closed after it. */
export class OpenedFile {
  path = "";
  readonly #opened: number[] = [];

  /** Must be called within a `describe`. */
  static forEachTest(sizeBytes: number): OpenedFile {
    const file = new OpenedFile();
    beforeEach(() => {
      file.path = join(temporaryFolder(), "file");
      writeFileSync(file.path, "");
      truncateSync(file.path, sizeBytes);
    });
    afterEach(() => {
      for (const fd of file.#opened.splice(0)) closeSync(fd);
    });
    return file;
  }

  open(flags: "r" | "r+" = "r+"): number {
    const fd = openSync(this.path, flags);
    this.#opened.push(fd);
    return fd;
  }
}
