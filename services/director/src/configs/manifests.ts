import { storedLimits } from "../yaml/document.js";
import type { Manifest, ManifestLimits } from "../yaml/manifest.js";
import type { YamlReader } from "../yaml/reader.js";

/** Bound of the cached texts that nobody holds: a deploy is checked first, and then runs. */
const MAX_REMEMBERED_LENGTH = 8 * 1024 * 1024;

interface Remembered {
  readonly manifest: Manifest;
  holders: number;
}

interface HeldManifest extends Disposable {
  readonly manifest: Manifest;
}

/**
 * Reads manifests, each once: a deploy looks at its own before every step. Reading takes time, and steps are planned
 * without waiting: whoever plans holds its manifest first.
 */
export class Manifests {
  readonly #reader: Pick<YamlReader, "read">;
  readonly #limits: ManifestLimits;
  /** Manifests by text, in the order in which their last holder released them. */
  readonly #remembered = new Map<string, Remembered>();

  constructor(reader: Pick<YamlReader, "read">, limits: ManifestLimits) {
    this.#reader = reader;
    this.#limits = limits;
  }

  /** One that comes from outside. Throws InvalidArgumentError for what a deploy must not be given. */
  async accept(text: string, signal: AbortSignal): Promise<Manifest> {
    const reading = { format: "manifest", text, limits: this.#limits } as const;
    using held = this.#hold(text, await this.#reader.read<"manifest">(reading, { signal }));
    return held.manifest;
  }

  /** One that was accepted, perhaps by an older version. */
  async hold(text: string, signal: AbortSignal): Promise<Disposable> {
    const known = this.#remembered.get(text);
    if (known !== undefined) return this.#hold(text, known.manifest);
    const { what } = this.#limits;
    const limits = { ...storedLimits(what), instances: Number.POSITIVE_INFINITY, ignoreJobs: true };
    const reading = { format: "manifest", text, limits } as const;
    return this.#hold(text, await this.#reader.read<"manifest">(reading, { stored: true, signal }));
  }

  /** One that somebody holds. */
  get(text: string): Manifest {
    const held = this.#remembered.get(text);
    if (held === undefined) throw new TypeError("nobody holds that manifest");
    return held.manifest;
  }

  #hold(text: string, manifest: Manifest): HeldManifest {
    const remembered = this.#remembered.get(text) ?? { manifest, holders: 0 };
    remembered.holders++;
    this.#remembered.set(text, remembered);
    let held = true;
    return {
      manifest: remembered.manifest,
      [Symbol.dispose]: () => {
        if (held) this.#letGo(text, remembered);
        held = false;
      },
    };
  }

  #letGo(text: string, remembered: Remembered): void {
    if (--remembered.holders > 0) return;
    this.#remembered.delete(text);
    this.#remembered.set(text, remembered);
    const free = [...this.#remembered].filter(([, { holders }]) => holders === 0);
    let length = free.reduce((sum, [text]) => sum + text.length, 0);
    for (const [oldest] of free) {
      if (length <= MAX_REMEMBERED_LENGTH) return;
      this.#remembered.delete(oldest);
      length -= oldest.length;
    }
  }
}
