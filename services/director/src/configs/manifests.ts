import { storedLimits } from "../yaml/document.js";
import type { Manifest, ManifestLimits } from "../yaml/manifest.js";
import type { YamlReader } from "../yaml/reader.js";

/**
 * Maximum total length of cached manifests that nothing holds. Keeps the manifest of a deploy from its check until its
 * run.
 */
const MAX_REMEMBERED_LENGTH = 8 * 1024 * 1024;

interface Remembered {
  readonly manifest: Manifest;
  holders: number;
}

interface HeldManifest extends Disposable {
  readonly manifest: Manifest;
}

/**
 * Parses manifests and caches them. A deploy needs its manifest before every step, and planning is synchronous and
 * cannot wait for the parser. So a task must `hold` the manifest before it plans.
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

  /** Parses a manifest from a request. Throws InvalidArgumentError for a manifest that cannot be deployed. */
  async accept(text: string, signal: AbortSignal): Promise<Manifest> {
    const reading = { format: "manifest", text, limits: this.#limits } as const;
    using held = this.#hold(text, await this.#reader.read<"manifest">(reading, { signal }));
    return held.manifest;
  }

  /**
   * Parses and holds an accepted manifest. Limits are relaxed because an older release with other limits may have
   * accepted the manifest.
   */
  async hold(text: string, signal: AbortSignal): Promise<Disposable> {
    const known = this.#remembered.get(text);
    if (known !== undefined) return this.#hold(text, known.manifest);
    const { what } = this.#limits;
    const limits = { ...storedLimits(what), instances: Number.POSITIVE_INFINITY, ignoreJobs: true };
    const reading = { format: "manifest", text, limits } as const;
    return this.#hold(text, await this.#reader.read<"manifest">(reading, { stored: true, signal }));
  }

  /** Returns a manifest that `hold` has loaded and not yet released. */
  get(text: string): Manifest {
    const held = this.#remembered.get(text);
    if (held === undefined) throw new TypeError("the manifest was used before it was read");
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
