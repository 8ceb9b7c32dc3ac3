import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** Path of libfaketime on Debian, Fedora and Arch. */
const LIBRARIES = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"].map(
  (folder) => `${folder}/faketime/libfaketime.so.1`,
);

/** Wall clocks of single processes, which can be set while these run: libfaketime reads the offset from a file. */
export class Clocks {
  readonly #library = LIBRARIES.find(existsSync);

  constructor(private readonly folder: string) {}

  /** Returns why clocks cannot be set here; undefined when they can. */
  get problem(): string | undefined {
    return this.#library === undefined ? "libfaketime (Debian: apt-get install faketime) is not installed" : undefined;
  }

  /** Returns the environment in which a process's clock can be set; empty where that is impossible. */
  environment(name: string): Readonly<Record<string, string>> {
    if (this.#library === undefined) return {};
    this.set(name, 0);
    return {
      LD_PRELOAD: this.#library,
      FAKETIME_TIMESTAMP_FILE: this.#file(name),
      FAKETIME_CACHE_DURATION: "1",
      // Setting a clock changes neither the monotonic clock nor the times of files.
      FAKETIME_DONT_FAKE_MONOTONIC: "1",
      NO_FAKE_STAT: "1",
    };
  }

  /** Sets the clock of a process to this offset from the true time, in seconds. */
  set(name: string, seconds: number): void {
    writeFileSync(this.#file(name), `${seconds < 0 ? "" : "+"}${seconds}\n`);
  }

  #file(name: string): string {
    return join(this.folder, `${name}.clock`);
  }
}
