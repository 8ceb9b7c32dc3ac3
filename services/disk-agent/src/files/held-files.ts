import { DeviceIoError } from "@diskmesh/domain";
import type { DeviceFileOpener } from "./device-file.js";
import type { FileFacts, OpenedFile, OpenHandle } from "./open-file.js";

interface HeldFile {
  readonly opened: Promise<OpenedFile>;
  /** Number of opens that have not been closed. */
  users: number;
  /** Resolves when the descriptor is released. */
  closing?: Promise<void>;
}

/**
 * Opens each file once, with one descriptor and one lock, even when links or bind mounts give it several paths. A
 * second open would fail on the lock of the first.
 */
export class HeldFiles implements DeviceFileOpener {
  readonly #files: DeviceFileOpener;
  readonly clear?: NonNullable<DeviceFileOpener["clear"]>;
  /** Held files by file identity. */
  readonly #held = new Map<string, HeldFile>();

  constructor(files: DeviceFileOpener) {
    this.#files = files;
    if (files.clear !== undefined) this.clear = (path) => this.#clear(path);
  }

  look(path: string): Promise<FileFacts> {
    return this.#files.look(path);
  }

  async #clear(path: string): Promise<void> {
    const identity = await this.#files.look(path).then(
      (facts) => facts.identity,
      () => "",
    );
    if (!this.#held.has(identity)) await this.#files.clear?.(path);
  }

  async open(path: string): Promise<OpenedFile> {
    const facts = await this.#files.look(path);
    const { identity } = facts;
    let held = this.#held.get(identity);
    while (held?.closing) {
      await held.closing.catch(() => undefined);
      held = this.#held.get(identity);
    }
    if (held) held.users += 1;
    else {
      held = { opened: this.#open(path, identity), users: 1 };
      this.#held.set(identity, held);
    }
    try {
      const { handle } = await held.opened;
      return { ...facts, handle: this.#share(identity, held, handle) };
    } catch (error) {
      if (this.#held.get(identity) === held) this.#held.delete(identity);
      throw error;
    }
  }

  async #open(path: string, identity: string): Promise<OpenedFile> {
    const opened = await this.#files.open(path);
    if (opened.identity === identity) return opened;
    await opened.handle.close();
    throw new DeviceIoError(`device file ${JSON.stringify(path)} cannot be used: it was replaced while it was opened`);
  }

  #share(identity: string, held: HeldFile, handle: OpenHandle): OpenHandle {
    const close = async (): Promise<void> => {
      held.users -= 1;
      if (held.users > 0) return;
      held.closing = handle.close().finally(() => this.#held.delete(identity));
      await held.closing;
    };
    return { ...handle, close };
  }
}
